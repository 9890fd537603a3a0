"""Message sessions: one receiver at a time, order, state, locks (docs/wire.md, section 7)."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage, ServiceBusReceiveMode, ServiceBusSubQueue
from azure.servicebus.exceptions import (
    MessageAlreadySettled,
    MessageNotFoundError,
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from tests.contract.worlds import take
from tests.pace import Stopwatch, eventually, slowed

pytestmark = [pytest.mark.contract, pytest.mark.sampled("world")]

LOCK_S = 10
DELETING = ServiceBusReceiveMode.RECEIVE_AND_DELETE


@pytest.fixture(scope="module")
def queue(make_queue):
    return make_queue(requires_session=True, lock_duration=timedelta(seconds=LOCK_S))


@pytest.fixture(scope="module")
def unhurried_queue(make_queue):
    """For what takes longer than a short lock where the machine is busy."""
    return make_queue(requires_session=True, lock_duration=timedelta(minutes=5))


@pytest.fixture
def session(request):
    return request.node.name


@pytest.fixture
def receive_from(client, queue, session):
    """Opens a receiver of the test's own session."""

    def open_receiver(**options):
        return client.get_queue_receiver(queue, session_id=session, **options)

    return open_receiver


def send(sender, session, *bodies):
    for body in bodies:
        sender.send_messages(ServiceBusMessage(body, session_id=session))


def drained(receiver, count):
    """The bodies of so many messages, completed."""
    messages = take(receiver, count)
    for message in messages:
        receiver.complete_message(message)
    return [str(message) for message in messages]


def wait_until(moment):
    eventually(lambda: datetime.now(UTC) > moment)


def test_a_receiver_gets_the_messages_of_its_session_only_and_in_order(client, queue, sender, session):
    send(sender, session, "1", "2")
    send(sender, session + "-other", "x")
    send(sender, session, "3")
    with client.get_queue_receiver(queue, session_id=session) as receiver:
        assert receiver.session.session_id == session
        assert drained(receiver, 3) == ["1", "2", "3"]
        assert receiver.receive_messages(1, max_wait_time=0.5) == []
    with client.get_queue_receiver(queue, session_id=session + "-other") as receiver:
        assert drained(receiver, 1) == ["x"]


def test_a_held_session_cannot_be_locked_by_another(client, queue, session):
    with client.get_queue_receiver(queue, session_id=session) as holder:
        assert holder.session.locked_until_utc is not None
        with pytest.raises(SessionCannotBeLockedError), client.get_queue_receiver(queue, session_id=session):
            pass


def test_the_next_available_session_is_one_with_messages(client, queue, sender, session):
    send(sender, session, "waiting")
    with client.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=10) as receiver:
        assert receiver.session.session_id == session
        assert drained(receiver, 1) == ["waiting"]


def test_a_session_keeps_its_state_between_receivers(client, queue, session):
    with client.get_queue_receiver(queue, session_id=session) as receiver:
        assert receiver.session.get_state() is None
        receiver.session.set_state("text", timeout=5)
        assert receiver.session.get_state() == b"text"
        receiver.session.set_state(b"\x00step 2")
    with client.get_queue_receiver(queue, session_id=session) as receiver:
        assert receiver.session.get_state() == b"\x00step 2"
        receiver.session.set_state(None)
        assert receiver.session.get_state() is None


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


def test_a_message_without_a_session_is_refused(sender):
    with pytest.raises(ServiceBusError, match="not-allowed"):
        sender.send_messages(ServiceBusMessage("stray"))


@pytest.mark.parametrize("session_id", ["", "orders"])
def test_any_text_names_a_session_and_its_messages_keep_everything_even_sent_again(client, queue, sender, session_id):
    reported = {
        "subject": "label",
        "content_type": "application/text",
        "correlation_id": "cid",
        "message_id": "1",
        "partition_key": session_id,
        "to": "to",
        "reply_to": "reply",
        "reply_to_session_id": "reply session",
    }
    sender.send_messages(
        ServiceBusMessage("x", session_id=session_id, application_properties={"key": "value"}, **reported)
    )
    with client.get_queue_receiver(queue, session_id=session_id) as receiver:
        assert receiver.session.session_id == session_id
        numbers = []
        for again in (True, False):
            (message,) = receiver.receive_messages(1, max_wait_time=60)
            assert {name: getattr(message, name) for name in reported} == reported
            assert (message.session_id, message.delivery_count) == (session_id, 0)
            assert message.application_properties == {b"key": b"value"}
            receiver.complete_message(message)
            numbers.append(message.sequence_number)
            if again:
                sender.send_messages(message)
    assert numbers[0] < numbers[1]


def test_receiving_and_deleting_in_a_session_leaves_nothing(client, queue, receive_from, sender, session, world):
    send(sender, session, *"0123456789")
    failures = []
    with (
        world.renewer(lambda *failure: failures.append(failure)) as renewer,
        receive_from(receive_mode=DELETING, auto_lock_renewer=renewer) as receiver,
    ):
        messages = take(receiver, 10)
        assert [(str(message), message.session_id) for message in messages] == [(n, session) for n in "0123456789"]
        with pytest.raises(ValueError, match="RECEIVE_AND_DELETE"):
            receiver.complete_message(messages[0])
    assert failures == []
    with receive_from(receive_mode=DELETING, max_wait_time=1) as receiver:
        assert list(receiver) == []
        assert receiver.peek_messages(1, sequence_number=1) == []
    assert session not in list(client.list_queue_sessions(queue))


def test_an_abandoned_message_of_a_session_comes_before_those_behind_it(receive_from, sender, session):
    send(sender, session, "first", "second", "third")
    with receive_from(max_wait_time=10) as receiver:
        receiver.abandon_message(next(receiver))
        rest = take(receiver, 3)
        assert [(str(message), message.delivery_count) for message in rest] == [
            ("first", 1),
            ("second", 0),
            ("third", 0),
        ]
        for message in rest:
            receiver.complete_message(message)


def test_peeking_in_a_session_shows_its_messages_and_none_can_be_settled(client, queue, receive_from, sender, session):
    with receive_from() as receiver:
        send(sender, session, *"01234")
        send(sender, f"{session} other", *"567")
        peeked = receiver.peek_messages(10, sequence_number=1)
        assert [str(message) for message in peeked] == ["0", "1", "2", "3", "4"]
        with pytest.raises(ValueError, match="peek"):
            receiver.complete_message(peeked[0])
        for message in take(receiver, 5):
            receiver.complete_message(message)
    with client.get_queue_receiver(queue, session_id=f"{session} other", receive_mode=DELETING) as other:
        assert [str(message) for message in other.peek_messages(5, sequence_number=1)] == ["5", "6", "7"]
        take(other, 3)


def test_a_session_sends_to_the_dead_letter_queue_which_has_no_sessions(client, queue, receive_from, sender, session):
    with receive_from(prefetch_count=10) as receiver:
        send(sender, session, *"0123456789")
        for message in take(receiver, 10):
            receiver.dead_letter_message(message, reason="why", error_description="because")
    with client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead_letters:
        dead = take(dead_letters, 10)
        assert [(str(message), message.session_id) for message in dead] == [(n, session) for n in "0123456789"]
        for message in dead:
            assert (message.dead_letter_reason, message.dead_letter_error_description) == ("why", "because")
            assert message.application_properties == {
                b"DeadLetterReason": b"why",
                b"DeadLetterErrorDescription": b"because",
            }
            dead_letters.complete_message(message)


def test_a_queue_without_sessions_takes_messages_that_name_one(client, make_queue):
    plain = make_queue()
    with client.get_queue_sender(plain) as sender:
        send(sender, "named", "x")
    with client.get_queue_receiver(plain, receive_mode=DELETING) as receiver:
        (message,) = take(receiver, 1)
        assert (str(message), message.session_id) == ("x", "named")


@pytest.fixture
def deferred(receive_from, sender, session):
    """The numbers of ten messages of the test's session, deferred by a receiver that is gone."""
    send(sender, session, *"0123456789")
    with receive_from() as receiver:
        messages = take(receiver, 10)
        for message in messages:
            receiver.defer_message(message)
        with pytest.raises(MessageAlreadySettled):
            receiver.complete_message(messages[0])
    return [message.sequence_number for message in messages]


@pytest.mark.parametrize("settle", ["complete_message", "dead_letter_message"])
def test_deferred_messages_are_settled_by_the_next_receiver(client, queue, receive_from, deferred, settle):
    with receive_from() as receiver:
        messages = receiver.receive_deferred_messages(deferred)
        assert [str(message) for message in messages] == list("0123456789")
        for message in messages:
            assert message.lock_token is not None
            assert message.locked_until_utc is None  # the session's lock stands for it
            with pytest.raises(TypeError):
                receiver.renew_message_lock(message)
            getattr(receiver, settle)(message)
        with pytest.raises(MessageNotFoundError):
            receiver.receive_deferred_messages(deferred)
        assert receiver.peek_messages(1, sequence_number=1) == []
    if settle == "dead_letter_message":
        options = {"sub_queue": ServiceBusSubQueue.DEAD_LETTER, "receive_mode": DELETING}
        with client.get_queue_receiver(queue, **options) as dead_letters:
            assert [str(message) for message in take(dead_letters, 10)] == list("0123456789")


def test_the_lock_of_a_session_stands_for_those_of_its_messages(receive_from, sender, session):
    with receive_from(prefetch_count=10) as receiver:
        send(sender, session, "0", "1", "2")
        first, second, third = take(receiver, 3)
        assert first.locked_until_utc is None
        assert first.lock_token is not None
        with pytest.raises(TypeError):
            receiver.renew_message_lock(first)
        wait_until(receiver.session.locked_until_utc - timedelta(seconds=LOCK_S - 1))
        before = receiver.session.locked_until_utc
        receiver.session.renew_lock(timeout=5)
        assert receiver.session.locked_until_utc - before >= timedelta(seconds=1)
        receiver.complete_message(first)
        receiver.complete_message(second)
        wait_until(receiver.session.locked_until_utc + timedelta(seconds=0.5))
        with pytest.raises(SessionLockLostError):
            receiver.complete_message(third)
        with pytest.raises(SessionLockLostError):
            receiver.session.renew_lock()
    with pytest.raises(ValueError, match="shutdown"):
        receiver.complete_message(third)
    with receive_from() as receiver:
        (again,) = take(receiver, 1)
        assert (str(again), again.delivery_count) == ("2", 1)
        receiver.complete_message(again)


def test_a_renewed_session_outlives_its_lock_duration_and_is_free_when_closed(receive_from, sender, session, world):
    send(sender, session, "slow", "next")
    lost = []
    with world.renewer(lambda *failure: lost.append(failure)) as renewer:
        with receive_from(auto_lock_renewer=renewer, prefetch_count=10) as receiver:
            first, second = take(receiver, 2)
            wait_until(receiver.session.locked_until_utc + timedelta(seconds=1))
            end = receiver.session.locked_until_utc
            eventually(lambda: receiver.session.locked_until_utc > end)  # the SDK fails to renew while it is closing
            receiver.complete_message(first)
        with receive_from() as receiver:
            (again,) = take(receiver, 1)
            assert (str(again), again.delivery_count) == (str(second), 0)
            receiver.complete_message(again)
    assert lost == []


def test_scheduled_messages_come_to_the_holder_of_their_session_when_due(client, unhurried_queue, session):
    due = (datetime.now(UTC) + timedelta(seconds=slowed(5))).replace(microsecond=0)
    with (
        client.get_queue_receiver(unhurried_queue, session_id=session, prefetch_count=20) as receiver,
        client.get_queue_sender(unhurried_queue) as sender,
    ):
        own = ServiceBusMessage("own", session_id=session, message_id="1", scheduled_enqueue_time_utc=due)
        sender.send_messages(own)
        planned = [ServiceBusMessage(body, session_id=session) for body in ("planned", "cancelled")]
        kept, cancelled = sender.schedule_messages(planned, due)
        sender.cancel_scheduled_messages([cancelled])
        with Stopwatch() as watch:
            messages = take(receiver, 2)
        assert {str(message) for message in messages} == {"own", "planned"}
        assert kept not in {cancelled, messages[0].sequence_number}
        for message in messages:
            assert message.scheduled_enqueue_time_utc == due
            assert due <= message.enqueued_time_utc < due + timedelta(seconds=5 + watch.withheld)
            receiver.complete_message(message)
        assert receiver.receive_messages(1, max_wait_time=1) == []


def test_what_could_not_be_opened_leaves_the_client_as_it_was(client, make_queue):
    queue = make_queue(requires_session=True)
    for opened in (client.get_queue_receiver(uuid4().hex), client.get_queue_sender(uuid4().hex)):
        with pytest.raises(ServiceBusAuthenticationError), opened:
            pass
    nobody = client.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1)
    with pytest.raises(OperationTimeoutError), nobody:
        pass
    with pytest.raises(ServiceBusError), client.get_queue_receiver(queue):
        pass
    with client.get_queue_sender(queue) as sender:
        send(sender, "s", "x")
    with client.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION, receive_mode=DELETING) as receiver:
        assert [str(message) for message in take(receiver, 1)] == ["x"]


def test_receivers_at_work_together_take_every_message_of_every_session_once(client, make_queue):
    queue = make_queue(requires_session=True)
    sent = [(f"session {session}", str(number)) for session in range(5) for number in range(20)]
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(body, session_id=session) for session, body in sent])

    def work(_):
        done = []
        while True:
            receiver = client.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=2)
            try:
                with receiver:
                    for message in receiver:
                        receiver.complete_message(message)
                        done.append((message.session_id, str(message)))
            except OperationTimeoutError:
                return done

    with ThreadPoolExecutor(5) as workers:
        taken = [each for done in workers.map(work, range(5)) for each in done]
    assert sorted(taken) == sorted(sent)
    for session, _ in sent[::20]:
        assert [body for name, body in taken if name == session] == [str(number) for number in range(20)]


def test_sessions_are_listed_whatever_the_page_and_by_the_time_of_their_state(client, make_queue):
    queue = make_queue(requires_session=True)
    names = [f"{number:03}" for number in range(120)]
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage("x", session_id=name) for name in names])
    assert sorted(client.list_queue_sessions(queue)) == names
    for name in ("000", "001"):
        with client.get_queue_receiver(queue, session_id=name) as receiver:
            receiver.session.set_state("known")
        if name == "000":
            cutoff = datetime.now(UTC) + timedelta(milliseconds=5)  # the SDK rounds it down to milliseconds
            wait_until(cutoff + timedelta(milliseconds=5))
    assert list(client.list_queue_sessions(queue, state_updated_after=cutoff)) == ["001"]
