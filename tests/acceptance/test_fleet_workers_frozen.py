"""Workers that are frozen and doubled: no fact is lost, doubled or taken back.

docs/specification.md, sections 7, 8, 10 and 11.
"""

import signal
from collections.abc import Iterator

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.management import ServiceBusAdministrationClient

from pairing import emulator_transport
from pairing.backlog.administration import CREATED_WITH
from pairing.messages.rewriting import to_backlog
from tests.acceptance.control_plane import ControlPlane
from tests.acceptance.fleet import Fleet, Namespaces, RedisServer, SpawnServer

pytestmark = [pytest.mark.nightly, pytest.mark.acceptance]
QUEUE, ORPHAN = (f"contoso/x-servicebus-transfer/{index}" for index in (0, 7))
FROZEN_S = 12.0  # longer than a lease, and than others leave what a collector has read and not saved


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ControlPlane, Namespaces, RedisServer]]:
    """Two namespaces, Redis, two workers and two beats, for all stories here."""
    folder = tmp_path_factory.mktemp("control-plane")
    namespaces, server = Namespaces("contoso", "orders", "payments"), RedisServer(folder)
    plane = ControlPlane(folder, namespaces, server, SAMPLE_INTERVAL_S="1")
    plane.start("beat", "beat-again", "one", "two")
    yield plane, namespaces, server
    plane.end()
    server.kill()
    namespaces.end()
    print((folder / "workers.log").read_text()[-20_000:])


@pytest.fixture
def plane(stage: tuple[ControlPlane, Namespaces, RedisServer]) -> Iterator[ControlPlane]:
    yield stage[0]
    for name in ("one", "two"):
        stage[0].signal(name, signal.SIGCONT)


@pytest.fixture
def fleet(
    stage: tuple[ControlPlane, Namespaces, RedisServer],
    spawn_server: SpawnServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Fleet]:
    _, namespaces, server = stage
    fleet = Fleet(tmp_path_factory.mktemp("fleet"), namespaces, server, "contoso", spawn_server)
    yield fleet
    fleet.shared.mark_healthy("orders", operator="ada", process="web")
    fleet.shared.resume_syphon(None)
    fleet.end()


@pytest.fixture
def both_at_work(plane: ControlPlane, fleet: Fleet) -> None:
    for name in ("one", "two"):
        fleet.until(lambda one=name: plane.is_at_work(one), 60, f"worker {name} is there")


def passes(fleet: Fleet, seconds: float) -> None:
    """So much time goes by, while the applications are listened to."""
    end = fleet.clock() + seconds
    fleet.until(lambda: fleet.clock() >= end, seconds + 30, "time passes")


@pytest.mark.usefixtures("both_at_work")
def test_events_and_usage_that_a_frozen_collector_has_read_are_stored_once_and_in_order(
    plane: ControlPlane, fleet: Fleet
) -> None:
    members = fleet.start(2, every_s=0.2)
    stored = "select reason from dashboard_failoverevent where entity = ? order by time, id"
    for name in ("one", "two"):
        for member in members:
            fleet.ask(member, "emit", 200)
        plane.signal(name, signal.SIGSTOP)
        for member in members:
            fleet.ask(member, "emit", 200)
        passes(fleet, FROZEN_S)
        plane.signal(name, signal.SIGCONT)
    expected = [str(number) for number in range(200)] * 4
    for member in members:
        fleet.until(lambda m=member: len(plane.rows(stored, f"of {m.name}")) >= 800, 60, f"events of {member.name}")
        assert [reason for (reason,) in plane.rows(stored, f"of {member.name}")] == expected
    for member in members:
        fleet.close(member)
        reported = f"the usage of {member.name} is reported once"
        fleet.until(lambda m=member: plane.used("send").get(m.process) == m.sent["orders"], 60, reported)


@pytest.mark.usefixtures("both_at_work")
def test_a_frozen_pinger_is_replaced_and_its_pings_do_not_come_in_a_burst_when_it_wakes(
    plane: ControlPlane, fleet: Fleet
) -> None:
    fleet.shared.fail_over("orders", "drill", operator="ada", process="web")

    def arrived() -> int:
        return fleet.namespaces.stats("orders").get("pings_swallowed", 0)

    fleet.until(lambda: arrived() >= 1, 30, "pings begin")
    for name in ("one", "two"):
        plane.signal(name, signal.SIGSTOP)
        before = arrived()
        fleet.until(lambda b=before: arrived() >= b + 4, 30, "the other worker pings")
        began, before = fleet.clock(), arrived()
        plane.signal(name, signal.SIGCONT)
        passes(fleet, 4)
        assert arrived() - before <= fleet.clock() - began + 2
        fleet.until(lambda one=name: plane.is_at_work(one), 30, "it is back")


@pytest.mark.usefixtures("both_at_work")
def test_a_frozen_sampler_takes_no_count_back_and_an_orphan_is_found_once(plane: ControlPlane, fleet: Fleet) -> None:
    fleet.shared.pause_syphon(None, operator="ada", reason="a drill")
    passes(fleet, 3)
    text = fleet.namespaces.strings[1]
    with ServiceBusAdministrationClient.from_connection_string(text, transport=emulator_transport()) as administration:
        administration.create_queue(ORPHAN, **CREATED_WITH)
    holds, depth = "select active from dashboard_backlogqueue where path = ?", 0
    reported: list[int] = []

    def count() -> int:
        found = plane.rows(holds, QUEUE)
        reported.append(found[0][0] if found else 0)
        return reported[-1]

    with ServiceBusClient.from_connection_string(text) as client, client.get_queue_sender(QUEUE) as sender:
        for turn in range(6):
            name = ("one", "two")[turn % 2]
            plane.freeze_idle(name)
            sender.send_messages([to_backlog(ServiceBusMessage("x"), "orders") for _ in range(10)])
            depth += 10
            fleet.until(lambda d=depth: count() == d, 30, "the other worker samples")
            plane.signal(name, signal.SIGCONT)
            looks = len(reported)
            fleet.until(lambda n=looks: count() and len(reported) > n + 20, 30, "the one that woke has had its say")
    assert reported == sorted(reported)
    samples = [n for (n,) in plane.rows("select messages from dashboard_pairdepth order by at") if n is not None]
    assert samples == sorted(samples)
    assert plane.rows("select is_orphan from dashboard_backlogqueue where path = ?", ORPHAN) == [(1,)]
    waiting = "select waiting from dashboard_entityhealth where path = 'orders'"
    fleet.until(lambda: plane.rows(waiting) == [(depth,)], 30, "it is known for whom they wait")
    fleet.shared.resume_syphon(None)
    fleet.until(lambda: plane.rows(waiting) == [(0,)], 60, "all is home, and the page says so")
