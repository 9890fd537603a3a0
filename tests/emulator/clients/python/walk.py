"""What azure-servicebus for Python can do, in steps that its versions from 7.11 on have in common.

Run by the interpreter of an environment with that version. SERVICEBUS_CONNECTION_STRING holds the connection string,
SERVICEBUS_PORT the port at which the administration speaks plain HTTP. Prints `passed N` at the end.
"""

import asyncio
import os
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.core.pipeline.transport import RequestsTransport
from azure.servicebus import (
    AutoLockRenewer,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient
from azure.servicebus.amqp import AmqpAnnotatedMessage
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageNotFoundError,
    MessageSizeExceededError,
    OperationTimeoutError,
    ServiceBusError,
    SessionCannotBeLockedError,
)
from azure.servicebus.management import (
    CorrelationRuleFilter,
    ServiceBusAdministrationClient,
    SqlRuleAction,
    SqlRuleFilter,
)

TEXT, PORT = os.environ["SERVICEBUS_CONNECTION_STRING"], os.environ["SERVICEBUS_PORT"]
SETTINGS = {"connection_verify": os.environ["SSL_CERT_FILE"], "retry_total": 0}
HOST = TEXT.partition("sb://")[2].partition(";")[0].strip("/")
TOMORROW = datetime.now(UTC) + timedelta(days=1)


send_with_tls = RequestsTransport.send


def send_plain(self, request, **kwargs):
    """Older administration clients do not take a transport."""
    request.url = request.url.replace(f"https://{HOST}", f"http://{HOST}:{PORT}", 1)
    return send_with_tls(self, request, **kwargs)


RequestsTransport.send = send_plain
administration = ServiceBusAdministrationClient.from_connection_string(TEXT)
client = ServiceBusClient.from_connection_string(TEXT, **SETTINGS)
steps = []


def step(function):
    steps.append(function)
    return function


@contextmanager
def raises(kind):
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")


def body(message):
    return b"".join(message.body)


def next_of(receiver, count=1):
    found = []
    while len(found) < count:
        some = receiver.receive_messages(max_message_count=count - len(found), max_wait_time=20)
        assert some, "no message came"
        found += some
    return found if count > 1 else found[0]


def receiver_of(queue="walk", **more):
    return client.get_queue_receiver(queue, **more)


def sender_to(queue="walk"):
    return client.get_queue_sender(queue)


def dead_letters():
    return receiver_of(sub_queue=ServiceBusSubQueue.DEAD_LETTER, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE)


# --- administration -------------------------------------------------------------------------------------------------


@step
def creates_reads_updates_and_lists_entities():
    administration.create_queue("walk", max_delivery_count=3, lock_duration=timedelta(seconds=30))
    administration.create_queue("walk-short", lock_duration=timedelta(seconds=4))
    administration.create_queue("walk-sessions", requires_session=True)
    administration.create_topic("walk-topic")
    administration.create_subscription("walk-topic", "all")
    with raises(ResourceExistsError):
        administration.create_queue("walk")
    with raises(ResourceNotFoundError):
        administration.get_queue("walk-none")
    queue = administration.get_queue("walk")
    assert (queue.max_delivery_count, queue.lock_duration) == (3, timedelta(seconds=30))
    queue.user_metadata = "größe"
    administration.update_queue(queue)
    assert administration.get_queue("walk").user_metadata == "größe"
    assert "walk" in [each.name for each in administration.list_queues()]
    assert administration.get_queue_runtime_properties("walk").total_message_count == 0
    assert administration.get_namespace_properties().messaging_sku == "Standard"


@step
def creates_and_lists_rules():
    administration.delete_rule("walk-topic", "all", "$Default")
    action = SqlRuleAction("SET seen = 1")
    administration.create_rule("walk-topic", "all", "big", filter=SqlRuleFilter("size > 5"), action=action)
    administration.create_rule("walk-topic", "all", "red", filter=CorrelationRuleFilter(label="red"))
    assert [rule.name for rule in administration.list_rules("walk-topic", "all")] == ["big", "red"]


# --- messages -------------------------------------------------------------------------------------------------------


@step
def sends_and_receives_all_properties():
    # The SDK changes the dictionary it is given.
    own = {"text": "é", "number": 7, "part": 1.5, "flag": True, "bytes": b"\0"}
    with sender_to() as sender, receiver_of() as receiver:
        sent = ServiceBusMessage(
            b"hello", application_properties=dict(own), message_id="m", correlation_id="c", subject="s", to="to",
            reply_to="r", content_type="text/plain", partition_key="p", time_to_live=timedelta(minutes=1),
        )  # fmt: skip
        sender.send_messages(sent)
        found = next_of(receiver)
        names = ("message_id", "correlation_id", "subject", "to", "reply_to", "content_type", "partition_key")
        assert [getattr(found, name) for name in names] == ["m", "c", "s", "to", "r", "text/plain", "p"]
        got = {(k.decode() if isinstance(k, bytes) else k): v for k, v in found.application_properties.items()}
        got["text"] = got["text"].decode() if isinstance(got["text"], bytes) else got["text"]
        assert (body(found), got) == (b"hello", own), (body(found), got)
        assert all((found.sequence_number, found.locked_until_utc, found.enqueued_time_utc))
        receiver.complete_message(found)


@step
def sends_lists_batches_and_amqp_messages():
    with sender_to() as sender, receiver_of() as receiver:
        sender.send_messages([ServiceBusMessage("1"), ServiceBusMessage("2")])
        batch = sender.create_message_batch()
        batch.add_message(ServiceBusMessage("3"))
        sender.send_messages(batch)
        sender.send_messages(AmqpAnnotatedMessage(value_body={"a": 1}))
        found = next_of(receiver, 4)
        assert [body(each) for each in found[:3]] == [b"1", b"2", b"3"]
        for each in found:
            receiver.complete_message(each)
        with raises(MessageSizeExceededError):
            sender.send_messages(ServiceBusMessage(b"x" * 300_000))
        assert receiver.receive_messages(max_wait_time=1) == []


@step
def peeks_iterates_and_deletes():
    with sender_to() as sender:
        sender.send_messages([ServiceBusMessage("1"), ServiceBusMessage("2")])
    with receiver_of(receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE, max_wait_time=2) as receiver:
        assert [body(each) for each in receiver.peek_messages(5)] == [b"1", b"2"]
        assert [body(each) for each in receiver] == [b"1", b"2"]
        assert receiver.peek_messages() == []


@step
def abandons_until_it_is_dead_lettered():
    with sender_to() as sender, receiver_of() as receiver:
        sender.send_messages(ServiceBusMessage("poison"))
        counts = []
        for _ in range(3):
            found = next_of(receiver)
            counts.append(found.delivery_count)
            receiver.abandon_message(found)
    with dead_letters() as receiver:
        found = next_of(receiver)
        assert (counts, found.dead_letter_reason) == ([0, 1, 2], "MaxDeliveryCountExceeded")


@step
def dead_letters_with_a_reason():
    with sender_to() as sender, receiver_of() as receiver:
        sender.send_messages(ServiceBusMessage("bad"))
        receiver.dead_letter_message(next_of(receiver), reason="broken", error_description="unreadable")
    with dead_letters() as receiver:
        found = next_of(receiver)
        assert (found.dead_letter_reason, found.dead_letter_error_description) == ("broken", "unreadable")


@step
def defers_and_receives_deferred():
    with sender_to() as sender, receiver_of() as receiver:
        sender.send_messages(ServiceBusMessage("later"))
        found = next_of(receiver)
        receiver.defer_message(found)
        (again,) = receiver.receive_deferred_messages(found.sequence_number)
        assert body(again) == b"later"
        receiver.complete_message(again)
        with raises((MessageNotFoundError, ServiceBusError)):
            receiver.receive_deferred_messages(found.sequence_number)


@step
def renews_locks_by_hand_and_automatically():
    with sender_to("walk-short") as sender, receiver_of("walk-short") as receiver, AutoLockRenewer() as renewer:
        sender.send_messages(ServiceBusMessage("slow"))
        found = next_of(receiver)
        assert receiver.renew_message_lock(found) >= found.enqueued_time_utc
        renewer.register(receiver, found, max_lock_renewal_duration=30)
        time.sleep(5)
        receiver.complete_message(found)


@step
def cannot_settle_what_is_no_longer_locked():
    with sender_to("walk-short") as sender, receiver_of("walk-short") as receiver:
        sender.send_messages(ServiceBusMessage("lost"))
        first = next_of(receiver)
        again = next_of(receiver)
        assert again.delivery_count == 1
        with raises((MessageLockLostError, ServiceBusError)):
            receiver.complete_message(first)
        receiver.renew_message_lock(again)
        receiver.complete_message(again)


@step
def schedules_and_cancels():
    with sender_to() as sender, receiver_of() as receiver:
        numbers = sender.schedule_messages([ServiceBusMessage("1"), ServiceBusMessage("2")], TOMORROW)
        (first, _) = receiver.peek_messages(2)
        assert first.scheduled_enqueue_time_utc is not None
        sender.cancel_scheduled_messages(numbers)
        assert receiver.peek_messages() == []
        (number,) = sender.schedule_messages(ServiceBusMessage("now"), datetime.now(UTC))
        assert number > max(numbers)
        receiver.complete_message(next_of(receiver))


# --- sessions and topics --------------------------------------------------------------------------------------------


@step
def receives_a_session_with_its_state():
    with sender_to("walk-sessions") as sender:
        sender.send_messages([ServiceBusMessage(str(n), session_id="blue") for n in range(3)])
    with receiver_of("walk-sessions", session_id="blue") as receiver:
        session = receiver.session
        assert (session.session_id, session.get_state()) == ("blue", None)
        session.set_state(b"step 1")
        assert session.get_state() == b"step 1"
        before = session.locked_until_utc
        time.sleep(0.01)
        assert session.renew_lock() > before
        found = next_of(receiver, 3)
        assert [body(each) for each in found] == [b"0", b"1", b"2"]
        receiver.defer_message(found[0])
        (again,) = receiver.receive_deferred_messages([found[0].sequence_number])
        for each in (again, *found[1:]):
            receiver.complete_message(each)
        with raises((SessionCannotBeLockedError, ServiceBusError)), receiver_of("walk-sessions", session_id="blue"):
            pass


@step
def receives_the_next_session():
    from azure.servicebus import NEXT_AVAILABLE_SESSION

    with sender_to("walk-sessions") as sender:
        sender.send_messages(ServiceBusMessage("x", session_id="red"))
    with receiver_of("walk-sessions", session_id=NEXT_AVAILABLE_SESSION) as receiver:
        assert receiver.session.session_id == "red"
        receiver.complete_message(next_of(receiver))
    none = receiver_of("walk-sessions", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1)
    with raises((OperationTimeoutError, ServiceBusError)), none as receiver:
        receiver.receive_messages()


@step
def receives_from_a_subscription():
    with client.get_topic_sender("walk-topic") as sender:
        sender.send_messages(ServiceBusMessage("small", application_properties={"size": 1}))
        sender.send_messages(ServiceBusMessage("large", application_properties={"size": 9}))
        sender.send_messages(ServiceBusMessage("red", subject="red"))
    with client.get_subscription_receiver("walk-topic", "all") as receiver:
        found = next_of(receiver, 2)
        assert [body(each) for each in found] == [b"large", b"red"]
        for each in found:
            receiver.complete_message(each)


@step
def does_the_same_in_asyncio():
    asyncio.run(in_asyncio())


async def in_asyncio():
    async with AsyncServiceBusClient.from_connection_string(TEXT, **SETTINGS) as aio:
        async with aio.get_queue_sender("walk") as sender, aio.get_queue_receiver("walk") as receiver:
            await sender.send_messages([ServiceBusMessage(str(n)) for n in range(4)])
            found = []
            while len(found) < 4:
                found += await receiver.receive_messages(max_message_count=4, max_wait_time=20)
            await receiver.complete_message(found[0])
            await receiver.dead_letter_message(found[1], reason="r")
            await receiver.defer_message(found[2])
            await receiver.abandon_message(found[3])
            (again,) = await receiver.receive_messages(max_wait_time=20)
            assert again.delivery_count == 1
            await receiver.renew_message_lock(again)
            await receiver.complete_message(again)
            (deferred,) = await receiver.receive_deferred_messages(found[2].sequence_number)
            await receiver.complete_message(deferred)
            assert await receiver.peek_messages() == []
            (number,) = await sender.schedule_messages(ServiceBusMessage("x"), TOMORROW)
            await sender.cancel_scheduled_messages(number)
        async with aio.get_queue_sender("walk-sessions") as sender:
            await sender.send_messages(ServiceBusMessage("x", session_id="green"))
        async with aio.get_queue_receiver("walk-sessions", session_id="green") as receiver:
            await receiver.session.set_state("s")
            (found,) = await receiver.receive_messages(max_wait_time=20)
            await receiver.complete_message(found)


@step
def deletes_what_it_made():
    for queue in ("walk", "walk-short", "walk-sessions"):
        administration.delete_queue(queue)
    administration.delete_topic("walk-topic")
    assert [each.name for each in administration.list_topics()] == []


if __name__ == "__main__":
    for each in steps:
        print("begins", each.__name__, flush=True)
        each()
    client.close()
    print("passed", len(steps))
