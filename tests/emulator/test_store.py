"""What a store keeps: everything up to the last commit, and nothing after it."""

import random
import sqlite3
from contextlib import closing, suppress
from dataclasses import fields
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path

import pytest

from amqp10.codec import encode, encode_list, encode_map
from amqp10.types import Symbol, Timestamp, UInt
from emulator.broker.descriptions import QueueDescription, RuleDescription, SubscriptionDescription, TopicDescription
from emulator.broker.errors import BrokerError
from emulator.broker.filters import CorrelationFilter, FalseFilter, SqlFilter, SqlRuleAction
from emulator.broker.message import Message, StoredMessage, parse
from emulator.broker.namespace import Namespace
from emulator.broker.queues.queue import Queue
from emulator.store import Store, StoreError
from emulator.store.rows import MESSAGE_FIELDS, STORED_FIELDS

NOW = 1_790_000_000.0


def message(body: str = "x", *, scheduled_at: float | None = None, ttl_ms: int | None = None, **properties) -> Message:
    """A message with this text, its other properties as application properties but for the two ids."""
    ids = [properties.pop("message_id", None), None, None, None, None, None, None, None, None, None]
    head = encode_list([encode(value) for value in [*ids, properties.pop("session_id", None)]])
    application = encode_map([(encode(key), encode(value)) for key, value in properties.items()])
    sections = b"\x00\x53\x73" + head + b"\x00\x53\x74" + application + b"\x00\x53\x75" + encode(body.encode())
    if scheduled_at is not None:
        key = encode(Symbol("x-opt-scheduled-enqueue-time"))
        annotations = encode_map([(key, encode(Timestamp(int(scheduled_at * 1000))))])
        sections = b"\x00\x53\x72" + annotations + sections
    if ttl_ms is not None:
        sections = b"\x00\x53\x70" + encode([None, None, UInt(ttl_ms)]) + sections
    return parse(sections)


class Disk:
    """A store that can lose its process: what was not committed is gone."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.start()

    def start(self) -> None:
        self.store = Store(self._path)
        self.namespace = Namespace("contoso", self.store)
        self.store.restore(self.namespace, NOW)

    def crash(self) -> None:
        self.store._database.close()
        self.start()

    def restart(self) -> None:
        self.store.close()
        self.start()


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "kept" / "contoso.sqlite3")


def contents(namespace: Namespace) -> dict[str, object]:
    """Everything a restart must not change: entities, rules, messages, sessions, sequences."""
    found: dict[str, object] = {}
    for entity in namespace.entities():
        for queue in (entity, *entity.sub_queues()):
            if queue is entity or len(queue):
                found[queue.path] = _queue_contents(queue)
    for topic in namespace.topics():
        found[f"topic {topic.path}"] = topic.description
        for each in topic.subscriptions():
            rules = [(rule.description, rule.created_at) for rule in each.rules()]
            found[f"rules {each.queue.path}"] = (each.description, rules)
    return found


_KEPT = attrgetter("sequence_number", "message", *STORED_FIELDS)


def _queue_contents(queue: Queue) -> object:
    messages = [_KEPT(stored) for stored in queue.contents.messages()]
    sessions = sorted((session.session_id, session.state) for session in queue.contents.sessions.states())
    times = (queue.created_at, queue.updated_at) if queue.parent is None else ()
    return queue.description, messages, sessions, queue.last_sequence_number, times


def test_an_empty_store_restores_nothing_and_keeps_its_file_to_its_owner(disk, tmp_path):
    assert contents(disk.namespace) == {}
    assert (tmp_path / "kept" / "contoso.sqlite3").stat().st_mode & 0o077 == 0


def test_entities_come_back_as_they_were(disk):
    rules = [
        RuleDescription("sql", SqlFilter("a = @p", {"@p": datetime(2026, 1, 1)}), SqlRuleAction("SET b = 1")),
        RuleDescription("correlation", CorrelationFilter(label="x", properties={"n": 2**40, "f": 1.5, "b": True})),
        RuleDescription("none", FalseFilter()),
    ]
    disk.namespace.create_queue(
        "Orders/A", QueueDescription("Orders/A", lock_duration_s=13.5, requires_session=True), NOW
    )
    disk.namespace.create_queue("b", QueueDescription("b", forward_to="Orders/A", user_metadata="<&>\n"), NOW)
    disk.namespace.create_topic("t/u", TopicDescription("t/u", requires_duplicate_detection=True), NOW)
    disk.namespace.create_subscription("t/u", SubscriptionDescription("t/u", "audit", max_delivery_count=3), NOW, rules)
    disk.namespace.create_subscription("t/u", SubscriptionDescription("t/u", "all"), NOW)
    disk.namespace.update_queue("b", QueueDescription("b", max_delivery_count=5), NOW + 5)
    disk.store.commit()
    before = contents(disk.namespace)

    disk.crash()

    assert contents(disk.namespace) == before
    assert disk.namespace.queue("b").updated_at == NOW + 5
    assert [rule.name for rule in disk.namespace.topic("t/u").subscription("audit").rules()] == [
        "correlation",
        "none",
        "sql",
    ]


def test_one_store_belongs_to_one_process_at_a_time(disk, tmp_path):
    with pytest.raises(StoreError, match="locked"):
        Store(tmp_path / "kept" / "contoso.sqlite3")


def test_a_file_that_is_no_store_is_reported_in_one_sentence(tmp_path):
    path = tmp_path / "contoso.sqlite3"
    path.write_bytes(b"no database at all, but long enough to be read as one" * 100)
    with pytest.raises(StoreError, match="not a database"):
        Store(path)
    other = tmp_path / "other.sqlite3"
    with closing(sqlite3.connect(other)) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="another version"):
        Store(other)


class Holder:
    """A receiver of a session that takes messages only when asked to."""

    deletes = False

    def accepts(self, now: float) -> bool:
        return False

    def session_granted(self, session_id: str, until: float) -> None: ...
    def session_lost(self) -> None: ...
    def entity_gone(self, condition: str, text: str) -> None: ...


class Operator:
    """Does one thing after another to a namespace, as chance says."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.now = NOW
        self._weights = {self._create: 3, self._delete: 1, self._update: 2, self._send: 12, self._receive: 6}
        self._weights |= {self._settle: 8, self._work_on_a_session: 8, self._advance: 2}

    def act(self, namespace: Namespace) -> None:
        self.now += self._random.choice([0, 0, 1, 30])
        action = self._random.choices(list(self._weights), list(self._weights.values()))[0]
        with suppress(BrokerError):
            action(namespace)

    def _create(self, namespace: Namespace) -> None:
        name = self._random.choice("abc")
        match self._random.randrange(4):
            case 0:
                namespace.create_topic(f"t{name}", TopicDescription(f"t{name}"), self.now)
            case 1:
                rule = self._random.choice(
                    [SqlFilter("n > 4"), SqlFilter("n > 'x'"), CorrelationFilter(properties={"n": 3})]
                )
                action = self._random.choice([None, SqlRuleAction("SET n = n + 1")])
                description = SubscriptionDescription(f"t{name}", self._random.choice("xy"))
                namespace.create_subscription(f"t{name}", description, self.now, [RuleDescription("r", rule, action)])
            case _:
                namespace.create_queue(name, self._description(name), self.now)

    def _description(self, name: str) -> QueueDescription:
        return QueueDescription(
            name,
            max_delivery_count=self._random.choice([1, 3]),
            dead_lettering_on_message_expiration=self._random.random() < 0.5,
            requires_duplicate_detection=name == "b",
            forward_to="a" if name == "c" and self._random.random() < 0.3 else None,
        )

    def _delete(self, namespace: Namespace) -> None:
        if self._random.random() < 0.7:
            namespace.delete_queue(self._random.choice("abc"))
        else:
            namespace.delete_topic("t" + self._random.choice("abc"))

    def _update(self, namespace: Namespace) -> None:
        name = self._random.choice("abc")
        namespace.update_queue(name, self._description(name), self.now)

    def _send(self, namespace: Namespace) -> None:
        path = self._random.choice(["a", "b", "c", "ta", "tb", "tc"])
        options = self._random.choice([{}, {"ttl_ms": 20_000}, {"scheduled_at": self.now + 40}])
        number = self._random.randrange(8)
        count = self._random.choice([1, 1, 3])
        for _ in range(count):
            namespace.resolve_sender(path).enqueue(message(message_id=str(number), n=number, **options), self.now)

    def _pick(self, namespace: Namespace) -> Queue | None:
        queues = [part for queue in namespace.entities() for part in (queue, *queue.sub_queues())]
        return self._random.choice(queues) if queues else None

    def _receive(self, namespace: Namespace) -> None:
        queue = self._pick(namespace)
        if queue is not None:
            deliveries = queue.deliveries
            (deliveries.receive if self._random.random() < 0.7 else deliveries.receive_and_delete)(self.now)

    def _settle(self, namespace: Namespace) -> None:
        queue = self._pick(namespace)
        stored = queue.deliveries.receive(self.now) if queue is not None else None
        if queue is not None and stored is not None:
            self._settle_in(queue, stored)

    def _settle_in(self, queue: Queue, stored: StoredMessage) -> None:
        assert stored.lock_token is not None
        match self._random.choice(["complete", "abandon", "defer", "bury"]):
            case "complete":
                queue.deliveries.complete(stored.lock_token, self.now)
            case "abandon":
                queue.deliveries.abandon(stored.lock_token, self.now)
            case "defer":
                queue.deliveries.defer(stored.lock_token, self.now)
            case _:
                queue.deliveries.dead_letter(stored.lock_token, "r", None, self.now)

    def _work_on_a_session(self, namespace: Namespace) -> None:
        if not namespace.exists("s"):
            namespace.create_queue("s", QueueDescription("s", requires_session=True, max_delivery_count=2), self.now)
        queue, session_id, holder = namespace.queue("s"), self._random.choice("xy"), Holder()
        for text in "ab":
            queue.enqueue(message(text, session_id=session_id), self.now)
        queue.receivers.accept_session(session_id, holder, self.now)
        for _ in range(self._random.randrange(3)):
            stored = queue.deliveries.receive(self.now, queue.contents.sessions.of(session_id))
            if stored is not None and self._random.random() < 0.8:
                self._settle_in(queue, stored)
        if self._random.random() < 0.6:
            queue.receivers.set_session_state(session_id, self._random.choice([None, b"", b"state"]), self.now)
        if self._random.random() < 0.8:
            queue.receivers.close_session(session_id, holder, self.now)

    def _advance(self, namespace: Namespace) -> None:
        namespace.advance(self.now)


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happened_a_crash_returns_to_the_last_commit(disk, seed):
    operator = Operator(seed)
    chance = random.Random(seed)
    committed = contents(disk.namespace)
    for _ in range(120):
        operator.act(disk.namespace)
        roll = chance.random()
        if roll < 0.3:
            disk.store.commit()
            committed = contents(disk.namespace)
        elif roll < 0.36:
            disk.crash()
            assert contents(disk.namespace) == committed
    disk.store.commit()
    committed = contents(disk.namespace)
    disk.restart()
    assert contents(disk.namespace) == committed


def test_times_are_kept_to_the_microsecond(disk):
    at = datetime(2026, 11, 21, 2, 3, 4, 567891, tzinfo=UTC).timestamp()
    disk.namespace.create_queue("q", QueueDescription("q"), at).enqueue(message(), at)
    disk.store.commit()
    disk.crash()
    [stored] = disk.namespace.queue("q").contents.messages()
    assert stored.enqueued_at == at


def test_every_field_of_a_message_is_kept_or_may_be_forgotten():
    assert {field.name for field in fields(Message)} - {"is_ping"} == set(MESSAGE_FIELDS)
    locks = {"lock_token", "locked_until", "is_removed"}
    assert {field.name for field in fields(StoredMessage)} - locks == {"message", "sequence_number", *STORED_FIELDS}


def test_the_duplicate_history_comes_back(disk):
    description = QueueDescription("q", requires_duplicate_detection=True)
    disk.namespace.create_queue("q", description, NOW).enqueue(message(message_id="seen"), NOW)
    disk.store.commit()
    disk.crash()
    queue = disk.namespace.queue("q")
    assert queue.enqueue(message(message_id="seen"), NOW + 599) is None
    assert queue.enqueue(message(message_id="new"), NOW + 599) is not None
    assert queue.enqueue(message(message_id="seen"), NOW + 601) is not None


def test_a_late_word_about_a_deleted_entity_is_forgotten(disk):
    queue = disk.namespace.create_queue("q", QueueDescription("q"), NOW)
    stored = queue.enqueue(message(), NOW)
    disk.namespace.delete_queue("q")
    disk.store.enqueued("q", stored)
    disk.store.commit()

    disk.crash()

    assert contents(disk.namespace) == {}
    disk.store.commit()
    assert disk.store._database.execute("SELECT count(*) FROM messages").fetchone() == (0,)
