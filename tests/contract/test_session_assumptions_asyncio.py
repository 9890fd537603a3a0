"""What the SDK's users take for granted of message sessions, through its asyncio client."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from azure.servicebus.aio import AutoLockRenewer, ServiceBusClient
from azure.servicebus.exceptions import (
    MessageAlreadySettled,
    MessageNotFoundError,
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    ServiceBusError,
    SessionLockLostError,
)

from tests.pace import Stopwatch, slowed

pytestmark = pytest.mark.contract

LOCK_S = 5
DELETING = ServiceBusReceiveMode.RECEIVE_AND_DELETE


@pytest.fixture(scope="module")
def queue(make_queue):
    return make_queue(requires_session=True, lock_duration=timedelta(seconds=LOCK_S))


@pytest.fixture(scope="module")
def unhurried_queue(make_queue):
    """For what takes longer than a short lock where the machine is busy."""
    return make_queue(requires_session=True, lock_duration=timedelta(minutes=5))


@pytest.fixture
async def aio_client(connection_string):
    async with ServiceBusClient.from_connection_string(connection_string, retry_total=0) as client:
        yield client


@pytest.fixture
def session(request):
    return request.node.name


@pytest.fixture
def receive_from(aio_client, queue, session):
    """Opens a receiver of the test's own session."""

    def open_receiver(**options):
        return aio_client.get_queue_receiver(queue, session_id=session, **options)

    return open_receiver


@pytest.fixture
def send(aio_client, queue, session):
    """Sends messages with these bodies to the test's session."""

    async def send(*bodies, to=queue, session=session):
        async with aio_client.get_queue_sender(to) as sender:
            for body in bodies:
                await sender.send_messages(ServiceBusMessage(body, session_id=session))

    return send


async def take(receiver, count):
    messages = []
    while len(messages) < count:
        messages += await receiver.receive_messages(count - len(messages), max_wait_time=10)
    return messages


async def wait_for(condition):
    """Looks until it is so; fails after a while."""
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.05)


async def wait_until(moment):
    await wait_for(lambda: datetime.now(UTC) > moment)


@pytest.mark.parametrize("session_id", ["", "orders"])
async def test_a_receiver_may_stop_iterating_and_go_on_where_it_was(aio_client, queue, send, session_id):
    await send(*"0123456789", session=session_id)
    seen = []
    async with aio_client.get_queue_receiver(queue, session_id=session_id, max_wait_time=5) as receiver:
        for end in (5, 6, 10):
            async for message in receiver:
                await receiver.complete_message(message)
                seen.append((str(message), message.session_id, message.delivery_count))
                if len(seen) == end:
                    break
    assert seen == [(body, session_id, 0) for body in "0123456789"]


async def test_receiving_and_deleting_in_a_session_leaves_nothing(receive_from, send, session):
    await send(*"01234")
    async with (
        AutoLockRenewer() as renewer,
        receive_from(receive_mode=DELETING, auto_lock_renewer=renewer) as receiver,
    ):
        messages = await take(receiver, 5)
        assert [(str(message), message.session_id) for message in messages] == [(body, session) for body in "01234"]
        with pytest.raises(ValueError, match="RECEIVE_AND_DELETE"):
            await receiver.complete_message(messages[0])
    async with receive_from(receive_mode=DELETING, max_wait_time=1) as receiver:
        assert [message async for message in receiver] == []


async def test_peeking_in_a_session_shows_its_messages_and_none_can_be_settled(receive_from, send):
    async with receive_from() as receiver:
        await send("0", "1")
        await send("x", session="of somebody else")
        peeked = await receiver.peek_messages(10, sequence_number=1)
        assert [str(message) for message in peeked] == ["0", "1"]
        with pytest.raises(ValueError, match="peek"):
            await receiver.complete_message(peeked[0])


@pytest.mark.parametrize("settle", ["complete_message", "dead_letter_message", None])
async def test_deferred_messages_are_settled_by_the_next_receiver_or_deleted(
    aio_client, queue, receive_from, send, settle
):
    await send(*"01234")
    async with receive_from(prefetch_count=10) as receiver:
        messages = await take(receiver, 5)
        for message in messages:
            await receiver.defer_message(message)
        with pytest.raises(MessageAlreadySettled):
            await receiver.complete_message(messages[0])
    numbers = [message.sequence_number for message in messages]
    async with receive_from(**({} if settle else {"receive_mode": DELETING})) as receiver:
        deferred = await receiver.receive_deferred_messages(numbers)
        assert [str(message) for message in deferred] == list("01234")
        for message in deferred if settle else []:
            assert message.lock_token is not None
            assert message.locked_until_utc is None
            with pytest.raises(TypeError):
                await receiver.renew_message_lock(message)
            await getattr(receiver, settle)(message)
        with pytest.raises(MessageNotFoundError):
            await receiver.receive_deferred_messages(numbers)
    if settle == "dead_letter_message":
        options = {"sub_queue": ServiceBusSubQueue.DEAD_LETTER, "receive_mode": DELETING}
        async with aio_client.get_queue_receiver(queue, **options) as dead_letters:
            assert [str(message) for message in await take(dead_letters, 5)] == list("01234")


async def test_the_lock_of_a_session_stands_for_those_of_its_messages(receive_from, send):
    async with receive_from(prefetch_count=10) as receiver:
        await send("0", "1")
        first, second = await take(receiver, 2)
        assert first.locked_until_utc is None
        assert first.lock_token is not None
        with pytest.raises(TypeError):
            await receiver.renew_message_lock(first)
        before = receiver.session.locked_until_utc
        await wait_until(before - timedelta(seconds=LOCK_S - 1))
        await receiver.session.renew_lock(timeout=5)
        assert receiver.session.locked_until_utc > before
        await receiver.complete_message(first)
        await wait_until(receiver.session.locked_until_utc + timedelta(seconds=0.5))
        with pytest.raises(SessionLockLostError):
            await receiver.complete_message(second)
        with pytest.raises(SessionLockLostError):
            await receiver.session.renew_lock()
    with pytest.raises(ValueError, match="shutdown"):
        await receiver.complete_message(second)
    async with receive_from() as receiver:
        (again,) = await take(receiver, 1)
        assert (str(again), again.delivery_count) == ("1", 1)
        await receiver.complete_message(again)


async def test_a_renewed_session_outlives_its_lock_duration_and_is_free_when_closed(receive_from, send):
    await send("slow", "next")
    lost = []

    async def note(*failure):
        lost.append(failure)

    async with AutoLockRenewer(on_lock_renew_failure=note) as renewer:
        async with receive_from(auto_lock_renewer=renewer, prefetch_count=10) as receiver:
            first, second = await take(receiver, 2)
            await wait_until(receiver.session.locked_until_utc + timedelta(seconds=1))
            end = receiver.session.locked_until_utc
            await wait_for(lambda: receiver.session.locked_until_utc > end)  # so that none falls into the closing
            await receiver.complete_message(first)
        async with receive_from() as receiver:
            (again,) = await take(receiver, 1)
            assert (str(again), again.delivery_count) == (str(second), 0)
            await receiver.complete_message(again)
    assert lost == []


async def test_a_state_may_be_text_and_is_seen_by_its_holder_at_once(receive_from):
    async with receive_from() as receiver:
        assert await receiver.session.get_state(timeout=5) is None
        await receiver.session.set_state("first", timeout=5)
        assert await receiver.session.get_state() == b"first"
        await receiver.session.set_state(None)


async def test_scheduled_messages_come_to_the_holder_of_their_session_when_due(aio_client, unhurried_queue, session):
    due = (datetime.now(UTC) + timedelta(seconds=slowed(3))).replace(microsecond=0)
    async with (
        aio_client.get_queue_receiver(unhurried_queue, session_id=session, prefetch_count=20) as receiver,
        aio_client.get_queue_sender(unhurried_queue) as sender,
    ):
        await sender.send_messages(ServiceBusMessage("own", session_id=session, scheduled_enqueue_time_utc=due))
        planned = [ServiceBusMessage(body, session_id=session) for body in ("planned", "cancelled")]
        _, cancelled = await sender.schedule_messages(planned, due)
        await sender.cancel_scheduled_messages([cancelled])
        with Stopwatch() as watch:
            messages = await take(receiver, 2)
        assert {str(message) for message in messages} == {"own", "planned"}
        for message in messages:
            assert message.scheduled_enqueue_time_utc == due
            assert due <= message.enqueued_time_utc < due + timedelta(seconds=5 + watch.withheld)
            await receiver.complete_message(message)


async def test_what_could_not_be_opened_leaves_the_client_as_it_was(aio_client, make_queue, send):
    queue = make_queue(requires_session=True)
    for opened in (aio_client.get_queue_receiver(uuid4().hex), aio_client.get_queue_sender(uuid4().hex)):
        with pytest.raises(ServiceBusAuthenticationError):
            await opened.__aenter__()
    with pytest.raises(OperationTimeoutError):
        await aio_client.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1).__aenter__()
    with pytest.raises(ServiceBusError, match="not-allowed"):
        await aio_client.get_queue_receiver(queue).__aenter__()
    async with aio_client.get_queue_sender(queue) as sender:
        with pytest.raises(ServiceBusError, match="not-allowed"):
            await sender.send_messages(ServiceBusMessage("without a session"))
    await send("x", to=queue)
    async with aio_client.get_queue_receiver(
        queue, session_id=NEXT_AVAILABLE_SESSION, receive_mode=DELETING
    ) as receiver:
        assert [str(message) for message in await take(receiver, 1)] == ["x"]


async def test_receivers_at_work_together_take_every_message_of_every_session_once(aio_client, make_queue):
    queue = make_queue(requires_session=True)
    sent = [(f"session {session}", str(number)) for session in range(5) for number in range(20)]
    async with aio_client.get_queue_sender(queue) as sender:
        await sender.send_messages([ServiceBusMessage(body, session_id=session) for session, body in sent])
    taken = []

    async def work():
        while True:
            receiver = aio_client.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=2)
            try:
                async with receiver:
                    async for message in receiver:
                        await receiver.complete_message(message)
                        taken.append((message.session_id, str(message)))
            except OperationTimeoutError:
                return

    await asyncio.gather(*(work() for _ in range(5)))
    assert sorted(taken) == sorted(sent)
    for session, _ in sent[::20]:
        assert [body for name, body in taken if name == session] == [str(number) for number in range(20)]


async def test_sessions_of_queues_and_subscriptions_are_listed(aio_client, async_administration, send):
    name = f"contract/{uuid4().hex}"
    queue, topic = f"{name}/queue", f"{name}/topic"
    before = datetime.now(UTC) - timedelta(minutes=1)
    async with async_administration() as administration:
        await administration.create_queue(queue, requires_session=True)
        await administration.create_topic(topic)
        await administration.create_subscription(topic, "s", requires_session=True)
        assert [each async for each in aio_client.list_queue_sessions(queue)] == []
        assert [each async for each in aio_client.list_subscription_sessions(topic, "s")] == []
        names = [f"{number:03}" for number in range(120)]
        messages = [ServiceBusMessage("x", session_id=each) for each in names]
        for sender in (aio_client.get_queue_sender(queue), aio_client.get_topic_sender(topic)):
            async with sender:
                await sender.send_messages(messages)
        async with aio_client.get_subscription_receiver(topic, "s", session_id="007") as receiver:
            await receiver.session.set_state("known")
        assert sorted([each async for each in aio_client.list_queue_sessions(queue)]) == names
        known = aio_client.list_subscription_sessions(topic, "s", state_updated_after=before)
        assert [each async for each in known] == ["007"]
        await administration.delete_queue(queue)
        await administration.delete_topic(topic)
