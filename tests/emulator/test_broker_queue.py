"""The rules of a queue, with time as an argument (docs/wire.md, sections 4 to 7)."""

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from amqp10.codec import encode, encode_list, encode_map
from amqp10.types import DecodeError, Raw, Symbol, Timestamp
from emulator.broker.descriptions import EntityStatus, QueueDescription
from emulator.broker.errors import BrokerError, EntityDisabled, MessageLockLost, MessageNotFound, QuotaExceeded
from emulator.broker.message import PING_CONTENT_TYPE, MessageState, parse
from emulator.broker.namespace import Namespace, parse_address
from emulator.broker.schedule import Schedule
from emulator.broker.transactions import Cancel
from emulator.throttle import Throttle
from tests.selection import depth

NOW = 1_800_000_000.0


def encoded(body=b"x", *, ttl_ms=None, properties=(), annotations=None):
    header = b"\x00\x53\x70" + encode([True, None, ttl_ms])
    marks = b"\x00\x53\x72" + encode({Symbol(key): value for key, value in (annotations or {}).items()})
    fields = [None] * 13
    for index, value in properties:
        fields[index] = value
    return header + marks + b"\x00\x53\x73" + encode(fields) + b"\x00\x53\x75" + encode(body)


def message(body=b"x", **parts):
    session, message_id, content_type = (parts.pop(name, None) for name in ("session", "id", "content_type"))
    properties = [(0, message_id), (6, content_type), (10, session)]
    return parse(encoded(body, properties=properties, **parts))


@pytest.fixture
def namespace():
    return Namespace("contoso")


@pytest.fixture
def make(namespace):
    """Makes queues with these properties."""

    def make(path="orders", **properties):
        return namespace.create_queue(path, QueueDescription(path, **properties), NOW)

    return make


class Receiver:
    """A consumer with so much credit."""

    deletes = False

    def __init__(self, credit=1000):
        self.credit, self.got, self.session_id, self.gone = credit, [], None, None

    def accepts(self, now):
        return self.credit > 0

    def deliver(self, stored, now):
        self.credit -= 1
        self.got.append(stored)

    def entity_gone(self, condition, text):
        self.gone = condition

    def session_granted(self, session_id, until):
        self.session_id = session_id

    def session_lost(self):
        self.session_id = None


def test_the_bare_message_is_never_touched():
    odd = b"\x00\x53\x74" + encode_map([(encode("decimal"), b"\x94" + bytes(16)), (encode("short"), b"\x61\x00\x07")])
    bare = b"\x00\x53\x73" + encode_list([b"\xa1\x01i"]) + odd + b"\x00\x53\x75\xb0\x00\x00\x00\x01x"
    got = parse(b"\x00\x53\x70\x45" + bare)
    assert got.bare == bare
    changed = got.with_application_properties({"added": 1})
    assert odd[4:] != changed.bare
    assert changed.application_properties == {"decimal": Raw(b"\x94" + bytes(16)), "short": 7, "added": 1}
    assert changed.bare.startswith(b"\x00\x53\x73" + encode_list([b"\xa1\x01i"]))
    assert changed.bare.endswith(b"\x00\x53\x75\xb0\x00\x00\x00\x01x")


def test_long_descriptors_are_shortened_for_decoders_that_read_one_byte():
    long_form = b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x75\xa0\x01x"
    named = b"\x00\xa3\x10amqp:data:binary\xa0\x01y"
    assert parse(long_form + named).bare == b"\x00\x53\x75\xa0\x01x\x00\x53\x75\xa0\x01y"


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x53\x75",
        b"\x40",
        b"\x00\x53\x79\x40",
        b"\x00\x53\x75\xa0\x01x\x00\x53\x70\x45",
        b"\x00\x53\x70\x45\x00\x53\x70\x45",
        b"\x00\x53\x73\xc0\x04\x03\x40\x40\x43",
        b"\x00\x53\x70\xc0\x04\x03\x40\x40\xa0",
        b"\x00\x53\x72\x45",
        b"\x00\x53\x73" + encode([None] * 14),
    ],
)
def test_what_is_no_message_is_refused(data):
    with pytest.raises(DecodeError):
        parse(data)


def test_the_longest_lives_stand_in_the_timestamps():
    days = 86400 * 1000
    properties = [(8, Timestamp(100 * days)), (9, Timestamp(0))]
    assert parse(encoded(ttl_ms=2**32 - 1, properties=properties)).ttl_s == 100 * 86400


def test_a_lock_that_has_ended_settles_nothing_even_before_anybody_noticed(make):
    queue = make(lock_duration_s=30)
    queue.enqueue(message(), NOW)
    token = queue.deliveries.receive(NOW).lock_token
    with pytest.raises(MessageLockLost):
        queue.deliveries.complete(token, NOW + 30)


def test_a_dead_letter_queue_keeps_its_messages_whatever_happens_to_them(namespace, make):
    queue = make(max_delivery_count=1, default_message_time_to_live_s=10)
    queue.enqueue(message(ttl_ms=1000), NOW)
    queue.deliveries.dead_letter(queue.deliveries.receive(NOW).lock_token, "why", None, NOW)
    dead = queue.dead_letters
    for turn in range(20):
        dead.deliveries.abandon(dead.deliveries.receive(NOW + turn).lock_token, NOW + turn)
    namespace.advance(NOW + 10_000)
    assert (len(dead), dead.deliveries.receive(NOW + 10_000).delivery_count) == (1, 0)


def test_an_expired_message_is_not_delivered_even_before_anybody_noticed(make):
    queue = make(dead_lettering_on_message_expiration=True)
    queue.enqueue(message(ttl_ms=1000), NOW)
    queue.enqueue(message(b"next"), NOW)
    assert queue.deliveries.receive(NOW + 1).sequence_number == 2
    assert len(queue.dead_letters) == 1


def test_a_locked_message_expires_when_its_lock_ends(namespace, make):
    queue = make(lock_duration_s=30)
    queue.enqueue(message(ttl_ms=1000), NOW)
    stored = queue.deliveries.receive(NOW)
    namespace.advance(NOW + 10)
    queue.deliveries.complete(stored.lock_token, NOW + 11)
    queue.enqueue(message(ttl_ms=1000), NOW)
    queue.deliveries.receive(NOW)
    namespace.advance(NOW + 30)
    assert (len(queue), queue.counters.expired) == (0, 1)


def test_cancelling_is_all_or_nothing(make):
    queue = make()
    later = message(annotations={"x-opt-scheduled-enqueue-time": Timestamp(int((NOW + 60) * 1000))})
    number = queue.schedule(later, NOW)
    with pytest.raises(MessageNotFound):
        queue.check_scheduled([number, 99])
    Cancel(queue, [number, number]).apply(NOW)
    assert len(queue) == 0


def test_an_idle_entity_goes_by_itself(namespace, make):
    make(auto_delete_on_idle_s=300)
    make("used", auto_delete_on_idle_s=300).enqueue(message(), NOW + 200)
    received_from = make("received", auto_delete_on_idle_s=300)
    receiver = Receiver()
    received_from.receivers.wait(receiver, NOW)
    namespace.advance(NOW + 301)
    assert [queue.path for queue in namespace.queues()] == ["received", "used"]
    received_from.receivers.leave(receiver)
    for _ in range(5):
        namespace.advance(namespace.next_due())
    assert namespace.queues() == []


def test_a_full_entity_refuses_pings_too(make):
    queue = make(max_size_in_megabytes=1)
    while queue.contents.size_bytes + 200_000 < 1024 * 1024:
        queue.enqueue(message(b"x" * 190_000), NOW)
    for refused in (message(b"x" * 200_000), replace(message(b"x" * 200_000), is_ping=True)):
        with pytest.raises(QuotaExceeded):
            queue.enqueue(refused, NOW)


@pytest.mark.parametrize("status", [EntityStatus.DISABLED, EntityStatus.SEND_DISABLED])
def test_a_disabled_entity_refuses_messages_and_pings(make, status):
    queue = make(status=status)
    for refused in (message(), message(content_type=PING_CONTENT_TYPE)):
        with pytest.raises(EntityDisabled):
            queue.enqueue(refused, NOW)


def test_receivers_of_an_entity_that_is_disabled_or_deleted_are_reported(namespace, make):
    receivers = {path: Receiver() for path in ("disabled", "deleted")}
    for path, receiver in receivers.items():
        make(path).receivers.wait(receiver, NOW)
    namespace.update_queue("disabled", QueueDescription("disabled", status=EntityStatus.DISABLED), NOW)
    namespace.delete_queue("deleted")
    assert receivers["disabled"].gone == "com.microsoft:entity-disabled"
    assert receivers["deleted"].gone == "amqp:not-found"


def test_messages_are_given_to_waiting_receivers_in_turn(make):
    queue = make()
    receivers = [Receiver(2), Receiver(1)]
    for receiver in receivers:
        queue.receivers.wait(receiver, NOW)
    for _ in range(4):
        queue.enqueue(message(), NOW)
    assert [[stored.sequence_number for stored in receiver.got] for receiver in receivers] == [[1, 3], [2]]


def test_cancelling_a_scheduled_duplicate_cancels_no_other_message(make):
    queue = make(requires_duplicate_detection=True)
    in_a_minute = {"x-opt-scheduled-enqueue-time": Timestamp(int((NOW + 60) * 1000))}
    first, second = (queue.schedule(message(id=id, annotations=in_a_minute), NOW) for id in ("1", "2"))
    again = queue.schedule(message(id="1", annotations=in_a_minute), NOW)
    with pytest.raises(MessageNotFound):
        queue.check_scheduled([again])
    queue.check_scheduled([first, second])


def test_chains_of_forwarding_end_after_four_hops(namespace, make):
    for number in range(6):
        make(f"q{number}", forward_to=f"q{number + 1}" if number < 5 else None)
    namespace.queue("q0").enqueue(message(), NOW)
    stuck = namespace.queue("q4").transfer_dead_letters
    assert (
        stuck.deliveries.receive(NOW).message.application_properties["DeadLetterReason"]
        == "MaxTransferHopCountExceeded"
    )
    namespace.queue("q1").enqueue(message(), NOW)
    assert len(namespace.queue("q5")) == 1


def test_what_waits_is_forwarded_when_forwarding_begins(namespace, make):
    queue, _ = make("a"), make("b")
    queue.enqueue(message(), NOW)
    namespace.update_queue("a", QueueDescription("a", forward_to="b"), NOW)
    assert (len(queue), len(namespace.queue("b"))) == (0, 1)


@pytest.fixture
def sessions(make):
    return make("sessions", requires_session=True, lock_duration_s=30)


def test_who_waits_for_a_session_gets_the_next_with_messages(sessions):
    waiting = [Receiver(), Receiver()]
    for receiver in waiting:
        sessions.receivers.accept_next_session(receiver, NOW)
    sessions.enqueue(message(session="a"), NOW)
    sessions.enqueue(message(session="a"), NOW)
    sessions.enqueue(message(session="b"), NOW)
    assert [receiver.session_id for receiver in waiting] == ["a", "b"]
    assert not sessions.receivers.stop_accepting(waiting[0])


def test_sessions_that_hold_nothing_are_forgotten(sessions):
    for number in range(100):
        holder = Receiver()
        sessions.enqueue(message(session=str(number)), NOW)
        sessions.receivers.accept_session(str(number), holder, NOW)
        sessions.receivers.wait_in_session(str(number), NOW)
        sessions.deliveries.complete(holder.got[0].lock_token, NOW)
        sessions.receivers.close_session(str(number), holder, NOW)
    assert sessions.contents.sessions._sessions == {}


@pytest.mark.parametrize(
    ("address", "path", "marks"),
    [
        ("orders", "orders", ()),
        ("amqps://host:5672/contoso/x-servicebus-transfer/0", "contoso/x-servicebus-transfer/0", ()),
        ("sb://host/orders/$DeadLetterQueue", "orders", ("dead_letter",)),
        ("orders/$deadletterqueue/$management", "orders", ("dead_letter", "management")),
        ("orders/$Transfer/$DeadLetterQueue", "orders", ("transfer",)),
        ("shipments/Subscriptions/audit/$management", "shipments/Subscriptions/audit", ("management",)),
    ],
)
def test_addresses_are_read_from_the_right(address, path, marks):
    parsed = parse_address(address)
    assert parsed.path == path
    assert {name for name in ("dead_letter", "transfer", "management") if getattr(parsed, name)} == set(marks)


def test_a_schedule_gives_each_key_at_its_last_time_and_forgets_the_others():
    schedule = Schedule()
    for number in range(1000):
        schedule.set("moved", float(number))
    schedule.set("soon", 5.0)
    schedule.set("gone", 6.0)
    schedule.discard("gone")
    assert (schedule.next_due(), len(schedule), len(schedule._heap) < 200) == (5.0, 2, True)
    assert list(schedule.take_due(998.9)) == ["soon"]
    assert list(schedule.take_due(999.0)) == ["moved"]


def test_credits_come_back_with_each_second_and_debts_are_paid_first():
    throttle = Throttle(10)
    throttle.spend(25, 100.0)
    for second in (100.5, 101.0):
        with pytest.raises(BrokerError):
            throttle.spend(1, second)
    throttle.spend(5, 102.0)
    with pytest.raises(BrokerError):
        throttle.spend(1, 102.9)
    throttle.spend(10, 500.0)


class Accounting(RuleBasedStateMachine):
    """Whatever receivers do and however time passes: each message is in one place, and the counts agree."""

    def __init__(self):
        super().__init__()
        self.now = NOW
        self.namespace = Namespace("contoso")
        self.queue = self.namespace.create_queue(
            "orders", QueueDescription("orders", lock_duration_s=10, max_delivery_count=3), NOW
        )
        self.tokens = []
        self.sent = self.completed = 0

    @rule(count=st.integers(1, 5), ttl_ms=st.sampled_from([None, None, 15_000]), delay=st.sampled_from([None, 20]))
    def send(self, count, ttl_ms, delay):
        at = None if delay is None else {"x-opt-scheduled-enqueue-time": Timestamp(int((self.now + delay) * 1000))}
        for _ in range(count):
            self.queue.enqueue(message(ttl_ms=ttl_ms, annotations=at), self.now)
            self.sent += 1

    @rule()
    def receive(self):
        stored = self.queue.deliveries.receive(self.now)
        if stored is not None:
            self.tokens.append(stored.lock_token)

    @rule(data=st.data(), how=st.sampled_from(["complete", "abandon", "release", "defer", "dead_letter", "renew"]))
    def settle(self, data, how):
        if self.tokens:
            token = self.tokens.pop(data.draw(st.integers(0, len(self.tokens) - 1)))
            reason = ("why", None) if how == "dead_letter" else ()
            try:
                getattr(self.queue.deliveries, how)(token, *reason, self.now)
                self.completed += how == "complete"
            except MessageLockLost:
                pass

    @rule()
    def receive_deferred(self):
        deferred = [
            s for s in self.queue.contents.messages() if s.state is MessageState.DEFERRED and s.lock_token is None
        ]
        if deferred:
            (stored,) = self.queue.deliveries.receive_deferred([deferred[0].sequence_number], self.now, deletes=False)
            self.tokens.append(stored.lock_token)

    @rule(seconds=st.sampled_from([0.5, 5, 10, 30]))
    def wait(self, seconds):
        self.now += seconds
        self.namespace.advance(self.now)

    @invariant()
    def every_message_is_somewhere(self):
        queue = self.queue
        assert self.sent == len(queue) + len(queue.dead_letters) + self.completed + queue.counters.expired
        assert queue.contents.size_bytes == sum(stored.message.size for stored in queue.contents.messages())
        states = [stored.state for stored in queue.contents.messages()]
        assert queue.contents.active_count == states.count(MessageState.ACTIVE)
        assert queue.contents.scheduled_count == states.count(MessageState.SCHEDULED)
        assert queue.contents.deferred_count == states.count(MessageState.DEFERRED)
        assert [s.sequence_number for s in queue.contents.messages()] == sorted(
            s.sequence_number for s in queue.contents.messages()
        )
        unlocked = sum(s.state is MessageState.ACTIVE and s.lock_token is None for s in queue.contents.messages())
        assert queue.contents.ready().count == unlocked


TestNothingIsLost = Accounting.TestCase
TestNothingIsLost.settings = settings(max_examples=depth(60), stateful_step_count=40, deadline=None)


def test_a_drained_queue_keeps_nothing_of_what_it_held(make):
    queue = make(lock_duration_s=30)
    for _ in range(1000):
        queue.enqueue(message(ttl_ms=60_000), NOW)
    assert [stored.sequence_number for stored in queue.contents.peek(500, 2, NOW)] == [500, 501]
    while (stored := queue.deliveries.receive(NOW)) is not None:
        queue.deliveries.complete(stored.lock_token, NOW)
    assert (len(queue), queue.contents.size_bytes) == (0, 0)
    assert len(queue.contents.index._numbers) < 100
    assert len(queue.contents.index._expiries._heap) < 100
