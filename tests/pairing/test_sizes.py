"""Sizes are bounded cheaply and exact where it matters (docs/specification.md, section 6)."""

from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus._pyamqp._encode import encode_payload
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport
from hypothesis import given, settings
from hypothesis import strategies as st

from pairing.messages.rewriting import to_backlog
from pairing.messages.sizes import NEAR, STEP, backlog_overhead, encoded_size, message_size, size_bound
from tests.selection import depth

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
simple = st.one_of(st.none(), st.booleans(), st.integers(-(2**31), 2**31 - 1), st.floats(), texts, st.uuids())
typed = st.integers(-(2**63), 2**63 - 1).map(lambda value: {"TYPE": "LONG", "VALUE": value})
times = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
messages = st.builds(
    ServiceBusMessage,
    st.none() | st.binary(max_size=300) | texts,
    message_id=texts,
    session_id=st.none() | texts,
    subject=st.none() | texts,
    content_type=st.none() | texts,
    time_to_live=st.none() | st.timedeltas(timedelta(0), timedelta(days=40)),
    scheduled_enqueue_time_utc=st.none() | times,
    application_properties=st.none() | st.dictionaries(texts.map("p".__add__), simple | typed, max_size=20),
)


def size_on_the_wire(message: ServiceBusMessage) -> int:
    return len(encode_payload(bytearray(), PyamqpTransport.to_outgoing_amqp_message(message.raw_amqp_message)))


@settings(max_examples=depth(300), deadline=None)
@given(messages)
def test_the_bound_is_never_below_the_size_and_never_a_kilobyte_above(message):
    exact = size_on_the_wire(message)
    assert encoded_size(message) == exact
    assert exact <= size_bound(message) < exact + 1024


@settings(max_examples=depth(300), deadline=None)
@given(messages, texts.map("e".__add__))
def test_the_rewriting_never_adds_more_than_its_overhead(message, path):
    before, overhead = size_on_the_wire(message), backlog_overhead(message, path)
    assert size_on_the_wire(to_backlog(message, path)) <= before + overhead


@pytest.mark.parametrize("size", [STEP - 300, STEP - 60, STEP, STEP + 1, STEP + NEAR - 400, 3 * STEP + 17])
def test_the_size_is_exact_near_a_billing_step(size):
    message = ServiceBusMessage(b"x" * (size - 20), application_properties={"a": "b"})
    units = -(-size_on_the_wire(message) // STEP)
    assert -(-message_size(message) // STEP) == units


def test_the_size_is_exact_near_a_limit():
    message = ServiceBusMessage(b"x" * 1000)
    exact = size_on_the_wire(message)
    assert message_size(message) > exact
    assert message_size(message, limit=exact) == exact


def test_a_body_that_is_no_data_is_encoded_to_know_its_size():
    from azure.servicebus.amqp import AmqpAnnotatedMessage

    from pairing.messages.rewriting import as_message

    message = as_message(AmqpAnnotatedMessage(value_body=["x" * 100]))
    assert size_bound(message) is None
    assert message_size(message) == size_on_the_wire(message)
