"""What a message looks like on its way through a backlog queue (docs/specification.md, sections 6 and 7)."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage
from azure.servicebus._pyamqp._encode import encode_payload
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport

from pairing.drain.sorting import sort
from pairing.messages.rewriting import (
    RESERVED,
    PoisonedMessage,
    check_reserved,
    copy_for_send,
    is_ping,
    ping_message,
    restore,
    resubmission,
    to_backlog,
)

WHEN = datetime(2027, 3, 4, 5, 6, 7, 89000, tzinfo=UTC)
MILLISECONDS = int(WHEN.timestamp() * 1000)


def received(message: ServiceBusMessage) -> ServiceBusReceivedMessage:
    outgoing = PyamqpTransport.to_outgoing_amqp_message(message.raw_amqp_message)
    return ServiceBusReceivedMessage.from_bytes(bytes(encode_payload(bytearray(), outgoing)))


def backlogged(**properties) -> ServiceBusReceivedMessage:
    return received(ServiceBusMessage("body", application_properties={"x-ms-path": "orders", **properties}))


def a_message(**arguments) -> ServiceBusMessage:
    return ServiceBusMessage("body", message_id="m-1", **arguments)


def test_session_time_to_live_and_schedule_become_properties_of_their_amqp_types():
    stored = to_backlog(
        a_message(session_id="s-1", time_to_live=timedelta(seconds=90), scheduled_enqueue_time_utc=WHEN), "orders"
    )
    assert stored.application_properties == {
        "x-ms-path": "orders",
        "x-ms-sessionid": "s-1",
        "x-ms-timetolive": {"TYPE": "LONG", "VALUE": 900_000_000},
        "x-ms-scheduledenqueuetimeutc": {"TYPE": "TIMESTAMP", "VALUE": MILLISECONDS},
    }
    assert (stored.session_id, stored.time_to_live, stored.scheduled_enqueue_time_utc) == (None, None, None)
    assert stored.raw_amqp_message.properties.absolute_expiry_time is None


def test_what_was_not_set_is_not_added():
    assert to_backlog(a_message(), "orders").application_properties == {"x-ms-path": "orders"}


def test_the_types_a_receiver_cannot_guess_are_named_compactly():
    message = a_message(application_properties={"plain": 1, "when": WHEN, "count": {"TYPE": "LONG", "VALUE": 7}})
    assert to_backlog(message, "orders").application_properties["x-ms-proptypes"] == '{"p":{"when":"t","count":"l"}}'


@pytest.mark.parametrize("name", RESERVED)
@pytest.mark.parametrize("key", [str, str.encode], ids=["as text", "as received bytes"])
def test_a_reserved_property_is_refused_by_name_and_never_overwritten(name, key):
    message = a_message(application_properties={key(name): "mine"})
    with pytest.raises(ValueError, match=name):
        check_reserved(message)
    with pytest.raises(ValueError, match=name):
        to_backlog(message, "orders")
    assert message.application_properties == {key(name): "mine"}


def test_a_message_of_the_original_client_is_restored_by_value():
    ticks = ({"TYPE": "SYMBOL", "VALUE": "com.microsoft:timespan"}, {"TYPE": "LONG", "VALUE": 3_000_000_000})
    _, message = restore(backlogged(**{"x-ms-timetolive": ticks, "big": {"TYPE": "LONG", "VALUE": 2**40}, "name": "n"}))
    assert message.time_to_live == timedelta(minutes=5)
    assert message.application_properties == {"big": {"TYPE": "LONG", "VALUE": 2**40}, "name": "n"}


def test_the_originals_endless_time_to_live_leaves_the_entitys_own():
    _, message = restore(backlogged(**{"x-ms-timetolive": {"TYPE": "LONG", "VALUE": 2**63 - 1}}))
    assert message.time_to_live is None


@pytest.mark.parametrize(
    ("name", "value", "reported"),
    [
        ("x-ms-path", 5, "x-ms-path is int 5"),
        ("x-ms-path", "", "x-ms-path is str ''"),
        ("x-ms-sessionid", 5, "x-ms-sessionid is int 5"),
        ("x-ms-sessionid", {"TYPE": "BINARY", "VALUE": b"\xff"}, r"x-ms-sessionid is bytes b'\xff'"),
        ("x-ms-timetolive", "soon", "x-ms-timetolive is bytes b'soon'"),
        ("x-ms-timetolive", True, "x-ms-timetolive is bool True"),
        ("x-ms-timetolive", -1, "x-ms-timetolive is int -1"),
        ("x-ms-scheduledenqueuetimeutc", "soon", "x-ms-scheduledenqueuetimeutc is bytes b'soon'"),
        ("x-ms-scheduledenqueuetimeutc", {"TYPE": "TIMESTAMP", "VALUE": 2**62}, f"utc is int {2**62}"),
        ("x-ms-proptypes", "no json", "x-ms-proptypes is str 'no json'"),
        ("x-ms-proptypes", "[]", "x-ms-proptypes is str '[]'"),
        ("x-ms-proptypes", '{"p":{"x":"?"}}', "x-ms-proptypes is str"),
    ],
)
def test_a_poisoned_message_shows_property_type_and_value(name, value, reported):
    with pytest.raises(PoisonedMessage) as caught:
        restore(backlogged(x="x", **({name: value})))
    assert reported in str(caught.value)
    assert caught.value.property == name


def test_what_the_first_broker_wrote_on_a_message_is_not_sent_on():
    message = a_message(application_properties={"a": "b"})
    message.raw_amqp_message.annotations = {
        b"x-opt-sequence-number": {"TYPE": "LONG", "VALUE": 5},
        b"x-opt-enqueued-time": {"TYPE": "TIMESTAMP", "VALUE": MILLISECONDS},
        b"x-opt-scheduled-enqueue-time": {"TYPE": "TIMESTAMP", "VALUE": MILLISECONDS},
        b"x-opt-partition-key": "p",
        b"mine": "too",
    }
    message.raw_amqp_message.header.delivery_count = 3
    copy = copy_for_send(received(message))
    assert copy.raw_amqp_message.annotations == {b"x-opt-partition-key": "p", b"mine": "too"}
    assert copy.raw_amqp_message.header.delivery_count is None
    assert copy.application_properties == {"a": "b"}
    assert copy.raw_amqp_message.properties.message_id == "m-1"


def test_a_schedule_set_on_a_received_message_is_sent_on():
    message = received(a_message())
    message.scheduled_enqueue_time_utc = WHEN
    assert copy_for_send(message).scheduled_enqueue_time_utc == WHEN


def test_a_dead_letter_is_resubmitted_without_its_marks_and_with_its_path():
    message = backlogged(DeadLetterReason="r", DeadLetterErrorDescription="d", mine="m")
    assert resubmission(message).application_properties == {"x-ms-path": "orders", "mine": "m"}


def test_a_ping_is_empty_lives_a_second_and_fits_session_entities():
    ping = ping_message()
    assert (ping.content_type, ping.time_to_live) == ("application/vnd.ms-servicebus-ping", timedelta(seconds=1))
    assert len(ping.session_id) == 32
    assert ping.session_id != ping_message().session_id
    assert is_ping(ping)
    assert is_ping(received(ping))


def test_a_message_with_a_body_is_no_ping_whatever_its_content_type():
    assert not is_ping(ServiceBusMessage("x", content_type="application/vnd.ms-servicebus-ping"))
    assert not is_ping(ServiceBusMessage(None))


@pytest.mark.parametrize("name", [b"\xff\xfe", 7], ids=["no text", "a number"])
def test_a_property_with_such_a_name_sets_its_message_aside_and_no_other(name):
    odd, plain = [received(to_backlog(a_message(), "orders")) for _ in range(2)]
    odd.raw_amqp_message.application_properties[name] = 1
    numbered = [
        SimpleNamespace(raw_amqp_message=message.raw_amqp_message, sequence_number=number)
        for number, message in enumerate((odd, plain), 1)
    ]
    items, ((refused, fate, reason),) = sort(numbered, fetched=False, now=None)
    assert [item.number for item in items] == [2]
    assert (refused.number, fate) == (1, "set_aside")
    assert "cannot be restored" in reason
