"""Messages that become active later (docs/wire.md, section 6)."""

from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusMessage

from tests.pace import slowed

pytestmark = pytest.mark.contract


def in_seconds(seconds):
    return datetime.now(UTC) + timedelta(seconds=slowed(seconds))


@pytest.mark.sampled("world")
def test_a_scheduled_message_is_seen_but_not_received_before_its_time(sender, receiver):
    due = in_seconds(3)
    (number,) = sender.schedule_messages(ServiceBusMessage("later"), due)
    (peeked,) = receiver.peek_messages(1, sequence_number=number)
    assert peeked.state.name == "SCHEDULED"
    assert abs(peeked.scheduled_enqueue_time_utc - due) < timedelta(milliseconds=2)
    (message,) = receiver.receive_messages(1, max_wait_time=60)
    assert datetime.now(UTC) >= due - timedelta(milliseconds=50)
    assert str(message) == "later"
    assert message.sequence_number > number
    receiver.complete_message(message)


@pytest.mark.sampled("world")
def test_a_message_may_carry_its_time_itself(sender, receiver):
    due = in_seconds(2)
    sender.send_messages([ServiceBusMessage("later", scheduled_enqueue_time_utc=due), ServiceBusMessage("now")])
    first, second = (receiver.receive_messages(1, max_wait_time=20)[0] for _ in range(2))
    assert (str(first), str(second)) == ("now", "later")
    assert second.enqueued_time_utc >= due - timedelta(milliseconds=50)
    receiver.complete_message(first)
    receiver.complete_message(second)


@pytest.mark.sampled("world")
def test_life_begins_at_the_scheduled_time(sender, receiver):
    lifetime = timedelta(seconds=30)
    sender.schedule_messages(ServiceBusMessage("x", time_to_live=lifetime), in_seconds(1))
    (message,) = receiver.receive_messages(1, max_wait_time=60)
    assert message.expires_at_utc - message.enqueued_time_utc == lifetime
    receiver.complete_message(message)
