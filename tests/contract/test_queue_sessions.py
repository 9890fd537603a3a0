"""Message sessions: one receiver at a time, order, state, locks (docs/wire.md, section 7)."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from azure.servicebus.exceptions import (
    OperationTimeoutError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from tests.pace import Stopwatch

pytestmark = pytest.mark.contract

LOCK_S = 5


@pytest.fixture(scope="module")
def queue(make_queue):
    return make_queue(requires_session=True, lock_duration=timedelta(seconds=LOCK_S))


@pytest.fixture(scope="module")
def sender(client, queue):
    with client.get_queue_sender(queue) as sender:
        yield sender


@pytest.fixture
def session(request):
    return request.node.name


def send(sender, session, *bodies):
    sender.send_messages([ServiceBusMessage(body, session_id=session) for body in bodies])


def drain(receiver, count):
    taken = []
    while len(taken) < count:
        for message in receiver.receive_messages(count - len(taken), max_wait_time=10):
            receiver.complete_message(message)
            taken.append(str(message))
    return taken


def test_a_receiver_gets_the_messages_of_its_session_only_and_in_order(client, queue, sender, session):
    send(sender, session, "1", "2")
    send(sender, session + "-other", "x")
    send(sender, session, "3")
    with client.get_queue_receiver(queue, session_id=session) as receiver:
        assert receiver.session.session_id == session
        assert drain(receiver, 3) == ["1", "2", "3"]
        assert receiver.receive_messages(1, max_wait_time=0.5) == []
    with client.get_queue_receiver(queue, session_id=session + "-other") as receiver:
        assert drain(receiver, 1) == ["x"]


def test_a_held_session_cannot_be_locked_by_another(client, queue, session):
    with client.get_queue_receiver(queue, session_id=session) as holder:
        assert holder.session.locked_until_utc is not None
        with pytest.raises(SessionCannotBeLockedError), client.get_queue_receiver(queue, session_id=session):
            pass


def test_the_next_available_session_is_one_with_messages(client, queue, sender, session):
    send(sender, session, "waiting")
    with client.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=10) as receiver:
        assert receiver.session.session_id == session
        assert drain(receiver, 1) == ["waiting"]


def test_without_a_session_to_be_had_accepting_times_out(client, queue):
    with (
        Stopwatch() as watch,
        pytest.raises(OperationTimeoutError),
        client.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1),
    ):
        pass
    assert watch.took < 10


def test_a_session_keeps_its_state_between_receivers(client, queue, session):
    with client.get_queue_receiver(queue, session_id=session) as receiver:
        assert receiver.session.get_state() is None
        receiver.session.set_state(b"\x00step 2")
    with client.get_queue_receiver(queue, session_id=session) as receiver:
        assert receiver.session.get_state() == b"\x00step 2"
        receiver.session.set_state(None)
        assert receiver.session.get_state() is None


def test_closing_gives_the_session_back_without_counting_a_delivery(client, queue, sender, session):
    send(sender, session, "untouched")
    with client.get_queue_receiver(queue, session_id=session) as receiver:
        assert len(receiver.receive_messages(1, max_wait_time=10)) == 1
    with client.get_queue_receiver(queue, session_id=session) as receiver:
        (message,) = receiver.receive_messages(1, max_wait_time=60)
        assert message.delivery_count == 0
        receiver.complete_message(message)


def test_a_session_lock_can_be_renewed(client, queue, session):
    with client.get_queue_receiver(queue, session_id=session) as receiver:
        before = receiver.session.locked_until_utc
        time.sleep(0.05)  # what is renewed is time itself
        assert receiver.session.renew_lock() == receiver.session.locked_until_utc > before


def test_a_lapsed_session_is_lost_and_its_messages_count_a_delivery(client, queue, sender, session):
    send(sender, session, "slow")
    with client.get_queue_receiver(queue, session_id=session) as receiver:
        (message,) = receiver.receive_messages(1, max_wait_time=60)
        with client.get_queue_receiver(
            queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=LOCK_S * 3
        ) as next_receiver:
            assert next_receiver.session.session_id == session
            with pytest.raises(SessionLockLostError):
                receiver.complete_message(message)
            (again,) = next_receiver.receive_messages(1, max_wait_time=60)
            assert again.delivery_count == 1
            next_receiver.complete_message(again)


def test_messages_of_a_session_can_be_deferred_abandoned_and_peeked(client, queue, sender, session):
    send(sender, session, "a", "b")
    send(sender, session + "-other", "x")
    with client.get_queue_receiver(queue, session_id=session) as receiver:
        assert [str(message) for message in receiver.peek_messages(10, sequence_number=1)] == ["a", "b"]
        first, second = receiver.receive_messages(2, max_wait_time=10)
        receiver.defer_message(first)
        receiver.abandon_message(second)
        (again,) = receiver.receive_messages(1, max_wait_time=60)
        assert (str(again), again.delivery_count) == ("b", 1)
        (deferred,) = receiver.receive_deferred_messages(first.sequence_number)
        assert str(deferred) == "a"
        receiver.complete_message(deferred)
        receiver.complete_message(again)
    with client.get_queue_receiver(queue, session_id=session + "-other") as receiver:
        assert drain(receiver, 1) == ["x"]


def test_sessions_are_listed_that_have_messages_or_a_state(client, make_queue):
    queue = make_queue(requires_session=True)
    before = datetime.now(UTC) - timedelta(minutes=1)
    assert list(client.list_queue_sessions(queue)) == []
    with client.get_queue_sender(queue) as sender:
        send(sender, "full", "x")
    with client.get_queue_receiver(queue, session_id="remembered") as receiver:
        receiver.session.set_state("state")

    assert set(client.list_queue_sessions(queue)) == {"full", "remembered"}
    assert list(client.list_queue_sessions(queue, state_updated_after=before)) == ["remembered"]
    assert list(client.list_queue_sessions(queue, state_updated_after=before + timedelta(hours=1))) == []


def test_a_message_without_a_session_is_refused(sender):
    with pytest.raises(ServiceBusError, match="not-allowed"):
        sender.send_messages(ServiceBusMessage("stray"))


def test_receivers_of_the_wrong_kind_are_refused(client, queue, make_queue):
    with pytest.raises(ServiceBusError, match="not-allowed"), client.get_queue_receiver(queue):
        pass
    with pytest.raises(ServiceBusError, match="not-allowed"), client.get_queue_receiver(make_queue(), session_id="s"):
        pass
