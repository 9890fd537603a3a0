"""A backlog queue that somebody deletes while clients live is created again (docs/specification.md, section 6)."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest
from azure.servicebus import ServiceBusMessage

from pairing import BacklogUnavailableError
from pairing.backlog.administration import backlog_queues

pytestmark = pytest.mark.sampled("world")

HOUR = timedelta(hours=1)


def delete(secondary, *paths: str) -> None:
    with secondary.administration() as administration:
        for path in paths:
            administration.delete_queue(path)


async def send_until_accepted(world, sender) -> None:
    async def is_accepted() -> bool:
        try:
            await world(sender.send_messages, ServiceBusMessage("x"))
        except BacklogUnavailableError:
            return False
        return True

    async with asyncio.timeout(60):
        while not await is_accepted():
            await asyncio.sleep(0.05)


async def test_deleted_queues_are_created_again_long_before_their_probation_is_over(world, secondary, queue):
    client = await world.open(backlog_probation=timedelta(minutes=30))
    delete(secondary, *client.backlog_paths)
    client.fail_over(queue, "test")
    sender = client.get_queue_sender(queue)
    await send_until_accepted(world, sender)
    await world.until(lambda: all(map(client.pair_state.rotation.usable, client.backlog_paths)))
    assert client.backlog_queue_count == 2
    count = world.reported.count  # who listens is called after the state has changed
    await world.until(lambda: count("queue_pulled") == count("queue_returned") > 0)
    with secondary.administration() as administration:
        infos = backlog_queues(administration, client.primary.namespace)
    assert [(info.index, info.deviations) for info in infos] == [(0, {}), (1, {})]
    assert sum(info.active for info in infos) == 1


async def test_as_long_as_a_queue_cannot_be_created_it_is_not_counted(world, secondary, queue):
    client = await world.open(backlog_queue_count=1)
    await world.warm(client, client.backlog_paths[0])  # by an open link the namespace says that it was deleted
    delete(secondary, *client.backlog_paths)
    secondary.fault(operation="admin", effect="status", status=503)
    client.fail_over(queue, "test")
    sender = client.get_queue_sender(queue)
    with pytest.raises(BacklogUnavailableError):
        await world(sender.send_messages, ServiceBusMessage("x"))
    assert client.backlog_queue_count == 0
    assert client.backlog_paths, "a syphon goes on looking for it"
    secondary.mend()
    await world.until(lambda: client.backlog_queue_count == 1)
    await world(sender.send_messages, ServiceBusMessage("x"))


async def test_one_process_of_a_fleet_creates_it_and_all_use_it_again(world, secondary, queue, redis_url, redis_client):
    pair = f"contoso-{uuid4().hex[:8]}"
    options = {"backlog_queue_count": 1, "backlog_probation": HOUR / 2, "creation_retry_interval": HOUR / 2}
    first, second = [await world.open(coordination=redis_url, primary_namespace=pair, **options) for _ in range(2)]
    [path] = first.backlog_paths
    for client in (first, second):
        await world.warm(client, path)
        await world.until(lambda client=client: client.coordination.is_connected)
    await world.until(lambda: redis_client.pubsub_numsub(f"pairing:{{{pair}}}:queues")[0][1] == 2)
    delete(secondary, path)
    for client in (first, second):
        client.fail_over(queue, "test")
        await send_until_accepted(world, client.get_queue_sender(queue))
        await world.until(lambda client=client: client.pair_state.rotation.usable(path))
    assert first.backlog_queue_count == second.backlog_queue_count == 1
    assert redis_client.exists(f"pairing:{{{pair}}}:queues-repair")
    world.clients.remove(second)  # the queue is both's, and deleted once
    await world(second.close)


async def test_a_syphon_drains_the_queue_that_was_created_in_the_place_of_another(world, primary, secondary, queue):
    client = await world.open(backlog_queue_count=1)
    [path] = client.backlog_paths
    async with world.syphon(client) as syphon:
        client.fail_over(queue, "test")
        sender = client.get_queue_sender(queue)
        await world(sender.send_messages, [ServiceBusMessage("lost with its queue"), ServiceBusMessage("too")])
        await world.until(lambda: path in syphon.progress and syphon.progress[path].deferred == 2)
        before = syphon.progress[path].ledger
        delete(secondary, path)
        await world.until(lambda: syphon.progress[path].ledger is not before)  # nobody has sent: the syphon has seen it
        await send_until_accepted(world, sender)
        await world(client.mark_healthy, queue)
        await world.until(lambda: syphon.progress[path].ledger.count("restored") == 1)
        ledger = syphon.progress[path].ledger
        assert (ledger.balance(0).enqueued, ledger.balance(0).missing) == (1, 0)
    assert [str(message) for message in primary.drain(queue)] == ["x"]
