"""A backlog queue that fails in one process leaves the rotation of all; one look at the fill serves all
(docs/specification.md, sections 6 and 11)."""

from uuid import uuid4

import pytest

from pairing.backlog.administration import BacklogQueueInfo
from pairing.fleet.shared_backlog import SharedBacklog
from pairing.operations.maintenance import MaintenanceCore
from pairing.pair import SenderBacklog


@pytest.fixture
async def clients(world, redis_url):
    pair = f"contoso-{uuid4().hex[:8]}"
    first, second = [await world.open(coordination=redis_url, primary_namespace=pair) for _ in range(2)]
    yield first, second
    world.clients.remove(second)  # the queues are both's, and deleted once
    await world(second.close)


async def test_a_queue_that_fails_in_one_process_leaves_the_rotation_of_the_others(world, clients, redis_client):
    first, second = clients
    channel = SharedBacklog(second.coordination.shared).channel
    await world.until(lambda: redis_client.pubsub_numsub(channel)[0][1] == 2)
    queue = first.backlog_paths[0]
    SenderBacklog(first.pair_state).failed(queue, ConnectionError("no answer"), first.clock.now(), first.clock.now())
    await world.until(lambda: not second.pair_state.rotation.usable(queue))
    assert world.reported.count("queue_pulled") == 1
    SenderBacklog(first.pair_state).accepted(queue, first.clock.now())
    await world.until(lambda: second.pair_state.rotation.usable(queue))
    assert world.reported.count("queue_returned") == 1


async def test_what_one_process_saw_of_the_fill_serves_all_and_is_warned_of_once(world, clients):
    first, second = clients
    await world.until(lambda: first.coordination.is_connected and second.coordination.is_connected)
    queue = first.backlog_paths[0]
    for client in (first, second):
        client.fail_over("orders", "drill")
    looking = [MaintenanceCore(client) for client in (first, second)]
    full = [_described(path, 85 if path == queue else 10) for path in first.backlog_paths]
    for maintenance in looking:
        await world(_look, maintenance, full)
    assert world.reported.count("capacity_warning") == 1
    for client in (first, second):
        assert not client.pair_state.rotation.usable(queue)


def _look(maintenance: MaintenanceCore, queues: list) -> None:
    """What the maintenance does; both look here, where the clock would let one."""
    maintenance._must_look()
    maintenance._filled(queues)


def _described(path: str, size: int):
    return BacklogQueueInfo(path, 0, 1, 0, 0, 0, 0, size, 100, "Active", None, None, {})
