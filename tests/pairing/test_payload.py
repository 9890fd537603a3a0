"""What a send carries: the short ways through it are the long ones, only shorter."""

import subprocess
import sys
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch

from pairing.messages.payload import STANDARD_LIMIT, new_id, payload, plain_size, rewritten_plainly
from pairing.messages.rewriting import to_backlog
from pairing.messages.sizes import encoded_size


def encoded(message):
    batch = ServiceBusMessageBatch()
    batch.add_message(message)
    return bytes(batch._message[5][0])


PLAIN = {
    "data alone": {"body": b"x" * 300},
    "text": {"body": "grüße"},
    "a session": {"body": "x", "session_id": "s"},
    "every text property": {
        "body": "x",
        "session_id": "s",
        "correlation_id": "c",
        "subject": "subject",
        "to": "to",
        "reply_to": "reply",
        "reply_to_session_id": "r",
        "content_type": "text/plain; charset=ü",
    },
}
OTHERS = {
    "a body that is no data": {"body": None},
    "application properties": {"body": "x", "application_properties": {"n": 1}},
    "a time-to-live": {"body": "x", "time_to_live": timedelta(hours=1)},
    "a schedule": {"body": "x", "scheduled_enqueue_time_utc": datetime(2030, 1, 1, tzinfo=UTC)},
    "a partition key": {"body": "x", "partition_key": "k"},
}


@pytest.mark.parametrize("properties", PLAIN.values(), ids=PLAIN)
def test_the_short_rewriting_is_the_long_one(properties):
    message = ServiceBusMessage(**properties, message_id="m")
    before = encoded(message)
    assert encoded(rewritten_plainly(message, "orders")) == encoded(to_backlog(message, "orders"))
    assert encoded(message) == before


@pytest.mark.parametrize("properties", OTHERS.values(), ids=OTHERS)
def test_what_is_not_plain_takes_the_long_way(properties):
    message = ServiceBusMessage(**properties)
    assert plain_size(message, STANDARD_LIMIT) == 0
    message.message_id = "m"
    assert rewritten_plainly(message, "orders") is None


def test_an_id_that_is_no_text_takes_the_long_way():
    message = ServiceBusMessage("x")
    message.raw_amqp_message.properties.message_id = uuid.uuid4()
    assert rewritten_plainly(message, "orders") is None
    assert plain_size(message, STANDARD_LIMIT) == 0


def test_ids_are_uuids_of_version_four():
    ids = {new_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(str(parsed := uuid.UUID(text)) == text and parsed.version == 4 for text in ids)
    assert {uuid.UUID(text).variant for text in ids} == {uuid.RFC_4122}


@pytest.mark.parametrize("keywords", PLAIN.values(), ids=PLAIN.keys())
def test_the_short_way_measures_as_the_long_one(keywords):
    message = ServiceBusMessage(**keywords)
    message.message_id = None
    long = payload(ServiceBusMessage(**keywords), "orders")
    long.measure(STANDARD_LIMIT, True)
    assert (plain_size(message, STANDARD_LIMIT), 1) == (long.size, long.units)
    assert len(message.message_id) == len(long.outgoing.message_id)
    exact = encoded_size(message)
    assert exact <= long.size <= exact + 512


@pytest.mark.parametrize(
    "message",
    [ServiceBusMessage(b"x" * 65_536), {"body": "x"}, [ServiceBusMessage("x")]],
    ids=["large", "mapping", "list"],
)
def test_what_is_large_or_no_message_is_measured_the_long_way(message):
    assert plain_size(message, STANDARD_LIMIT) == 0


def test_where_the_backlog_takes_little_the_headroom_is_looked_at():
    assert plain_size(ServiceBusMessage(b"x" * 300), 500) == 0


def test_a_forked_process_makes_ids_of_its_own():
    program = (
        "import os; from pairing.messages.payload import new_id; new_id(); child = os.fork(); "
        "os.write(1, f'{new_id()}\\n'.encode()); child and os.waitpid(child, 0)"
    )
    reported = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    assert len(set(reported.stdout.split())) == 2


def test_a_batch_that_does_not_show_its_messages_is_refused():
    batch = ServiceBusMessageBatch()
    batch.add_message(ServiceBusMessage("x"))
    del batch._messages
    with pytest.raises(TypeError, match="create_message_batch"):
        payload(batch, "orders")
