"""What the SDK's users take for granted of queues and subscriptions, through its asyncio client."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.servicebus import (
    ServiceBusMessage,
    ServiceBusMessageState,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from azure.servicebus._base_handler import ServiceBusSharedKeyCredential
from azure.servicebus.aio import AutoLockRenewer, ServiceBusClient
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType
from azure.servicebus.exceptions import (
    MessageAlreadySettled,
    MessageLockLostError,
    MessageNotFoundError,
    MessageSizeExceededError,
    ServiceBusAuthenticationError,
    ServiceBusError,
)

from tests.pace import slowed

pytestmark = pytest.mark.contract

DELETING = ServiceBusReceiveMode.RECEIVE_AND_DELETE
DEAD = {"sub_queue": ServiceBusSubQueue.DEAD_LETTER, "receive_mode": DELETING}


@pytest.fixture
async def aio_client(connection_string):
    async with ServiceBusClient.from_connection_string(connection_string, retry_total=0) as client:
        yield client


async def take(receiver, count):
    messages = []
    while len(messages) < count:
        messages += await receiver.receive_messages(count - len(messages), max_wait_time=10)
    return messages


async def wait_until(moment):
    async with asyncio.timeout(30):
        while datetime.now(UTC) <= moment:
            await asyncio.sleep(0.05)


async def test_iterating_may_stop_go_on_and_be_nested(aio_client, make_queue):
    queue = make_queue()
    async with (
        aio_client.get_queue_sender(queue) as sender,
        aio_client.get_queue_receiver(queue, max_wait_time=2) as receiver,
    ):
        await sender.send_messages([ServiceBusMessage(body) for body in "0123456789"])
        seen = []

        async def note(message):
            await receiver.complete_message(message)
            seen.append((str(message), message.delivery_count))

        async for message in receiver:
            await note(message)
            if len(seen) == 3:
                break
        async for message in receiver:
            await note(message)
            for batched in await receiver.receive_messages(2, max_wait_time=5):
                await note(batched)
            async for inner in receiver:
                await note(inner)
        assert seen == [(body, 0) for body in "0123456789"]
        with pytest.raises(StopAsyncIteration):
            await receiver.__anext__()
        with pytest.raises(MessageAlreadySettled):
            await receiver.complete_message(message)


async def test_messages_that_come_while_nobody_receives_are_there_for_the_next_receiver(aio_client, make_queue):
    queue = make_queue(lock_duration=timedelta(seconds=5))
    async with (
        aio_client.get_queue_sender(queue) as sender,
        aio_client.get_queue_receiver(queue) as idle,
    ):
        await sender.send_messages([ServiceBusMessage(body) for body in "01234"])
        first = []
        while len(first) < 5:
            first += await idle.receive_messages(10, max_wait_time=10)  # leaves credit behind
        for message in first:
            await idle.complete_message(message)
        await sender.send_messages([ServiceBusMessage(body) for body in "56789"])
        async with aio_client.get_queue_receiver(queue) as other:
            rest = await take(other, 5)
            assert sorted(str(message) for message in rest) == list("56789")
            for message in rest:
                await other.complete_message(message)
        assert await idle.peek_messages(10, sequence_number=1) == []


async def test_dead_letters_of_a_prefetching_receiver_say_why(aio_client, make_queue):
    queue = make_queue()
    async with (
        aio_client.get_queue_sender(queue) as sender,
        aio_client.get_queue_receiver(queue, prefetch_count=10) as receiver,
    ):
        await sender.send_messages([ServiceBusMessage(body) for body in "0123456789"])
        for message in await take(receiver, 10):
            await receiver.dead_letter_message(message, reason="why", error_description="because")
        assert await receiver.receive_messages(1, max_wait_time=1) == []
    async with aio_client.get_queue_receiver(queue, **DEAD) as dead_letters:
        for message, body in zip(await take(dead_letters, 10), "0123456789", strict=True):
            assert (str(message), message.dead_letter_reason) == (body, "why")
            assert message.dead_letter_error_description == "because"
            assert message.application_properties[b"DeadLetterErrorDescription"] == b"because"


async def test_deferred_messages_keep_their_state_until_they_are_settled(aio_client, make_queue):
    queue = make_queue()
    async with (
        aio_client.get_queue_sender(queue) as sender,
        aio_client.get_queue_receiver(queue) as receiver,
        aio_client.get_queue_receiver(queue, receive_mode=DELETING) as deleting,
    ):
        await sender.send_messages([ServiceBusMessage(body) for body in "012"])
        messages = await take(receiver, 3)
        assert {message.state for message in messages} == {ServiceBusMessageState.ACTIVE}
        for message in messages:
            await receiver.defer_message(message)
        numbers = [message.sequence_number for message in messages]
        with pytest.raises(MessageNotFoundError):
            await receiver.receive_deferred_messages([numbers[2], numbers[2] + 1])
        first, second = await receiver.receive_deferred_messages(numbers[:2], timeout=10)
        assert first.state == second.state == ServiceBusMessageState.DEFERRED
        before = first.locked_until_utc
        await wait_until(datetime.now(UTC) + timedelta(milliseconds=50))
        await receiver.renew_message_lock(first)
        assert first.locked_until_utc > before
        await receiver.complete_message(first)
        await receiver.dead_letter_message(second)
        (third,) = await deleting.receive_deferred_messages(numbers[2])
        assert str(third) == "2"
        with pytest.raises(ValueError, match="RECEIVE_AND_DELETE"):
            await deleting.complete_message(third)
        for gone in numbers:
            with pytest.raises(MessageNotFoundError):
                await receiver.receive_deferred_messages(gone)


async def test_a_lock_lapses_unless_it_is_renewed(aio_client, make_queue):
    queue = make_queue(lock_duration=timedelta(seconds=5))
    async with (
        aio_client.get_queue_sender(queue) as sender,
        AutoLockRenewer() as renewer,
        aio_client.get_queue_receiver(queue) as receiver,
    ):
        await sender.send_messages([ServiceBusMessage(body) for body in ("renewed", "lapsed")])
        renewed, lapsed = await take(receiver, 2)
        renewer.register(receiver, renewed)
        await wait_until(lapsed.locked_until_utc + timedelta(milliseconds=500))
        await receiver.complete_message(renewed)
        with pytest.raises(MessageLockLostError):
            await receiver.complete_message(lapsed)
        with pytest.raises(MessageLockLostError):
            await receiver.renew_message_lock(lapsed)
        (again,) = await take(receiver, 1)
        assert (str(again), again.delivery_count) == ("lapsed", 1)
        await receiver.complete_message(again)


async def test_a_message_is_settled_though_its_link_is_gone(aio_client, make_queue):
    queue = make_queue()
    async with aio_client.get_queue_sender(queue) as sender, aio_client.get_queue_receiver(queue) as receiver:
        await sender.send_messages(ServiceBusMessage("x"))
        (message,) = await take(receiver, 1)
        await receiver._handler._link.detach()
        await receiver.complete_message(message)
    async with aio_client.get_queue_receiver(queue) as receiver:
        assert await receiver.peek_messages(1, sequence_number=1) == []


async def test_expired_messages_are_dead_lettered_and_repeated_ones_dropped(aio_client, make_queue):
    queue = make_queue(dead_lettering_on_message_expiration=True, requires_duplicate_detection=True)
    async with aio_client.get_queue_sender(queue) as sender, aio_client.get_queue_receiver(queue) as receiver:
        for number in range(3):
            await sender.send_messages(ServiceBusMessage(str(number), message_id="same"))
        await sender.send_messages(ServiceBusMessage("short", time_to_live=timedelta(seconds=1)))
        async with aio_client.get_queue_receiver(queue, **DEAD) as dead_letters:
            (expired,) = await take(dead_letters, 1)
        assert (str(expired), expired.dead_letter_reason) == ("short", "TTLExpiredException")
        (only,) = await receiver.receive_messages(10, max_wait_time=60)
        assert (str(only), only.message_id) == ("0", "same")
        await receiver.complete_message(only)


async def test_messages_and_batches_may_be_sent_again(aio_client, make_queue):
    queue = make_queue()
    async with aio_client.get_queue_sender(queue) as sender, aio_client.get_queue_receiver(queue) as receiver:
        batch = await sender.create_message_batch()
        for body in "01":
            batch.add_message({"body": body})
        await sender.send_messages(batch)
        await sender.send_messages(batch)
        await sender.send_messages([])
        await sender.send_messages({"body": "2"})
        messages = await take(receiver, 5)
        for message in messages:
            await receiver.complete_message(message)
        soon = (datetime.now(UTC) + timedelta(seconds=slowed(2))).replace(microsecond=0)
        assert len(await sender.schedule_messages(messages[:2], soon, timeout=5)) == 2
        peeked = await receiver.peek_messages(5, sequence_number=1)
        assert {message.state for message in peeked} == {ServiceBusMessageState.SCHEDULED}
        again = await take(receiver, 2)
        assert [str(message) for message in again] == ["0", "1"]
        assert {message.scheduled_enqueue_time_utc for message in again} == {soon}
        assert again[0].sequence_number > messages[-1].sequence_number
        half = "A" * (128 * 1024)
        with pytest.raises(MessageSizeExceededError):
            await sender.send_messages([ServiceBusMessage(half), ServiceBusMessage(half)])


async def test_every_section_of_an_annotated_message_arrives_alone_and_in_a_batch(aio_client, make_queue):
    queue = make_queue()
    bodies = {
        AmqpMessageBodyType.DATA: {"data_body": [b"aa", b"bb"]},
        AmqpMessageBodyType.VALUE: {"value_body": {b"key": [-123, b"data", False]}},
        AmqpMessageBodyType.SEQUENCE: {"sequence_body": [b"message", 123.456, True]},
    }
    messages = [
        AmqpAnnotatedMessage(
            **body,
            header={"priority": 10},
            annotations={"annotation": "a"},
            delivery_annotations={"delivery": "d"},
            footer={"footer": "f"},
            properties={"subject": "s"},
            application_properties={"property": "p"},
        )
        for body in bodies.values()
    ]
    async with (
        aio_client.get_queue_sender(queue) as sender,
        aio_client.get_queue_receiver(queue, receive_mode=DELETING) as receiver,
    ):
        await sender.send_messages(messages)
        for message in messages:
            await sender.send_messages(message)
        await sender.send_messages(ServiceBusMessage(body=None))
        *annotated, empty = [each.raw_amqp_message for each in await take(receiver, 7)]
        assert [each.body_type for each in annotated] == [*bodies, *bodies]
        for each in annotated:
            body = each.body if each.body_type is AmqpMessageBodyType.VALUE else list(each.body)
            (sent,) = bodies[each.body_type].values()
            assert body == ([sent] if each.body_type is AmqpMessageBodyType.SEQUENCE else sent)
            assert (each.header.priority, each.properties.subject) == (10, b"s")
            assert each.annotations[b"annotation"] == b"a"
            assert each.delivery_annotations[b"delivery"] == b"d"
            assert each.footer == {b"footer": b"f"}
            assert each.application_properties == {b"property": b"p"}
        assert empty.body is None


async def test_a_subscription_dead_letters_what_its_receiver_says(aio_client, async_administration):
    topic = f"contract/{uuid4().hex}"
    async with async_administration() as administration:
        await administration.create_topic(topic)
        await administration.create_subscription(topic, "s")
        async with (
            aio_client.get_topic_sender(topic) as sender,
            aio_client.get_subscription_receiver(topic, "s", prefetch_count=10) as receiver,
        ):
            await sender.send_messages([ServiceBusMessage(body) for body in "01234"])
            for message in await take(receiver, 5):
                await receiver.dead_letter_message(message, reason="why", error_description="because")
            assert await receiver.receive_messages(1, max_wait_time=1) == []
        async with aio_client.get_subscription_receiver(topic, "s", **DEAD) as dead_letters:
            dead = await take(dead_letters, 5)
        assert [(str(message), message.dead_letter_reason) for message in dead] == [(body, "why") for body in "01234"]
        await administration.delete_topic(topic)


@pytest.mark.parametrize("prefix", ["", "sb://", "https://"])
async def test_a_client_is_opened_again_with_a_key_that_was_changed_and_mended(connection_string, make_queue, prefix):
    values = dict(part.split("=", 1) for part in connection_string.strip(";").split(";"))
    host = values["Endpoint"].removeprefix("sb://").strip("/")
    name, key = values["SharedAccessKeyName"], values["SharedAccessKey"]
    options = {"retry_total": 0} | ({"use_tls": False} if values.get("UseDevelopmentEmulator") == "true" else {})
    credential, queue = AzureNamedKeyCredential(name, key), make_queue()
    client = ServiceBusClient(prefix + host, credential, **options)

    async def send():
        async with client, client.get_queue_sender(queue) as sender:
            await sender.send_messages(ServiceBusMessage("x"))

    await send()
    credential.update("wrong", "wrong")
    with pytest.raises(ServiceBusAuthenticationError):
        await send()
    credential.update(name, key)
    await send()
    signature = ServiceBusSharedKeyCredential(name, key).get_token(f"sb://{host}/{queue}").token
    client = ServiceBusClient(prefix + host, AzureSasCredential(signature), **options)
    await send()


async def test_what_is_closed_does_nothing_any_more(aio_client, make_queue):
    queue = make_queue()
    async with aio_client.get_queue_sender(queue) as sender, aio_client.get_queue_receiver(queue) as receiver:
        await sender.send_messages(ServiceBusMessage("x"))
        (message,) = await take(receiver, 1)
    for closed in (
        lambda: sender.send_messages(ServiceBusMessage("y")),
        lambda: sender.schedule_messages(ServiceBusMessage("y"), datetime.now(UTC)),
        lambda: sender.cancel_scheduled_messages([1]),
        lambda: receiver.receive_messages(),
        lambda: receiver.receive_deferred_messages([1]),
        lambda: receiver.peek_messages(),
        lambda: receiver.complete_message(message),
    ):
        with pytest.raises(ValueError, match="shutdown"):
            await closed()
    with pytest.raises(ServiceBusError, match="not-allowed"):
        await aio_client.get_queue_receiver(queue, session_id="s").__aenter__()
