"""Sizes are bounded cheaply and exact where it matters (docs/specification.md, section 6)."""

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch
from azure.servicebus._pyamqp._encode import encode_payload
from azure.servicebus._pyamqp.message import BatchMessage
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport
from azure.servicebus.amqp import AmqpAnnotatedMessage
from azure.servicebus.exceptions import MessageSizeExceededError
from hypothesis import given, settings
from hypothesis import strategies as st

from pairing.messages.payload import STANDARD_LIMIT, PairedMessageBatch, payload
from pairing.messages.rewriting import as_message, to_backlog
from pairing.messages.sizes import NEAR, STEP, backlog_overhead, backlog_size, encoded_size, message_size, size_bound
from tests.selection import depth

pytestmark = pytest.mark.slow

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
    message = as_message(AmqpAnnotatedMessage(value_body=["x" * 100]))
    assert size_bound(message) is None
    assert message_size(message) == size_on_the_wire(message)


# Batches and lists


def rewritten_on_the_wire(messages: list[ServiceBusMessage], path: str) -> int:
    batch = ServiceBusMessageBatch(max_size_in_bytes=2**62)
    for message in messages:
        batch.add_message(to_backlog(message, path))
    return len(encode_payload(bytearray(), BatchMessage(*batch._message)))


def filled(shapes, limit: int, path: str) -> list[ServiceBusMessage]:
    batch = PairedMessageBatch(2**62, path=path, backlog_limit=lambda: limit)
    for shape in shapes:
        try:
            batch.add_message(shape())
        except MessageSizeExceededError:
            break
    return batch.messages


AT = {"at": datetime(2026, 11, 22, tzinfo=UTC)}
KILOBYTE = {"body": b"x" * 895, "application_properties": {"number": 1, **AT}}
FULL = [
    *((KILOBYTE, limit) for limit in (19_840, 19_880, STANDARD_LIMIT)),
    *(  # from 256 bytes on, as they may have in the backlog alone, messages take three bytes more in a batch
        ({"body": b"", "partition_key": "k" * length, "application_properties": AT}, limit)
        for length in range(94, 120, 3)
        for limit in (5_000, 19_840)
    ),
]


@pytest.mark.parametrize(("message", "limit"), FULL)
def test_a_batch_that_is_full_fits_the_backlog_with_its_envelope(message, limit):
    shape = partial(ServiceBusMessage, message_id="m" * 36, **message)
    kept = filled([shape] * 400, limit, "orders")
    assert len(kept) >= limit // 1070
    assert rewritten_on_the_wire(kept, "orders") <= backlog_size(kept, "orders") <= limit


@settings(max_examples=depth(100), deadline=None)
@given(messages, st.integers(2000, 20_000), st.integers(1, 128).map("k".__mul__) | st.none())
def test_a_full_batch_of_any_shape_fits_the_backlog(message, limit, partition_key):
    if partition_key is not None:
        message.session_id = None
        message.partition_key = partition_key
    kept = filled([lambda: message] * 200, limit, "orders")
    assert not kept or rewritten_on_the_wire(kept, "orders") <= backlog_size(kept, "orders") <= limit


def test_a_list_is_refused_only_where_its_rewritten_form_is_too_large_and_the_error_says_how_large():
    def work(count: int):
        return payload([ServiceBusMessage(b"x" * 10, message_id=f"{n:036}") for n in range(count)], "orders")

    fits = 100 * STANDARD_LIMIT // rewritten_on_the_wire(work(100).messages, "orders")
    work(fits).measure(STANDARD_LIMIT, True)
    too_many = work(fits + 60)
    with pytest.raises(MessageSizeExceededError) as caught:
        too_many.measure(STANDARD_LIMIT, True)
    exact = rewritten_on_the_wire(too_many.messages, "orders")
    assert exact > STANDARD_LIMIT
    reported = int(str(caught.value).split(" take ")[1].split()[0])
    assert exact <= reported <= exact + 16
