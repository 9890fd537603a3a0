"""Peek-lock: what settles a message, what gives it back, what counts as a delivery (docs/wire.md, section 5)."""

from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode, ServiceBusSubQueue
from azure.servicebus.exceptions import ServiceBusError

pytestmark = [pytest.mark.contract, pytest.mark.sampled("world")]

LOCK_S = 5  # the shortest the service takes


@pytest.fixture(scope="module")
def queue(make_queue):
    return make_queue(
        lock_duration=timedelta(seconds=LOCK_S), max_delivery_count=3, dead_lettering_on_message_expiration=True
    )


@pytest.fixture(scope="module")
def dead_letters(client, queue):
    with client.get_queue_receiver(
        queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
    ) as receiver:
        yield receiver


def receive_one(receiver, wait=10):
    (message,) = receiver.receive_messages(1, max_wait_time=wait)
    return message


def test_an_abandoned_message_comes_back_counted_and_in_its_place(sender, receiver):
    sender.send_messages([ServiceBusMessage("first"), ServiceBusMessage("second")])
    receiver.abandon_message(receive_one(receiver))
    again, second = receive_one(receiver), receive_one(receiver)
    assert (str(again), again.delivery_count) == ("first", 1)
    assert (str(second), second.delivery_count) == ("second", 0)
    receiver.complete_message(again)
    receiver.complete_message(second)


def test_a_message_delivered_too_often_is_dead_lettered(sender, receiver, dead_letters):
    sender.send_messages(ServiceBusMessage("poison", application_properties={"kept": 1}))
    for count in range(3):
        message = receive_one(receiver)
        assert message.delivery_count == count
        receiver.abandon_message(message)
    dead = receive_one(dead_letters)
    assert str(dead) == "poison"
    assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
    assert dead.application_properties[b"kept"] == 1


def test_a_dead_lettered_message_says_why(sender, receiver, dead_letters, queue):
    sender.send_messages(ServiceBusMessage("bad", message_id="id-7", subject="kept"))
    message = receive_one(receiver)
    receiver.dead_letter_message(message, reason="no customer", error_description="number 7 is unknown")
    dead = receive_one(dead_letters)
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("no customer", "number 7 is unknown")
    assert (str(dead), dead.message_id, dead.subject) == ("bad", "id-7", "kept")
    assert dead.dead_letter_source == queue


def test_an_abandoned_deferred_message_stays_deferred(sender, receiver, dead_letters):
    sender.send_messages(ServiceBusMessage("later"))
    message = receive_one(receiver)
    receiver.defer_message(message)
    (deferred,) = receiver.receive_deferred_messages(message.sequence_number)
    receiver.abandon_message(deferred)
    (again,) = receiver.receive_deferred_messages(message.sequence_number)
    receiver.dead_letter_message(again, reason="enough")
    assert receive_one(dead_letters).dead_letter_reason == "enough"


def test_an_expired_message_is_dead_lettered_where_the_queue_says_so(sender, dead_letters):
    sender.send_messages(ServiceBusMessage("short-lived", time_to_live=timedelta(milliseconds=100)))
    dead = receive_one(dead_letters)
    assert (str(dead), dead.dead_letter_reason) == ("short-lived", "TTLExpiredException")


def test_closing_a_receiver_keeps_the_locks_of_what_it_received(client, queue, sender, receiver):
    sender.send_messages(ServiceBusMessage("held"))
    with client.get_queue_receiver(queue) as leaving:
        message = receive_one(leaving)
    assert receiver.receive_messages(1, max_wait_time=0.5) == []
    again = receive_one(receiver, wait=LOCK_S * 3)
    assert again.sequence_number == message.sequence_number
    receiver.complete_message(again)


def test_nothing_can_be_sent_to_a_dead_letter_queue(client, queue):
    with pytest.raises(ServiceBusError), client.get_queue_sender(f"{queue}/$DeadLetterQueue") as sender:
        sender.send_messages(ServiceBusMessage("no"))
