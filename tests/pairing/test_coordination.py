"""A process takes part in its fleet, and decides alone where Redis is away (docs/specification.md, section 11)."""

import threading
from datetime import UTC, datetime

import pytest
import redis

from pairing.events import Event
from pairing.fleet.coordination import RedisCoordination
from pairing.fleet.facts import Facts
from pairing.fleet.shared_health import SharedHealth
from pairing.fleet.shared_state import EVENTS, SharedState
from pairing.operations.pinger import PLACES
from tests.acceptance.fleet import RedisServer
from tests.pace import Stopwatch, eventually
from tests.pairing import leftovers

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Process:
    """One process of the fleet, and what it was reported."""

    def __init__(self, url: str, name: str) -> None:
        self.coordination = RedisCoordination(url, "contoso", name)
        self.reported: list[SharedHealth] = []
        self.coordination.start(self.reported.append)

    def hears(self, state: str) -> None:
        """Wait until this is the last state that it was reported."""
        eventually(lambda: self.reported and self.reported[-1].state == state)


@pytest.fixture
def join(server):
    processes = []

    def one(name: str) -> Process:
        processes.append(Process(server.url, name))
        eventually(lambda: processes[-1].coordination.is_connected)
        return processes[-1]

    yield one
    for process in processes:
        process.coordination.close()
    assert not leftovers.threads()


def shared(server: RedisServer) -> SharedState:
    return SharedState(redis.Redis.from_url(server.url, decode_responses=True), "contoso")


def change(state: str, version: int = 0) -> SharedHealth:
    return SharedHealth("orders", state, NOON, "r", None, None, "organic", version, "")


def event(number: int) -> Event:
    return Event(f"{number:032x}", NOON, "contoso", "orders", "failing", "r", "p")


def test_one_process_s_failover_and_recovery_are_news_to_all_but_itself_and_its_failing_is_shown(server, join):
    one, two = join("one"), join("two")
    one.coordination.publish(change("failing"))
    eventually(lambda: "orders" in shared(server).health())
    one.coordination.publish(change("failed_over"))
    two.hears("failed_over")
    one.coordination.publish(change("healthy"))
    two.hears("healthy")
    assert [(news.state, news.process) for news in two.reported] == [("failed_over", "one"), ("healthy", "one")]
    assert one.reported == []


def test_who_comes_later_or_is_contradicted_is_informed_of_what_stands(server, join):
    shared(server).fail_over("orders", "drill", operator="ada", process="web")
    one = join("one")
    one.hears("failed_over")
    one.coordination.publish(change("healthy", version=0), recovers=False)
    eventually(lambda: len(one.reported) == 2)
    assert one.reported[-1].held_by == "ada"


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "frozen"])
def test_a_redis_that_does_not_answer_blocks_nobody_and_the_news_is_reported_when_it_is_back(server, join, is_killed):
    one, two = join("one"), join("two")
    server.kill() if is_killed else server.freeze()
    with Stopwatch() as watch:
        for number in range(1000):
            one.coordination.publish(change("failed_over"))
            one.coordination.report(event(number))
    assert watch.took < 1
    eventually(lambda: not one.coordination.is_connected)
    assert one.coordination.claim_ping("orders", 60) is None
    server.start() if is_killed else server.thaw()
    two.hears("failed_over")
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        eventually(lambda: client.xlen(EVENTS) >= 1000)
        ids = [Event.from_json(fields["event"]).id for _, fields in client.xrange(EVENTS)]
    assert list(dict.fromkeys(ids)) == [event(number).id for number in range(1000)]
    assert len(ids) == 1000 or not is_killed, "what a frozen one did not confirm is reported again"
    eventually(lambda: one.coordination.is_connected)
    assert one.coordination.claim_ping("orders", 60) is True


def test_each_ping_that_is_claimed_at_once_has_a_connection(server):
    """redis-py gives 100; to those beyond, Redis seemed away, and with it to the whole process."""
    pool = RedisCoordination(server.url, "contoso", "host:1:abc")._redis.connection_pool
    taken = {pool.get_connection() for _ in range(PLACES)}
    assert len(taken) == PLACES
    pool.disconnect()


def test_a_redis_that_comes_back_empty_is_informed_what_the_fleet_knows(server, join):
    one, two = join("one"), join("two")
    forced = shared(server).fail_over("orders", "drill", operator="ada", process="web")
    one.hears("failed_over")
    two.hears("failed_over")
    server.kill()
    server.start()
    eventually(lambda: shared(server).health() == {"orders": forced})
    assert len(one.reported) == len(two.reported) == 1


def test_the_outbox_is_bounded_and_drops_the_oldest_events_not_without_a_word(caplog):
    facts, events, delivered = Facts(threading.Condition()), [event(number) for number in range(20_010)], []
    for one in events:
        facts.add_event(one)
    while facts:
        facts.deliver(delivered.extend, delivered.extend)
    assert delivered == events[10:]
    assert [record.levelname for record in caplog.records if "oldest" in record.getMessage()] == ["ERROR"]


def test_a_recovery_that_waits_in_the_outbox_is_not_lost_to_a_failure_after_it(server, join):
    store = shared(server)
    held = store.fail_over("orders", "drill", operator="ann", process="web")
    one = RedisCoordination(server.url, "contoso", "one")
    one.publish(change("healthy", version=held.version))
    one.publish(change("failing", version=held.version))
    one.publish(change("healthy", version=held.version), recovers=False)
    one._report_all()
    one.close()
    assert store.health()["orders"].state == "healthy"


def test_closing_shows_what_is_left_to_a_redis_that_is_back_in_time(server, join, monkeypatch):
    monkeypatch.setattr("pairing.fleet.coordination._CLOSING_S", 60.0)
    one = join("one")
    server.kill()
    for number in range(2000):  # more than one batch
        one.coordination.report(event(number))
    closing = threading.Thread(target=one.coordination.close)
    closing.start()
    eventually(lambda: not one.coordination.is_connected)
    server.start()
    closing.join(60)
    assert not closing.is_alive()
    with redis.Redis.from_url(server.url) as client:
        assert client.xlen(EVENTS) == 2000


def test_a_redis_that_refuses_this_client_is_reported_once(caplog):
    coordination, refusals = RedisCoordination("redis://127.0.0.1:1/0", "contoso", "one"), []
    coordination.on_refused = refusals.append
    for error in (*2 * [redis.AuthenticationError("WRONGPASS")], redis.ConnectionError("refused")):
        coordination._cut_off(error)
    assert refusals == ["WRONGPASS; this process decides alone"]
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize("command", ["xadd", "subscribe", "time"])
def test_a_right_that_is_missing_is_reported_once(server, command):
    with redis.Redis.from_url(server.url) as client:
        client.execute_command("ACL", "SETUSER", "limited", "on", ">x", "~*", "&*", "+@all", f"-{command}")
    coordination = RedisCoordination(server.url.replace("//", "//limited:x@"), "contoso", "one")
    refusals, looks = [], []
    coordination._clock.look = lambda now: looks.append(1) or now()
    coordination.on_refused = lambda why: refusals.append(why) or coordination.report(event(len(refusals)))
    coordination.report(event(0))
    coordination.start(lambda news: None)
    eventually(lambda: refusals and len(looks) > 4)
    coordination.close()
    assert len(refusals) == 1


def test_a_password_in_the_url_is_revealed_to_nobody(caplog):
    coordination = RedisCoordination("redis://:secret@127.0.0.1:1/0", "contoso", "one")
    coordination.start(lambda news: None)
    coordination.report(event(1))
    coordination.close()
    assert "secret" not in caplog.text + repr(coordination)
