"""What a fleet reports reaches database and usage files once, whoever is killed; workers hand over.

docs/specification.md, sections 7, 8, 10 and 11.
"""

import signal
from collections.abc import Iterator

import pytest

from pairing.fleet.coordination import EVENTS, USAGE
from tests.acceptance.control_plane import ControlPlane, running_plane
from tests.acceptance.fleet import Fleet, RedisServer
from tests.pace import Stopwatch
from workers.streams import GROUP

pytestmark = pytest.mark.acceptance
MEMBERS = 3
REPORTED_EVERY_S = 10.0


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer) -> Iterator[ControlPlane]:
    """Two workers and beat, for all stories here."""
    with running_plane(tmp_path_factory.mktemp("control-plane"), redis_server, "beat", "one", "two") as plane:
        yield plane


def holders(fleet: Fleet) -> set[int]:
    """The processes that hold the leases of both backlog queues; nobody while not all are held."""
    leases = fleet.shared.leases()
    return {int(owner.split(":")[1]) for owner in leases.values()} if len(leases) == 2 else set()


def held_by(plane: ControlPlane, fleet: Fleet) -> str:
    """The worker that brings home both queues, or one of two."""
    names = fleet.until(lambda: {plane.name_of(pid) for pid in holders(fleet)} - {None}, 60, "workers hold the leases")
    return str(sorted(str(name) for name in names)[0])


def test_every_event_is_stored_once_and_in_order_though_a_collector_is_killed_and_everything_comes_twice(
    plane: ControlPlane, fleet: Fleet
) -> None:
    members = fleet.start(MEMBERS, entities=())
    held_by(plane, fleet)
    for member in members:
        fleet.ask(member, "emit", 700)
    fleet.until(
        lambda: plane.rows("select count(*) from dashboard_failoverevent where kind = 'set_aside'")[0][0], 30, ""
    )
    plane.kill("one")
    for member in members:
        fleet.ask(member, "emit", 700)
    redis = fleet.shared.redis
    for _, fields in redis.xrange(EVENTS, count=500):  # as if the answer to the first report had been lost
        redis.xadd(EVENTS, fields)
    plane.start("one")
    query = "select reason from dashboard_failoverevent where entity = ? order by time, id"
    for member in members:
        fleet.until(
            lambda m=member: len(plane.rows(query, f"of {m.name}")) >= 1400, 60, f"events of {member.name} are stored"
        )
    fleet.until(lambda: redis.xlen(EVENTS) == 0, 30, "the stream is empty")
    reported = [str(number) for number in range(700)] * 2
    assert {m.name: [r for (r,) in plane.rows(query, f"of {m.name}")] == reported for m in members} == {
        m.name: True for m in members
    }


def pending(fleet: Fleet) -> int:
    return int(fleet.shared.redis.xpending(USAGE, GROUP)["pending"])


@pytest.mark.nightly
def test_usage_is_reported_once_though_collectors_are_killed_and_a_crash_loses_one_interval_at_most(
    plane: ControlPlane, fleet: Fleet
) -> None:
    crashing, *closing = fleet.start(MEMBERS, every_s=0.2)
    began = fleet.clock()
    with Stopwatch() as watch:
        fleet.until(lambda: plane.used("send").get(crashing.process), 30, "usage is reported by time")
    assert watch.took < REPORTED_EVERY_S + 10
    fleet.until(lambda: pending(fleet), 30, "a collector holds usage that it has not written yet")
    for name in ("one", "two"):
        plane.kill(name)
    fleet.until(lambda: fleet.clock() > began + 1.2 * REPORTED_EVERY_S, 30, "an interval is over")
    fleet.kill(crashing)
    for member in closing:
        fleet.close(member)
    plane.start("one", "two")
    for member in closing:
        fleet.until(
            lambda m=member: plane.used("send").get(m.process) == m.sent["orders"],
            60,
            f"{member.name}'s sends are reported",
        )
    lost = crashing.sent["orders"] - plane.used("send")[crashing.process]
    assert 0 <= lost <= 1 + len([at for at in crashing.sent_at if at > crashing.sent_at[-1] - REPORTED_EVERY_S - 2])
    assert lost < crashing.sent["orders"]


def test_a_worker_asked_to_stop_hands_its_queues_over_within_3_s_and_a_killed_one_loses_them_within_10(
    plane: ControlPlane, fleet: Fleet
) -> None:
    first = held_by(plane, fleet)
    second = "two" if first == "one" else "one"
    fleet.until(lambda: plane.is_at_work(second), 60, "the other worker is there")
    leaving, staying = plane.workers[first].pid, plane.workers[second].pid
    with Stopwatch() as handed_over:
        plane.signal(first, signal.SIGTERM)
        fleet.until(lambda: holders(fleet) == {staying}, 30, "the other worker holds all leases")
    plane.workers.pop(first).wait(60)
    plane.start(first)
    fleet.until(lambda: plane.is_at_work(first), 60, "it is back")
    fresh = plane.workers[first].pid
    with Stopwatch() as taken_over:
        plane.kill(second)
        fleet.until(lambda: holders(fleet) == {fresh}, 60, "the survivor holds all leases")
    plane.start(second)
    assert leaving not in holders(fleet)
    assert handed_over.took < 3
    assert taken_over.took < 10


def test_full_queues_of_other_tasks_do_not_delay_a_ping(plane: ControlPlane, fleet: Fleet) -> None:
    for name in ("one", "two"):
        fleet.until(lambda one=name: plane.is_at_work(one), 60, f"worker {name} is there")
    plane.kill("two")
    tasks: dict[str, tuple[object, ...]] = {
        "syphons.host": ("contoso",),
        "pipeline.wanted": (),
        "samples.sample": ("contoso",),
        "backlog.due": (),
    }
    try:
        plane.freeze_idle("one")  # or it would be through with them before the last is there
        plane.flood(tasks, 1000)
        before = fleet.namespaces.stats("orders").get("pings_swallowed", 0)
        fleet.shared.fail_over("orders", "drill", operator="ada", process="web")  # from now on, pings are due
    finally:
        plane.signal("one", signal.SIGCONT)
    fleet.until(lambda: fleet.namespaces.stats("orders").get("pings_swallowed", 0) > before, 30, "a ping")
    left = fleet.shared.redis.llen("syphons") + fleet.shared.redis.llen("pipeline")
    plane.start("two")
    assert left > 0, "the ping came after the tasks that were queued before it was due"
