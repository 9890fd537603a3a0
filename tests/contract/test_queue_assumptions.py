"""What the SDK's users take for granted of queues, beyond the promises of the other files."""

from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageState, ServiceBusReceiveMode
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType
from azure.servicebus.exceptions import (
    MessageAlreadySettled,
    MessageLockLostError,
    MessageNotFoundError,
    MessageSizeExceededError,
    ServiceBusError,
)

from tests.contract.worlds import take
from tests.pace import eventually, slowed

pytestmark = [pytest.mark.contract, pytest.mark.sampled("world")]

DELETING = ServiceBusReceiveMode.RECEIVE_AND_DELETE


@pytest.fixture
def sender(client, queue):
    with client.get_queue_sender(queue) as sender:
        yield sender


@pytest.fixture
def queue(make_queue):
    return make_queue(lock_duration=timedelta(seconds=5))


def send(sender, bodies):
    sender.send_messages([ServiceBusMessage(body) for body in bodies])


def test_iterating_may_stop_go_on_and_be_nested(client, queue, sender):
    with client.get_queue_receiver(queue, max_wait_time=3) as receiver:
        send(sender, "0123456789")
        seen = []

        def note(message):
            receiver.complete_message(message)
            seen.append((str(message), message.delivery_count))

        for message in receiver:
            note(message)
            if len(seen) == 3:
                break
        for message in receiver:
            note(message)
            for batched in receiver.receive_messages(2, max_wait_time=5):
                note(batched)
            for inner in receiver:
                note(inner)
        assert seen == [(body, 0) for body in "0123456789"]
        with pytest.raises(StopIteration):
            next(receiver)
        with pytest.raises(MessageAlreadySettled):
            receiver.complete_message(message)


def test_messages_that_come_while_nobody_receives_are_there_for_the_next_receiver(client, queue, sender):
    with client.get_queue_receiver(queue) as idle:
        send(sender, "01234")
        first = []
        while len(first) < 5:
            first += idle.receive_messages(10, max_wait_time=10)  # leaves credit behind
        for message in first:
            idle.complete_message(message)
        send(sender, "56789")
        with client.get_queue_receiver(queue) as other:
            rest = take(other, 5)
            assert sorted(str(message) for message in rest) == list("56789")
            for message in rest:
                other.complete_message(message)
        assert idle.peek_messages(10, sequence_number=1) == []


def test_deferred_messages_keep_their_state_until_they_are_settled(client, queue, sender):
    with (
        client.get_queue_receiver(queue) as receiver,
        client.get_queue_receiver(queue, receive_mode=DELETING) as deleting,
    ):
        send(sender, "012")
        messages = take(receiver, 3)
        assert {message.state for message in messages} == {ServiceBusMessageState.ACTIVE}
        for message in messages:
            receiver.defer_message(message)
        numbers = [message.sequence_number for message in messages]
        with pytest.raises(MessageNotFoundError):
            receiver.receive_deferred_messages([numbers[2], numbers[2] + 1])
        first, second = receiver.receive_deferred_messages(numbers[:2], timeout=10)
        assert first.state == second.state == ServiceBusMessageState.DEFERRED
        receiver.complete_message(first)
        receiver.dead_letter_message(second)
        (third,) = deleting.receive_deferred_messages(numbers[2])
        assert str(third) == "2"
        with pytest.raises(ValueError, match="RECEIVE_AND_DELETE"):
            deleting.complete_message(third)
        for gone in numbers:
            with pytest.raises(MessageNotFoundError):
                receiver.receive_deferred_messages(gone)


def test_a_lock_lapses_unless_it_is_renewed(client, queue, sender, world):
    with world.renewer() as renewer, client.get_queue_receiver(queue) as receiver:
        send(sender, ["renewed", "lapsed"])
        renewed, lapsed = take(receiver, 2)
        renewer.register(receiver, renewed)
        eventually(lambda: datetime.now(UTC) > lapsed.locked_until_utc + timedelta(milliseconds=500))
        receiver.complete_message(renewed)
        for lost in (receiver.complete_message, receiver.renew_message_lock):
            with pytest.raises(MessageLockLostError):
                lost(lapsed)
        (again,) = take(receiver, 1)
        assert (str(again), again.delivery_count) == ("lapsed", 1)
        receiver.complete_message(again)


def test_a_message_is_settled_though_its_link_is_gone(client, queue, sender):
    with client.get_queue_receiver(queue) as receiver:
        send(sender, "x")
        (message,) = take(receiver, 1)
        receiver._handler._link.detach()
        receiver.complete_message(message)
    with client.get_queue_receiver(queue) as receiver:
        assert receiver.peek_messages(1, sequence_number=1) == []


def test_messages_and_batches_may_be_sent_again(client, queue, sender):
    with client.get_queue_receiver(queue) as receiver:
        batch = sender.create_message_batch()
        for body in "01":
            batch.add_message({"body": body})
        sender.send_messages(batch)
        sender.send_messages(batch)
        sender.send_messages([])
        sender.send_messages({"body": "2"})
        messages = take(receiver, 5)
        for message in messages:
            receiver.complete_message(message)
        soon = (datetime.now(UTC) + timedelta(seconds=slowed(4))).replace(microsecond=0)
        assert len(sender.schedule_messages(messages[:2], soon, timeout=5)) == 2
        peeked = receiver.peek_messages(5, sequence_number=1)
        assert {message.state for message in peeked} == {ServiceBusMessageState.SCHEDULED}
        again = take(receiver, 2)
        assert [str(message) for message in again] == ["0", "1"]
        assert {message.scheduled_enqueue_time_utc for message in again} == {soon}
        assert again[0].sequence_number > messages[-1].sequence_number
        half = "A" * (128 * 1024)
        with pytest.raises(MessageSizeExceededError):
            sender.send_messages([ServiceBusMessage(half), ServiceBusMessage(half)])


def test_every_section_of_an_annotated_message_arrives_alone_and_in_a_batch(client, queue, sender):
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
    with client.get_queue_receiver(queue, receive_mode=DELETING) as receiver:
        sender.send_messages(messages)
        for message in messages:
            sender.send_messages(message)
        sender.send_messages(ServiceBusMessage(body=None))
        *annotated, empty = [each.raw_amqp_message for each in take(receiver, 7)]
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


def test_what_is_closed_does_nothing_any_more(client, queue):
    with client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue) as receiver:
        send(sender, "x")
        (message,) = take(receiver, 1)
    for closed in (
        lambda: sender.send_messages(ServiceBusMessage("y")),
        lambda: sender.schedule_messages(ServiceBusMessage("y"), datetime.now(UTC)),
        lambda: sender.cancel_scheduled_messages([1]),
        receiver.receive_messages,
        lambda: receiver.receive_deferred_messages([1]),
        receiver.peek_messages,
        lambda: receiver.complete_message(message),
    ):
        with pytest.raises(ValueError, match="shutdown"):
            closed()
    with pytest.raises(ServiceBusError, match="not-allowed"), client.get_queue_receiver(queue, session_id="s"):
        pass
