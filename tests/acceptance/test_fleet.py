"""One fleet of application processes around one Redis, with real kills; the local namespace's counters judge.

docs/specification.md, sections 5, 7 and 11. `FLEET_SIZE` says how many processes there are.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pairing.events import Event
from pairing.fleet.coordination import EVENTS
from pairing.fleet.presence import Presences, reported_states
from tests.acceptance.fleet import SIZE, Fleet, Member, Namespaces, RedisServer, SpawnServer
from tests.pace import Stopwatch

pytestmark = pytest.mark.acceptance
PING_S = 1.0
RECONCILE_S = 2.0


@pytest.fixture
def fleet(tmp_path: Path, spawn_server: SpawnServer) -> Iterator[Fleet]:
    """No application yet, but all they need."""
    namespaces = Namespaces("contoso", "orders", "payments")
    server = RedisServer(tmp_path)
    fleet = Fleet(tmp_path, namespaces, server, "contoso", spawn_server, RECONCILE_S)
    yield fleet
    fleet.end()
    server.thaw()
    server.kill()
    namespaces.end()


def force(fleet: Fleet) -> None:
    """An operator's word, as the dashboard gives it."""
    fleet.shared.fail_over("orders", "drill", operator="ada", process="web")


def all_have_seen(fleet: Fleet, *kinds: str, entity: str = "orders", within_s: float = 20) -> None:
    """Every process has seen exactly these transitions, each once: nothing flapped."""
    all_of(fleet, fleet.living, *kinds, entity=entity, within_s=within_s)


def all_of(fleet: Fleet, members: list[Member], *kinds: str, entity: str = "orders", within_s: float = 20) -> None:
    fleet.until(lambda: all(len(m.kinds(entity)) >= len(kinds) for m in members), within_s, f"all see {kinds}")
    assert {m.name: m.kinds(entity) for m in members} == {m.name: list(kinds) for m in members}


def pings(fleet: Fleet, entity: str = "orders") -> int:
    return fleet.namespaces.stats(entity).get("pings_swallowed", 0)


def one_ping_an_interval(fleet: Fleet, intervals: int = 3) -> None:
    """As many pings arrive as intervals pass, whatever the number of processes."""
    begin = fleet.clock()
    before = pings(fleet)
    fleet.until(lambda: pings(fleet) >= before + intervals, 10 * intervals, "pings go on")
    assert pings(fleet) - before <= (fleet.clock() - begin) / PING_S + 1


def reports(fleet: Fleet) -> list[Event]:
    """What stands in the stream for the control plane."""
    return [Event.from_json(fields["event"]) for _, fields in fleet.shared.redis.xrange(EVENTS)]


def test_an_operators_word_holds_in_every_process_until_it_is_released(fleet: Fleet) -> None:
    fleet.start(SIZE)
    fleet.all_go_on_sending("orders")
    force(fleet)
    all_have_seen(fleet, "forced")
    fleet.all_go_on_sending("orders")
    accepted_by_primary = fleet.namespaces.stats("orders")["enqueued"]
    fleet.all_go_on_sending("orders")
    one_ping_an_interval(fleet, 2)
    assert fleet.namespaces.stats("orders")["enqueued"] == accepted_by_primary
    assert {fleet.ask(member, "health", "orders")[:2] for member in fleet.members} == {("failed_over", "ada")}
    fleet.shared.release("orders", operator="ada", process="web")
    all_have_seen(fleet, "forced", "released", "recovered")
    fleet.all_go_on_sending("orders")
    assert fleet.namespaces.stats("orders")["enqueued"] > accepted_by_primary
    assert not any(member.raised for member in fleet.members), fleet.story()


def counted(fleet: Fleet) -> tuple[int, int]:
    """In how many processes `orders` is failed over where it is, of how many."""
    reported = reported_states(Presences(fleet.shared).living().values())
    return reported.failed_over_in("orders"), reported.processes


def test_a_process_whose_sends_are_accepted_disputes_the_failover_of_one_that_is_cut_off(fleet: Fleet) -> None:
    lonely, *others = fleet.start(SIZE, own_ways=True)
    fleet.all_go_on_sending("orders")
    assert lonely.way_to_primary is not None
    lonely.way_to_primary.cut()
    all_of(fleet, [lonely], "failing", "failed_over")
    fleet.until(
        lambda: all(fleet.ask(m, "health", "orders") == ("healthy", None, True) for m in others), 10, "they dispute it"
    )
    fleet.until(lambda: counted(fleet) == (1, SIZE), 20, "it is failed over in 1 of N")
    fleet.all_go_on_sending("orders")
    lonely.way_to_primary.mend()
    all_of(fleet, [lonely], "failing", "failed_over", "recovered")
    fleet.until(
        lambda: all(fleet.ask(m, "health", "orders") == ("healthy", None, False) for m in fleet.members), 10, "agreed"
    )
    fleet.until(lambda: counted(fleet) == (SIZE, SIZE), 20, "nobody disputes anything")
    assert not any(member.kinds("orders") for member in others), fleet.story()


def test_one_ping_an_entity_and_interval_whoever_dies_and_one_of_each_process_while_redis_is_away(fleet: Fleet) -> None:
    fleet.start(SIZE, entities=())
    force(fleet)
    all_have_seen(fleet, "forced")
    one_ping_an_interval(fleet)
    most = max(fleet.members, key=lambda member: int(fleet.ask(member, "pings")))
    fleet.kill(most)
    one_ping_an_interval(fleet)
    fleet.server.kill()
    before = {member.name: fleet.ask(member, "pings") for member in fleet.living}
    fleet.until(lambda: all(fleet.ask(m, "pings") >= before[m.name] + 2 for m in fleet.living), 20, "all ping")
    fleet.server.start()
    fleet.connected(fleet.living)
    joined = fleet.clock()
    fleet.until(lambda: fleet.clock() > joined + 2 * PING_S, 10, "pings that were begun alone are over")
    one_ping_an_interval(fleet)
    all_have_seen(fleet, "forced")


@pytest.mark.parametrize("how", ["killed", pytest.param("frozen", marks=pytest.mark.nightly)])
def test_with_redis_gone_all_send_on_decide_alone_and_agree_afterwards(fleet: Fleet, how: str) -> None:
    with Stopwatch() as watch:
        fleet.start(SIZE)
        fleet.all_go_on_sending("orders")
        fleet.server.kill() if how == "killed" else fleet.server.freeze()
        fleet.all_go_on_sending("orders")
        assert not any(member.raised for member in fleet.members)
        fleet.namespaces.break_("orders")
        all_have_seen(fleet, "failing", "failed_over")
        fleet.all_go_on_sending("orders")
        fleet.namespaces.mend()
        all_have_seen(fleet, "failing", "failed_over", "recovered")
        fleet.server.start() if how == "killed" else fleet.server.thaw()
        fleet.connected(fleet.members)
        fleet.until(lambda: fleet.shared.health()["orders"].state == "healthy", 20, "Redis knows")
        fleet.until(lambda: len(reports(fleet)) == 3 * SIZE, 20, "what happened meanwhile is reported")
        assert Counter((e.process, e.kind) for e in reports(fleet)) == {
            (m.process, kind): 1 for m in fleet.members for kind in ("failing", "failed_over", "recovered")
        }
        fleet.all_go_on_sending("orders", by=12)  # 3 s: longer than it takes to reconcile
        all_have_seen(fleet, "failing", "failed_over", "recovered")
    assert max(member.slowest_s for member in fleet.members) < 5 + watch.withheld


def test_processes_that_are_cut_off_go_on_alone_and_take_over_what_they_missed(fleet: Fleet) -> None:
    fleet.start(SIZE)
    fleet.all_go_on_sending("orders")
    cut, joined = fleet.members[: SIZE // 2], fleet.members[SIZE // 2 :]
    for member in cut:
        member.relay.cut()
    fleet.until(lambda: not any(fleet.ask(member, "is_connected") for member in cut), 20, "they are cut off")
    force(fleet)
    all_of(fleet, joined, "forced")
    fleet.all_go_on_sending("orders")
    assert not any(member.kinds("orders") for member in cut)
    for member in cut:
        member.relay.mend()
    all_have_seen(fleet, "forced")
    for member in cut:
        member.relay.cut()
    fleet.until(lambda: not any(fleet.ask(member, "is_connected") for member in cut), 20, "they are cut off again")
    fleet.shared.release("orders", operator="ada", process="web")
    all_of(fleet, joined, "forced", "released", "recovered")
    fleet.all_go_on_sending("orders")
    assert {tuple(member.kinds("orders")) for member in cut} == {("forced",)}
    for member in cut:
        member.relay.mend()
    all_of(fleet, cut, "forced", "recovered")
    assert not any(member.raised for member in fleet.members)


def test_a_backlog_queue_that_fails_one_process_is_left_by_all_until_it_is_back(fleet: Fleet) -> None:
    probation = {"backlog_probation": 3.0}
    (sender,) = fleet.start(1, durations=probation)
    others = fleet.start(SIZE - 1, entities=(), durations=probation)
    force(fleet)
    all_have_seen(fleet, "forced")
    fleet.all_of_them_send([sender], "orders")
    (queue,) = (path for path, count in fleet.namespaces.stored().items() if count)
    fleet.namespaces.break_backlog(queue)
    fleet.until(lambda: all(fleet.ask(member, "pulled") == [queue] for member in fleet.members), 20, "all leave it")
    fleet.all_of_them_send([sender], "orders")
    fleet.namespaces.mend()
    fleet.until(lambda: not any(fleet.ask(member, "pulled") for member in fleet.members), 20, "it is back")
    fleet.until(lambda: sender.kinds(queue) == ["queue_pulled", "queue_returned"], 20, "it is reported")
    assert not any(member.kinds(queue) for member in others), "what one has seen is reported once"
    assert not sender.raised
