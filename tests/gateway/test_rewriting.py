"""A message whose bytes were rewritten for the backlog comes home, through the syphon's own code, as it was sent."""

from decimal import Decimal

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage
from hypothesis import example, given, settings

from amqp10.codec import decode, encode
from amqp10.sections import APPLICATION_PROPERTIES, HEADER, PROPERTIES, VALUE, split
from amqp10.types import Byte, DecodeError, Float32, Int, Long, Short, Symbol, Timestamp, UByte, UInt, ULong, UShort
from gateway.guard.rewriting import BATCH_FORMAT, EncodedMessage, batches, inner_messages, rewritten
from pairing.messages.payload import ready_message
from pairing.messages.rewriting import restore
from tests.pairing.test_messages_round_trip import encoded, encoded_in_the_same_second, messages
from tests.selection import depth


@settings(max_examples=depth(800), deadline=None)
@given(messages())
@example(ServiceBusMessage(b"x", application_properties={"zero": Decimal("0.0000")}))
def test_any_message_of_the_sdk_comes_home_with_its_bytes(message: ServiceBusMessage) -> None:
    ready_message(message)  # it gets an id, as it would here
    path, home = restore(ServiceBusReceivedMessage.from_bytes(rewritten(encoded(message), "orders")))

    assert path == "orders"
    given_bytes, home_bytes = encoded_in_the_same_second(message, home)
    assert home_bytes == given_bytes


def test_a_message_of_another_language_comes_home_with_its_types() -> None:
    properties = {
        "long": Long(5),
        "uint": UInt(7),
        "ulong": ULong(9),
        "ushort": UShort(3),
        "ubyte": UByte(2),
        "short": Short(-3),
        "byte": Byte(-2),
        "int": Int(-4),
        "float": Float32(1.5),
        "symbol": Symbol("s"),
        "time": Timestamp(1_700_000_000_123),
        "binary": b"\xff\x00",
        "text": "t",
        "nothing": None,
    }
    body = ["a", {"b": Long(1), "c": [Symbol("d"), 2.5]}]
    sections = {HEADER: [True, UByte(9), UInt(60_000)], PROPERTIES: ["id", None, None, "subject", *[None] * 6, "group"]}
    sections |= {APPLICATION_PROPERTIES: properties, VALUE: body}
    sent = b"".join(b"\x00\x53" + bytes((code,)) + encode(value) for code, value in sections.items())

    _, home = restore(ServiceBusReceivedMessage.from_bytes(rewritten(sent, "orders")))
    bytes_home = encoded(home)
    found = {part.code: decode(bytes_home, part.value)[0] for part in split(bytes_home)}
    assert typed(found[APPLICATION_PROPERTIES]) == typed(properties)
    assert typed(found[VALUE]) == typed(body)
    assert (found[HEADER][:3], found[PROPERTIES][3], found[PROPERTIES][10]) == ([True, 9, 60_000], "subject", "group")


def typed(value: object) -> object:
    """A value with the names of its types."""
    if isinstance(value, dict):
        return {key: typed(each) for key, each in value.items()}
    return [typed(each) for each in value] if isinstance(value, list) else (type(value).__name__, value)


def test_a_batch_is_split_by_size_and_its_envelope_has_no_session() -> None:
    messages = [encoded(ServiceBusMessage(b"x" * 1000, session_id="s", message_id=str(n))) for n in range(10)]
    envelope = b"\x00\x53\x73" + encode(["0", *[None] * 9, "s"])
    whole, longer = (
        envelope + b"".join(descriptor + encode(message) for message in messages)
        for descriptor in (b"\x00\x53\x75", b"\x00\x80" + bytes(7) + b"\x75")
    )

    assert inner_messages(whole, BATCH_FORMAT) == inner_messages(longer, BATCH_FORMAT) == messages
    with pytest.raises(DecodeError, match="without messages"):
        inner_messages(envelope, BATCH_FORMAT)
    parts = list(batches(whole, messages, 4_000))
    assert [each for part in parts for each in inner_messages(part, BATCH_FORMAT)] == messages
    assert max(map(len, parts)) <= 4_000 < len(whole)
    assert all(EncodedMessage(part).session_id is None for part in parts)
    assert EncodedMessage(messages[0]).session_id == "s"


def test_a_reserved_property_is_refused() -> None:
    with pytest.raises(ValueError, match="x-ms-path is reserved"):
        rewritten(encoded(ServiceBusMessage(b"", application_properties={"x-ms-path": "x"})), "orders")
