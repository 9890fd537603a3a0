"""Transactions on the frames of a client: what is done in one is done together or not at all."""

import time
from typing import ClassVar

import pytest

from amqp10 import performatives as p
from amqp10.codec import encode
from amqp10.types import Array, Described, Symbol, Timestamp, ULong
from emulator.broker.descriptions import EntityStatus, QueueDescription, SubscriptionDescription, TopicDescription
from emulator.broker.journal import NoJournal
from emulator.broker.message import BATCH_FORMAT
from emulator.broker.transactions import MAX_MESSAGES, MAX_OPEN, SPANS_ENTITIES, TIME_LIMIT_S
from emulator.faults import fault_from_json
from tests.amqp10.peer import sent, source, target
from tests.emulator.client import Client, body

COORDINATOR = Described(ULong(p.COORDINATOR), [Array([Symbol("amqp:local-transactions")])])
UNKNOWN, ROLLED_BACK = "amqp:transaction:unknown-id", "amqp:transaction:rollback"
LOCK_LOST, NOT_ALLOWED = "com.microsoft:message-lock-lost", "amqp:not-allowed"
ACCEPTED = (p.ACCEPTED, "")


def described(code, *fields):
    return Described(ULong(code), list(fields))


def outcome(state):
    """A delivery state as its code and the condition of its error."""
    code, fields = p.outcome(state)
    return code, p.error_parts(fields[0] if fields and code == p.REJECTED else None)[0]


class Transacting:
    """A client with a coordinator, a sender and a receiver, each in a session of its own as SDKs for .NET have them."""

    def __init__(self, client, queue="orders"):
        self.client, self.delivery = client, 0
        for channel in (2, 3, 4):
            client.say(sent(p.Begin(None, 0, 5000, 5000), channel=channel))
        self.sender = self.link(2, 0, queue)
        self.receiver = self.link(3, 0, queue, receives=True)
        self.controller = self.link(4, 0, None)
        client.heard()

    def link(self, channel, handle, address, *, receives=False, **more):
        there = COORDINATOR if address is None else (source if receives else target)(address)
        ends = (there, target("me")) if receives else (source("me"), there)
        name, count = f"{channel}/{handle}", None if receives else 0
        attach = p.Attach(name, handle, receives, 0, 1, *ends, initial_delivery_count=count, **more)
        self.client.say(sent(attach, channel=channel))
        return channel, handle

    def transfer(self, link, payload, state=None, message_format=0, settled=None):
        """The state with which a transfer is answered."""
        channel, handle = link
        self.delivery += 1
        transfer = p.Transfer(handle, self.delivery, b"tag", message_format, settled, state=state)
        self.client.say(sent(transfer, payload, channel))
        answers = [each for each, _ in self.client.heard() if isinstance(each, p.Disposition) and each.role]
        assert settled or [each.settled for each in answers] == [True]
        return answers[0].state if answers else None

    def control(self, code, *fields):
        return self.transfer(self.controller, b"\x00\x53\x77" + encode(described(code, *fields)))

    def declare(self):
        code, (name,) = p.outcome(self.control(p.DECLARE, None))
        assert code == p.DECLARED
        return name

    def begin(self, count=1, queue="orders"):
        """A message that was put and has arrived, and a transaction."""
        put(self.client, queue=queue)
        (transfer,) = self.receive(count)
        return transfer, self.declare()

    def discharge(self, name, *, fails=False):
        return outcome(self.control(p.DISCHARGE, name, fails))

    def send(self, text, name, link=None, **more):
        """The outcome of a send within a transaction."""
        state = self.transfer(link or self.sender, body(text), p.transactional(name, None), **more)
        found, inner = p.within_transaction(state)
        assert found == name
        return outcome(inner)

    def receive(self, count=1):
        """The transfers that arrive for so much credit."""
        channel, handle = self.receiver
        self.client.say(sent(p.Flow(0, 5000, 0, 5000, handle, 0, count), channel=channel))
        return [each for each, _ in self.client.heard() if isinstance(each, p.Transfer)]

    def receive_in_session(self):
        in_session = described(p.SOURCE, "sessions", *[None] * 6, {Symbol("com.microsoft:session-filter"): "s"})
        self.client.say(sent(p.Attach("in session", 1, True, 0, 1, in_session, target("me")), channel=3))
        self.receiver = (3, 1)
        return self.receive(3)

    def settle(self, transfer, name=None, state=None, *, settled=False):
        """The outcome of a settlement, within a transaction if one is named."""
        state = state or p.accepted()
        state = state if name is None else p.transactional(name, state)
        disposition = p.Disposition(True, transfer.delivery_id, None, settled, state)
        self.client.say(sent(disposition, channel=self.receiver[0]))
        answers = [each.state for each, _ in self.client.heard() if isinstance(each, p.Disposition)]
        found = [p.within_transaction(answer) for answer in answers]
        assert settled or [each for each, _ in found] == [name]
        return outcome(found[0][1]) if found else None

    def ask(self, operation, request, name):
        """The status, the condition and the answer to a request of the management node, within a transaction."""
        node = "orders/$management"
        receiver, _ = self.client.attach(receives_from=node)
        self.client.say(sent(p.Flow(0, 5000, 0, 5000, receiver, 0, 100)))
        handle, _ = self.client.attach(sends_to=node)
        properties, answer = self.client.ask(
            handle, {"operation": f"com.microsoft:{operation}"}, request, p.transactional(name, None)
        )
        return properties["statusCode"], properties.get("errorCondition"), answer


@pytest.fixture
def transacting(client):
    client.put_token("sb://host/", life_s=600)
    return Transacting(client)


@pytest.fixture
def queue(namespace):
    return namespace.queue("orders")


@pytest.fixture
def texts(queue):
    """The bodies of the messages that anybody can peek, with whether they are locked."""

    def look(of=queue):
        peeked = of.contents.peek(0, 1000, time.time())
        return [(each.message.bare[-1:], each.lock_token is not None) for each in peeked]

    return look


def put(client, text=b"a", queue="orders", session=None):
    handle, _ = client.attach(sends_to=queue)
    client.say(sent(p.Transfer(handle, 1, b"t", 0, True), body(text, session)))
    client.heard()


@pytest.mark.parametrize(("fails", "after"), [(False, [(b"b", False), (b"c", False)]), (True, [(b"a", True)])])
def test_nothing_is_seen_before_a_commit_and_after_a_roll_back(client, transacting, queue, texts, fails, after):
    transfer, name = transacting.begin(10)
    assert transacting.send(b"b", name) == ACCEPTED
    assert transacting.settle(transfer, name) == ACCEPTED
    assert transacting.send(b"c", name) == ACCEPTED
    assert (texts(), len(queue), transacting.receive(10)) == ([(b"a", True)], 1, [])
    transacting.receive(0)
    assert transacting.discharge(name, fails=fails) == ACCEPTED
    assert texts() == after
    assert transacting.discharge(name) == (p.REJECTED, UNKNOWN)


def test_the_same_receiver_settles_again_after_a_roll_back_and_not_after_a_commit(client, transacting, queue):
    transfer, name = transacting.begin()
    assert transacting.settle(transfer, name, described(p.MODIFIED, True, True)) == (p.MODIFIED, "")
    assert transacting.discharge(name, fails=True) == ACCEPTED
    name = transacting.declare()
    assert transacting.settle(transfer, name, p.rejected()) == (p.REJECTED, "")
    assert transacting.discharge(name) == ACCEPTED
    assert (len(queue), len(queue.dead_letters)) == (0, 1)
    assert not client.conversation.connection.sessions[3]._unsettled


def test_a_message_that_its_receiver_has_settled_for_itself_stays_locked_after_a_roll_back(
    client, transacting, queue, passing
):
    transfer, name = transacting.begin(2)
    assert transacting.settle(transfer, name, settled=True) is None
    transacting.discharge(name, fails=True)
    (stored,) = queue.contents.messages()
    assert (stored.delivery_count, stored.lock_token) == (0, transfer.delivery_tag)
    passing(61)
    assert (stored.delivery_count, stored.lock_token not in (None, transfer.delivery_tag)) == (1, True)


def test_a_delivery_is_settled_once_though_it_is_in_a_transaction(client, transacting):
    put(client)
    transacting.receive()
    disposition = p.Disposition(True, 0, 7000, False, p.transactional(b"unknown", p.accepted()))
    client.say(sent(disposition, channel=3) * 9)
    assert len(client.heard()) == 1


def test_a_lost_lock_is_refused_at_once_and_undoes_everything(client, transacting, passing, texts):
    transfer, name = transacting.begin()
    assert transacting.send(b"b", name) == ACCEPTED
    transacting.receive(0)
    passing(61)
    assert transacting.settle(transfer, name) == (p.REJECTED, LOCK_LOST)
    assert transacting.send(b"c", name) == (p.REJECTED, ROLLED_BACK)
    assert transacting.discharge(name) == (p.REJECTED, ROLLED_BACK)
    assert texts() == [(b"a", False)]


def test_a_lock_that_is_lost_before_the_commit_undoes_everything(client, transacting, passing, texts):
    transfer, name = transacting.begin()
    assert (transacting.settle(transfer, name), transacting.send(b"b", name)) == (ACCEPTED, ACCEPTED)
    transacting.receive(0)
    passing(61)
    assert transacting.discharge(name) == (p.REJECTED, ROLLED_BACK)
    assert texts() == [(b"a", False)]


@pytest.mark.parametrize(
    "frames",
    [
        sent(p.Detach(0, True), channel=4),
        sent(p.End(), channel=4),
        sent(p.Close(), channel=0),
        b"".join(
            sent(p.Transfer(0, number, b"t", 0, settled), b"\x00\x53\x77" + encode(described(p.DECLARE, None)), 4)
            for number, settled in ((99, True), (100, False))
        ),
    ],
    ids=["link", "session", "connection", "settled control message"],
)
def test_the_end_of_its_coordinator_rolls_back(client, transacting, queue, texts, frames):
    transfer, name = transacting.begin()
    transacting.send(b"b", name)
    transacting.settle(transfer, name)
    client.say(frames)
    client.heard()
    assert (texts(), client.conversation.transactions._open) == ([(b"a", True)], {})
    if not client.is_closed:
        assert transacting.send(b"c", name) == (p.REJECTED, UNKNOWN)
        assert transacting.settle(transfer) == ACCEPTED


def test_a_transaction_is_rolled_back_two_minutes_after_its_first_operation(host, transacting, passing, texts):
    slow, unused = transacting.declare(), transacting.declare()
    transacting.send(b"a", slow)
    passing(TIME_LIMIT_S + 1)
    assert transacting.send(b"b", slow) == (p.REJECTED, "amqp:transaction:timeout")
    assert transacting.discharge(slow) == (p.REJECTED, "amqp:transaction:timeout")
    assert transacting.send(b"c", unused) == ACCEPTED
    assert transacting.discharge(unused) == ACCEPTED
    assert (texts(), len(host.expiries)) == ([(b"c", False)], 1), "the token of the connection is left"


@pytest.mark.parametrize("name", [b"", b"unknown"])
def test_an_unknown_transaction_is_refused_and_nothing_is_done(client, transacting, texts, name):
    put(client)
    (transfer,) = transacting.receive()
    assert transacting.send(b"b", name) == (p.REJECTED, UNKNOWN)
    assert transacting.settle(transfer, name) == (p.REJECTED, UNKNOWN)
    assert transacting.ask("schedule-message", {"messages": [{"message": body()}]}, name)[:2] == (404, UNKNOWN)
    assert texts() == [(b"a", True)]


def test_a_transaction_belongs_to_its_connection(transacting, host, calls):
    other = Client(host, calls)
    other.put_token("sb://host/")
    assert Transacting(other).send(b"a", transacting.declare()) == (p.REJECTED, UNKNOWN)


def test_transactions_of_one_connection_are_independent(transacting, texts):
    first, second = transacting.declare(), transacting.declare()
    transacting.send(b"a", first)
    transacting.send(b"b", second)
    transacting.send(b"c", first)
    assert (transacting.discharge(second), texts()) == (ACCEPTED, [(b"b", False)])
    assert (transacting.discharge(first), texts()) == (ACCEPTED, [(b"b", False), (b"a", False), (b"c", False)])


def test_messages_are_scheduled_and_cancelled_by_a_commit(client, transacting, queue):
    later = {"x-opt-scheduled-enqueue-time": Timestamp(int((time.time() + 60) * 1000))}
    request = {"messages": [{"message": b"\x00\x53\x72" + encode(later) + body()}]}
    name = transacting.declare()
    status, _, answer = transacting.ask("schedule-message", request, name)
    put(client)
    assert (status, queue.contents.scheduled_count) == (200, 0)
    transacting.discharge(name)
    numbers = answer["sequence-numbers"]
    assert [each.sequence_number for each in queue.contents.peek(0, 9, time.time())] == [*numbers, numbers[0] + 1]
    for fails, left in ((True, 1), (False, 0)):
        name = transacting.declare()
        assert transacting.ask("cancel-scheduled-message", {"sequence-numbers": Array(numbers)}, name)[0] == 200
        assert queue.contents.scheduled_count == 1
        transacting.discharge(name, fails=fails)
        assert queue.contents.scheduled_count == left
    name = transacting.declare()
    transacting.send(b"b", name)
    status, condition, _ = transacting.ask("cancel-scheduled-message", {"sequence-numbers": Array(numbers)}, name)
    assert (status, condition) == (404, "com.microsoft:message-not-found")
    assert transacting.discharge(name) == (p.REJECTED, ROLLED_BACK)


def test_messages_of_a_session_are_settled_by_a_commit(client, transacting, namespace):
    put(client, queue="sessions", session="s")
    (transfer,) = transacting.receive_in_session()
    for fails, left in ((True, 1), (False, 0)):
        name = transacting.declare()
        assert transacting.settle(transfer, name) == ACCEPTED
        assert (transacting.discharge(name, fails=fails), len(namespace.queue("sessions"))) == (ACCEPTED, left)


def test_deferred_messages_are_settled_by_a_commit(client, transacting, queue):
    put(client)
    (transfer,) = transacting.receive()
    transacting.settle(transfer, state=described(p.MODIFIED, True, True))
    asked = {"sequence-numbers": Array([1, 1]), "receiver-settle-mode": 1}
    _, _, answer = transacting.ask("receive-by-sequence-number", asked, name := transacting.declare())
    (found,) = answer["messages"]
    asked = {"disposition-status": "completed", "lock-tokens": Array([found["lock-token"]])}
    assert (transacting.ask("update-disposition", asked, name)[0], len(queue)) == (200, 1)
    assert (transacting.discharge(name), len(queue)) == (ACCEPTED, 0)


@pytest.fixture
def topic(namespace):
    namespace.create_topic("news", TopicDescription("news"), time.time())
    for name in ("one", "two"):
        namespace.create_subscription("news", SubscriptionDescription("news", name), time.time())
    return namespace.topic("news")


def test_entities_of_several_sessions_are_refused(transacting, texts):
    other = transacting.link(1, 50, "orders/eu")
    name = transacting.declare()
    assert transacting.send(b"a", name) == ACCEPTED
    assert transacting.send(b"b", name, other) == (p.REJECTED, NOT_ALLOWED)
    assert (transacting.discharge(name), texts()) == ((p.REJECTED, ROLLED_BACK), [])


def test_a_topic_and_its_subscriptions_are_one_entity(client, transacting, topic):
    transacting.receiver = transacting.link(3, 1, "news/Subscriptions/one", receives=True)
    transfer, name = transacting.begin(queue="news")
    assert transacting.settle(transfer, name) == ACCEPTED
    assert transacting.send(b"b", name, transacting.link(2, 1, "news")) == ACCEPTED
    transacting.discharge(name)
    assert [len(each.queue) for each in topic.subscriptions()] == [1, 2]


def test_a_coordinator_that_comes_together_with_the_next_links_begins_its_session(client, transacting):
    """SDKs for Java send the links of `$cbs` in the same segment."""
    links = [p.Attach("c", 0, False, 0, 1, source("me"), COORDINATOR, initial_delivery_count=0)]
    links.append(p.Attach("cbs", 1, False, 0, 1, source("me"), target("$cbs"), initial_delivery_count=0))
    client.say(b"".join(sent(each, channel=5) for each in (p.Begin(None, 0, 5000, 5000), *links)))
    name = transacting.declare()
    for handle, queue in ((2, "orders"), (3, "orders/eu")):
        assert transacting.send(b"a", name, transacting.link(5, handle, queue)) == ACCEPTED


def test_the_first_link_after_a_coordinator_in_its_session_is_the_entity_all_others_send_through(
    client, transacting, namespace, texts
):
    transacting.receiver = transacting.link(4, 1, "orders", receives=True)
    transfer, name = transacting.begin()
    assert transacting.settle(transfer, name) == ACCEPTED
    assert transacting.send(b"b", name, transacting.link(4, 2, "orders/eu")) == ACCEPTED
    client.heard()
    transacting.link(4, 3, "orders/eu", receives=True)
    attach, detach = [each for each, _ in client.heard()]
    assert (attach.source, p.error_parts(detach.error)[:2]) == (None, (NOT_ALLOWED, SPANS_ENTITIES))
    assert transacting.discharge(name) == ACCEPTED
    assert (texts(), texts(namespace.queue("orders/eu"))) == ([], [(b"b", False)])


def test_a_link_may_name_the_entity_it_sends_to_through_another(transacting, namespace, texts):
    destination = {Symbol("com.microsoft:transfer-destination-address"): "orders/eu"}
    through = transacting.link(2, 1, "orders", properties=destination)
    name = transacting.declare()
    assert (transacting.send(b"a", name), transacting.send(b"b", name, through)) == (ACCEPTED, ACCEPTED)
    transacting.discharge(name)
    assert (texts(), texts(namespace.queue("orders/eu"))) == ([(b"a", False)], [(b"b", False)])


def test_a_refused_link_is_not_the_one_all_others_send_through(client, transacting):
    there = described(p.SOURCE, "sessions", *[None] * 6, {Symbol("com.microsoft:session-filter"): "taken"})
    for channel in (3, 4):  # the second is refused, as the first holds the session
        client.say(sent(p.Attach(f"taken/{channel}", 9, True, 0, 1, there, target("me")), channel=channel))
    transacting.link(4, 1, "sessions", receives=True)
    client.heard()
    transacting.link(4, 2, "orders", receives=True)
    assert [each.source is None for each, _ in client.heard()] == [False]


def test_a_coordinator_that_comes_after_the_links_of_its_session_binds_no_others(client, transacting):
    client.say(sent(p.Detach(0, True), channel=2))
    transacting.link(2, 1, None)
    client.heard()
    for handle, queue in ((2, "orders"), (3, "orders/eu")):
        transacting.link(2, handle, queue, receives=True)
    assert [each.source is None for each, _ in client.heard()] == [False, False]


def test_a_link_ends_with_the_token_for_the_entity_it_sends_to_through_another(host, calls, passing):
    client = Client(host, calls)
    client.put_token("sb://host/orders", life_s=600)
    client.put_token("sb://host/sessions", life_s=60)
    destination = {Symbol("com.microsoft:transfer-destination-address"): "sessions"}
    Transacting(client).link(2, 1, "orders", properties=destination)
    client.heard()
    passing(61)
    assert [type(each) for each, _ in client.heard()] == [p.Detach]


def test_a_commit_that_its_entity_refuses_changes_nothing(client, transacting, namespace, texts):
    transfer, name = transacting.begin()
    transacting.settle(transfer, name)
    transacting.send(b"b", name)
    namespace.update_queue("orders", QueueDescription("orders", status=EntityStatus.DISABLED), time.time())
    assert transacting.discharge(name) == (p.REJECTED, ROLLED_BACK)
    assert texts() == [(b"a", True)]


@pytest.mark.parametrize("change", ["deleted", "disabled", "full"])
def test_what_a_destination_refuses_at_the_commit_is_a_dead_letter_of_the_entity_it_was_sent_through(
    client, transacting, namespace, queue, texts, change
):
    namespace.create_queue("small", QueueDescription("small", max_size_in_megabytes=1), time.time())
    transacting.receiver = transacting.link(4, 1, "orders", receives=True)
    small = transacting.link(4, 2, "small")
    transfer, name = transacting.begin()
    transacting.settle(transfer, name)
    for _ in range(5 if change == "full" else 1):
        assert transacting.send(b"c" * 250_000, name, small) == ACCEPTED
    if change == "deleted":
        namespace.delete_queue("small")
    elif change == "disabled":
        namespace.update_queue("small", QueueDescription("small", status=EntityStatus.DISABLED), time.time())
    assert transacting.discharge(name) == ACCEPTED
    assert (texts(), texts(queue.transfer_dead_letters)) == ([], [(b"c", False)])


def test_a_commit_leaves_the_successor_of_a_deleted_entity_alone(client, transacting, namespace):
    transfer, name = transacting.begin()
    transacting.settle(transfer, name)
    namespace.delete_queue("orders")
    namespace.create_queue("orders", QueueDescription("orders"), time.time())
    assert transacting.discharge(name) == (p.REJECTED, ROLLED_BACK)


def test_a_commit_is_applied_whole_though_its_first_delivery_ends_the_locks(client, transacting, host, namespace):
    for text in (b"a", b"b"):
        put(client, text, "sessions", "s")
    first, second = transacting.receive_in_session()
    name = transacting.declare()
    transacting.settle(first, name, described(p.MODIFIED, True, False))
    transacting.settle(second, name)
    host.add_fault(fault_from_json({"operation": "receive", "effect": "detach"}, time.time()))
    assert transacting.discharge(name) == ACCEPTED
    assert [each.message.bare[-1:] for each in namespace.queue("sessions").contents.messages()] == [b"a"]
    assert not client.conversation.connection.sessions[3].links.get(1), "the delivery was tried"


def test_a_commit_is_one_write_of_the_journal(host, namespace, calls):
    class Recorded(NoJournal):
        seen: ClassVar[list[str]] = []

        def enqueued(self, path, stored):
            self.seen.append("enqueued")

        def removed(self, path, sequence_number):
            self.seen.append("removed")

        def commit(self):
            self.seen.append("commit")

    namespace.journal = Recorded()
    namespace.create_queue("kept", QueueDescription("kept"), time.time())
    client = Client(host, calls)
    client.put_token("sb://host/")
    transacting = Transacting(client, "kept")
    transfer, name = transacting.begin(queue="kept")
    transacting.send(b"b", name)
    transacting.settle(transfer, name)
    transacting.send(b"c", name)
    Recorded.seen.clear()
    transacting.discharge(name)
    assert Recorded.seen == ["removed", "enqueued", "enqueued", "commit"]


def test_a_transaction_has_a_limited_number_of_messages(transacting, texts):
    name = transacting.declare()
    batch = (b"\x00\x53\x75" + encode(body())) * MAX_MESSAGES
    state = transacting.transfer(transacting.sender, batch, p.transactional(name, None), BATCH_FORMAT)
    assert outcome(p.within_transaction(state)[1]) == ACCEPTED
    assert transacting.send(b"b", name) == (p.REJECTED, "amqp:resource-limit-exceeded")
    assert (transacting.discharge(name), texts()) == ((p.REJECTED, ROLLED_BACK), [])


def test_what_the_transactions_of_a_connection_hold_is_limited(client, transacting, monkeypatch):
    monkeypatch.setattr("emulator.broker.transactions.MAX_BYTES", 60_000)
    transfer, name = transacting.begin()
    large = described(p.MODIFIED, True, False, {Symbol("a"): "x" * 60_000})
    assert transacting.settle(transfer, name, large) == (p.MODIFIED, "")
    assert transacting.send(b"b", name) == (p.REJECTED, "amqp:resource-limit-exceeded")


def test_a_connection_has_a_limited_number_of_open_transactions(transacting):
    names = [transacting.declare() for _ in range(MAX_OPEN)]
    assert outcome(transacting.control(p.DECLARE, None)) == (p.REJECTED, "amqp:resource-limit-exceeded")
    transacting.discharge(names[0], fails=True)
    assert transacting.declare() not in names


@pytest.mark.parametrize(
    ("value", "condition"),
    [
        (described(p.DECLARE, b"global"), "amqp:not-implemented"),
        (described(p.DISCHARGE), "amqp:invalid-field"),
        (described(p.DISCHARGE, "text"), "amqp:invalid-field"),
        (described(p.ACCEPTED), "amqp:invalid-field"),
        ("declare", "amqp:invalid-field"),
    ],
)
def test_a_control_message_that_is_none_is_refused(transacting, value, condition):
    state = transacting.transfer(transacting.controller, b"\x00\x53\x77" + encode(value))
    assert outcome(state) == (p.REJECTED, condition)
    assert outcome(transacting.transfer(transacting.controller, b"\x00")) == (p.REJECTED, "amqp:decode-error")


@pytest.mark.parametrize(
    ("operation", "effect"),
    [
        *(("send", effect) for effect in ("reject", "silent", "detach")),
        *(("settle", effect) for effect in ("reject", "released", "silent", "detach")),
        *(("manage", effect) for effect in ("status", "silent")),
    ],
)
def test_a_fault_of_an_operation_undoes_its_transaction(client, host, transacting, texts, operation, effect):
    links = {"send": transacting.sender, "manage": transacting.link(2, 1, "orders/$management")}
    transfer, name = transacting.begin()
    transacting.send(b"b", name)
    host.add_fault(fault_from_json({"operation": operation, "effect": effect, "count": 1}, time.time()))
    if operation == "settle":
        transacting.settle(transfer, name, settled=True)
    else:
        transacting.transfer(links[operation], body(b"c"), p.transactional(name, None), settled=True)
    assert (transacting.discharge(name), texts()) == ((p.REJECTED, ROLLED_BACK), [(b"a", True)])


def test_a_settled_message_that_is_refused_makes_the_commit_fail(transacting, texts):
    name = transacting.declare()
    transacting.send(b"a", name)
    large = body(b"x" * 300_000)
    assert transacting.transfer(transacting.sender, large, p.transactional(name, None), settled=True) is None
    assert (transacting.discharge(name), texts()) == ((p.REJECTED, ROLLED_BACK), [])
