"""What a queue promises about messages: content, numbers, sizes, batches, peeking (docs/wire.md, section 4)."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.amqp import AmqpAnnotatedMessage

from tests.contract.worlds import take

pytestmark = pytest.mark.contract


@pytest.fixture
def taken(receiver):
    """Receives so many messages, completes them and returns them."""

    def completed(count=1):
        taken = take(receiver, count)
        for message in taken:
            receiver.complete_message(message)
        return taken

    return completed


@pytest.fixture(autouse=True)
def nothing_is_left(receiver):
    yield
    assert receiver.peek_messages(1, sequence_number=1) == []


def test_every_property_arrives_as_it_was_sent(sender, taken):
    sent = ServiceBusMessage(
        b"\x00\xffbody",
        application_properties={"text": "ü", "number": 7, "flag": True, "real": 1.5, "bytes": b"\x01"},
        session_id="s",
        message_id="id-1",
        correlation_id="c",
        subject="subject",
        content_type="text/plain",
        to="to",
        reply_to="reply",
        reply_to_session_id="rs",
        partition_key="s",
        time_to_live=timedelta(minutes=5),
    )
    before = datetime.now(UTC) - timedelta(seconds=5)
    sender.send_messages(sent)
    (got,) = taken()
    assert b"".join(got.body) == b"\x00\xffbody"
    assert got.application_properties == {
        b"text": "ü".encode(),
        b"number": 7,
        b"flag": True,
        b"real": 1.5,
        b"bytes": b"\x01",
    }
    for name in (
        "session_id", "message_id", "correlation_id", "subject", "content_type", "to", "reply_to",
        "reply_to_session_id", "partition_key", "time_to_live",
    ):  # fmt: skip
        assert getattr(got, name) == getattr(sent, name), name
    assert before < got.enqueued_time_utc < datetime.now(UTC) + timedelta(seconds=5)
    assert got.expires_at_utc - got.enqueued_time_utc == timedelta(minutes=5)
    assert got.delivery_count == 0


def test_types_of_application_properties_are_never_changed(sender, taken):
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    unique = uuid.uuid4()
    sent = {"long": {"TYPE": "LONG", "VALUE": 2**40}, "short": {"TYPE": "SHORT", "VALUE": 3}}
    sender.send_messages(
        AmqpAnnotatedMessage(data_body=b"", application_properties={**sent, "uuid": unique, "at": moment})
    )
    properties = taken()[0].application_properties
    assert properties[b"long"] == 2**40
    assert properties[b"short"] == 3
    assert properties[b"uuid"] == unique
    assert properties[b"at"] == int(moment.timestamp() * 1000)


def test_a_batch_arrives_as_its_messages(sender, taken):
    batch = sender.create_message_batch()
    assert batch.max_size_in_bytes == 262144
    batch.add_message(ServiceBusMessage("a", message_id="1"))
    batch.add_message(ServiceBusMessage("b", message_id="2"))
    sender.send_messages(batch)
    assert [(str(message), message.message_id) for message in taken(2)] == [("a", "1"), ("b", "2")]


def test_peeking_shows_messages_and_locks_none(sender, receiver, taken):
    sender.send_messages([ServiceBusMessage(str(number)) for number in range(3)])
    first = receiver.peek_messages(1, sequence_number=1)[0]
    following = receiver.peek_messages(10, sequence_number=first.sequence_number + 1)
    assert [str(message) for message in (first, *following)] == ["0", "1", "2"]
    assert first.enqueued_time_utc is not None
    assert [str(message) for message in taken(3)] == ["0", "1", "2"]


def test_receive_and_delete_leaves_nothing_to_settle(sender, client, queue):
    sender.send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
    with client.get_queue_receiver(queue, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        got = receiver.receive_messages(2, max_wait_time=5)
        got += receiver.receive_messages(2, max_wait_time=5) if len(got) < 2 else []
        assert [str(message) for message in got] == ["a", "b"]
        with pytest.raises(ValueError, match="RECEIVE_AND_DELETE"):
            receiver.complete_message(got[0])


def test_prefetched_messages_that_are_never_received_come_back_uncounted(sender, client, queue, taken):
    sender.send_messages([ServiceBusMessage(str(number)) for number in range(20)])
    with client.get_queue_receiver(queue, prefetch_count=10) as prefetching:
        (first,) = prefetching.receive_messages(1, max_wait_time=60)
        prefetching.complete_message(first)
    got = taken(19)
    assert sorted(int(str(message)) for message in got) == [n for n in range(20) if str(n) != str(first)]
    assert {message.delivery_count for message in got} == {0}


def test_entities_are_addressed_without_regard_to_case(sender, client, queue, taken):
    with client.get_queue_sender(queue.upper()) as shouting:
        shouting.send_messages(ServiceBusMessage("loud"))
    assert str(taken()[0]) == "loud"
