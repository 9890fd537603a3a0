"""What a queue's properties do to its messages: duplicates, forwarding, status, time to live."""

from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode, ServiceBusSubQueue
from azure.servicebus.exceptions import MessagingEntityDisabledError, ServiceBusError
from azure.servicebus.management import EntityStatus

from tests.contract.worlds import take

pytestmark = pytest.mark.contract


def take_all(client, queue, count, **options):
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver(queue, receive_mode=mode, **options) as receiver:
        return take(receiver, count)


def test_messages_are_forwarded_with_their_first_number(client, make_queue):
    target = make_queue()
    queue = make_queue(forward_to=target)
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage("x", message_id=str(number)) for number in range(3)])
    got = take_all(client, target, 3)
    assert [message.message_id for message in got] == ["0", "1", "2"]
    assert [message.enqueued_sequence_number for message in got] == [1, 2, 3]


def test_nothing_is_received_where_everything_is_forwarded(client, make_queue):
    queue = make_queue(forward_to=make_queue())
    with pytest.raises(ServiceBusError), client.get_queue_receiver(queue):
        pass


def test_dead_letters_are_forwarded(client, make_queue):
    target = make_queue()
    queue = make_queue(forward_dead_lettered_messages_to=target)
    with client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue) as receiver:
        sender.send_messages(ServiceBusMessage("bad"))
        receiver.dead_letter_message(receiver.receive_messages(1, max_wait_time=10)[0], reason="why")
    (message,) = take_all(client, target, 1)
    assert (str(message), message.dead_letter_reason, message.dead_letter_source) == ("bad", "why", queue)


def test_what_cannot_be_forwarded_is_kept_in_the_transfer_dead_letter_queue(client, administration, make_queue):
    target = make_queue()
    queue = make_queue(forward_to=target)
    description = administration.get_queue(target)
    description.status = EntityStatus.DISABLED
    administration.update_queue(description)
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("stuck"))
    (message,) = take_all(client, queue, 1, sub_queue=ServiceBusSubQueue.TRANSFER_DEAD_LETTER)
    assert str(message) == "stuck"
    assert message.dead_letter_reason


def test_the_entitys_time_to_live_limits_the_messages_without_being_written_on_them(client, make_queue):
    queue = make_queue(default_message_time_to_live=timedelta(seconds=1), dead_lettering_on_message_expiration=True)
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("short", time_to_live=timedelta(hours=1)))
        sender.send_messages(ServiceBusMessage("none"))
    dead = take_all(client, queue, 2, sub_queue=ServiceBusSubQueue.DEAD_LETTER)
    assert {str(message): message.time_to_live for message in dead} == {"short": timedelta(hours=1), "none": None}


@pytest.mark.parametrize(
    ("status", "sends", "receives"),
    [
        (EntityStatus.DISABLED, False, False),
        (EntityStatus.SEND_DISABLED, False, True),
        (EntityStatus.RECEIVE_DISABLED, True, False),
    ],
    ids=["disabled", "send disabled", "receive disabled"],
)
def test_a_disabled_entity_refuses_what_its_status_says(client, administration, make_queue, status, sends, receives):
    queue = make_queue()
    description = administration.get_queue(queue)
    description.status = status
    administration.update_queue(description)

    def send():
        with client.get_queue_sender(queue) as sender:
            sender.send_messages(ServiceBusMessage("x"))

    def receive():
        with client.get_queue_receiver(queue) as receiver:
            receiver.receive_messages(1, max_wait_time=0.2)

    for allowed, attempt in ((sends, send), (receives, receive)):
        if allowed:
            attempt()
        else:
            with pytest.raises(MessagingEntityDisabledError):
                attempt()


def test_an_open_link_feels_the_status_too(client, administration, make_queue):
    queue = make_queue()
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("before"))
        description = administration.get_queue(queue)
        description.status = EntityStatus.SEND_DISABLED
        administration.update_queue(description)
        with pytest.raises(MessagingEntityDisabledError):
            sender.send_messages(ServiceBusMessage("after"))
        description.status = EntityStatus.ACTIVE
        administration.update_queue(description)
        sender.send_messages(ServiceBusMessage("again"))
