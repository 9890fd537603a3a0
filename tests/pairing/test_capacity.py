"""How full the backlog is and will be, and how a fleet learns of it (docs/specification.md, sections 6 and 11)."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from pairing.backlog.administration import BacklogQueueInfo
from pairing.backlog.capacity import Fill, seen
from pairing.fleet.coordination import RedisCoordination
from pairing.fleet.shared_backlog import QueueNews, SharedBacklog
from pairing.operations.maintenance import Maintenance
from tests.pace import eventually

MB = 1024 * 1024
Q0 = "contoso/x-servicebus-transfer/0"


def test_the_time_until_full_follows_from_two_looks():
    fill = seen(seen(None, 100 * MB, 1000 * MB, 0.0), 160 * MB, 1000 * MB, 60.0)
    assert fill.rate == MB
    assert fill.full_in_s == 840


@pytest.mark.parametrize(
    ("size", "rate", "worrying", "reported"),
    [
        (799, 0.0, False, "80% full"),
        (800, 0.0, True, "80% full"),
        (100, 0.5, True, "10% full; full in 30 min at this rate"),
        (100, 0.4, False, "10% full; full in 38 min at this rate"),
        (900, -1.0, True, "90% full"),
        (1000, 1.0, True, "100% full"),
        (100, 900.0, True, "10% full; full in 1 s at this rate"),
    ],
)
def test_a_queue_worries_at_eighty_percent_or_half_an_hour_before_it_is_full(size, rate, worrying, reported):
    fill = Fill(size, 1000, 0.0, rate)
    assert fill.is_worrying is worrying
    assert fill.describe() == reported


def test_a_draining_queue_is_never_full():
    filling = seen(seen(None, 100, 1000, 0.0), 200, 1000, 10.0)
    assert filling.full_in_s == 80
    assert seen(filling, 150, 1000, 20.0).full_in_s is None


def test_looks_close_together_say_nothing_of_the_rate():
    first = seen(None, 100, 1000, 0.0)
    assert seen(first, 900, 1000, 1.0) == first


@pytest.fixture
def backlog(shared):
    return SharedBacklog(shared)


def test_one_process_of_a_fleet_looks_and_one_warns(backlog):
    assert backlog.claim_look(60)
    assert not backlog.claim_look(60)
    assert list(backlog.record({Q0: (850, 1000)}, 0.0)) == [Q0]
    assert backlog.record({Q0: (900, 1000)}, 60.0) == {}
    assert backlog.fills()[Q0].share == 0.9


def test_a_queue_that_was_emptied_and_fills_again_is_warned_of_again(backlog):
    backlog.record({Q0: (850, 1000)}, 0.0)
    backlog.record({Q0: (100, 1000)}, 60.0)
    assert list(backlog.record({Q0: (850, 1000)}, 120.0)) == [Q0]


def news(process: str, *, pulled: bool = True) -> QueueNews:
    return QueueNews(Q0, "no answer", process, datetime.now(UTC) + timedelta(minutes=1) if pulled else None)


def test_a_queue_that_fails_in_one_process_is_known_to_all_and_to_those_that_come_later(redis_url, redis_client):
    first, second, late = (RedisCoordination(redis_url, "contoso", name) for name in ("first", "second", "late"))
    heard: dict[str, list[QueueNews]] = {"first": [], "second": [], "late": []}
    for name, member in (("first", first), ("second", second), ("late", late)):
        member.on_queue = heard[name].append
    try:
        first.start(lambda change: None)
        second.start(lambda change: None)
        eventually(lambda: redis_client.pubsub_numsub("pairing:{contoso}:queues")[0][1] == 2)
        first.publish_queue(news("first"))
        eventually(lambda: heard["second"])
        late.start(lambda change: None)
        eventually(lambda: heard["late"])
        first.publish_queue(news("first", pulled=False))
        eventually(lambda: heard["second"][-1].until is None)
        assert heard["first"] == []
    finally:
        for member in (first, second, late):
            member.close()


@pytest.fixture
async def clients(world, redis_url):
    pair = f"contoso-{uuid4().hex[:8]}"
    first, second = [await world.open(coordination=redis_url, primary_namespace=pair) for _ in range(2)]
    yield first, second
    world.clients.remove(second)  # the queues are both's, and deleted once
    await world(second.close)


async def test_what_one_process_saw_of_the_fill_serves_all_and_is_warned_of_once(world, clients):
    first, second = clients
    await world.until(lambda: first.coordination.is_connected and second.coordination.is_connected)
    queue = first.backlog_paths[0]
    for client in (first, second):
        client._maintenance.stop()  # it would look itself
        client.fail_over("orders", "drill")
    looking = [Maintenance(client) for client in (first, second)]
    full = [_described(path, 85 if path == queue else 10) for path in first.backlog_paths]
    for maintenance in looking:
        await world(_look, maintenance, full)
    assert world.reported.count("capacity_warning") == 1
    for client in (first, second):
        assert not client.pair_state.rotation.usable(queue)


def _look(maintenance: Maintenance, queues: list) -> None:
    """What the maintenance does; both look here, where the clock would let one."""
    maintenance._must_look()
    maintenance._filled(queues)


def _described(path: str, size: int):
    return BacklogQueueInfo(path, 0, 1, 0, 0, 0, 0, size, 100, "Active", None, None, {})
