"""Queues through the SDK's asyncio client: the same promises (docs/wire.md)."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage, ServiceBusReceiveMode, ServiceBusSubQueue
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import (
    MessageSizeExceededError,
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    SessionCannotBeLockedError,
)

pytestmark = pytest.mark.contract


@pytest.fixture
async def aio_client(connection_string):
    async with ServiceBusClient.from_connection_string(connection_string, retry_total=0) as client:
        yield client


async def test_messages_are_sent_received_and_settled_in_every_way(aio_client, make_queue):
    queue = make_queue(max_delivery_count=5)
    async with aio_client.get_queue_sender(queue) as sender, aio_client.get_queue_receiver(queue) as receiver:
        await sender.send_messages([ServiceBusMessage(str(number)) for number in range(5)])
        batch = await sender.create_message_batch()
        batch.add_message(ServiceBusMessage("5"))
        await sender.send_messages(batch)
        messages = []
        while len(messages) < 6:
            messages += await receiver.receive_messages(6 - len(messages), max_wait_time=10)
        assert [str(message) for message in messages] == ["0", "1", "2", "3", "4", "5"]
        await receiver.renew_message_lock(messages[0])
        await receiver.complete_message(messages[0])
        await receiver.abandon_message(messages[1])
        await receiver.dead_letter_message(messages[2], reason="why")
        await receiver.defer_message(messages[3])
        await asyncio.gather(*(receiver.complete_message(message) for message in messages[4:]))
        (again,) = await receiver.receive_messages(1, max_wait_time=60)
        assert (str(again), again.delivery_count) == ("1", 1)
        await receiver.complete_message(again)
        (deferred,) = await receiver.receive_deferred_messages(messages[3].sequence_number)
        await receiver.complete_message(deferred)
        assert await receiver.peek_messages(5, sequence_number=1) == []
        with pytest.raises(MessageSizeExceededError):
            await sender.send_messages(ServiceBusMessage(b"x" * 262_144))
    async with aio_client.get_queue_receiver(
        queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
    ) as dead_letters:
        (dead,) = await dead_letters.receive_messages(1, max_wait_time=60)
        assert (str(dead), dead.dead_letter_reason) == ("2", "why")


async def test_messages_are_scheduled_and_cancelled(aio_client, make_queue):
    queue = make_queue()
    async with aio_client.get_queue_sender(queue) as sender, aio_client.get_queue_receiver(queue) as receiver:
        now = datetime.now(UTC)
        cancelled = await sender.schedule_messages(ServiceBusMessage("never"), now + timedelta(seconds=2))
        await sender.schedule_messages(ServiceBusMessage("soon"), now + timedelta(seconds=2))
        await sender.cancel_scheduled_messages(cancelled)
        (message,) = await receiver.receive_messages(1, max_wait_time=60)
        assert str(message) == "soon"
        await receiver.complete_message(message)


async def test_sessions_are_locked_kept_and_given_back(aio_client, make_queue):
    queue = make_queue(requires_session=True)
    async with aio_client.get_queue_sender(queue) as sender:
        await sender.send_messages([ServiceBusMessage(body, session_id="s") for body in ("a", "b")])
    async with aio_client.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=10) as receiver:
        assert receiver.session.session_id == "s"
        await receiver.session.set_state("state")
        await receiver.session.renew_lock()
        with pytest.raises(SessionCannotBeLockedError):
            await aio_client.get_queue_receiver(queue, session_id="s").__aenter__()
        got = []
        while len(got) < 2:
            for message in await receiver.receive_messages(2, max_wait_time=10):
                await receiver.complete_message(message)
                got.append(str(message))
        assert got == ["a", "b"]
    with pytest.raises(OperationTimeoutError):
        await aio_client.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1).__aenter__()
    async with aio_client.get_queue_receiver(queue, session_id="s") as receiver:
        assert await receiver.session.get_state() == b"state"


async def test_a_wrong_key_opens_nothing(connection_string, make_queue):
    spoiled = connection_string.replace("SharedAccessKey=", "SharedAccessKey=not-")
    async with ServiceBusClient.from_connection_string(spoiled, retry_total=0) as client:
        with pytest.raises(ServiceBusAuthenticationError):
            await client.get_queue_sender(make_queue()).__aenter__()
