"""One namespace: its entities by path, address resolution, and the schedule of what is due."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar
from urllib.parse import unquote

from emulator.broker import dead_letter
from emulator.broker.descriptions import (
    DEFAULT_RULE,
    AuthorizationRule,
    QueueDescription,
    RuleDescription,
    SubscriptionDescription,
    TopicDescription,
)
from emulator.broker.errors import EntityExists, EntityNotFound, HopsExceeded, NotAllowed
from emulator.broker.journal import Journal, NoJournal
from emulator.broker.message import StoredMessage
from emulator.broker.queues.queue import Queue
from emulator.broker.queues.receivers import DeliveryHold
from emulator.broker.schedule import Schedule
from emulator.broker.subscription import Subscription
from emulator.broker.topic import SUBSCRIPTIONS, Inbox, Topic

MANAGEMENT_SUFFIX = "/$management"
MAX_HOPS = 4
# How often an entity with receivers is checked for being idle.
IDLE_CHECK_S = 60.0

Entity = TypeVar("Entity")


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed address: the path of the entity without suffixes, and the part of the entity it names."""

    path: str
    dead_letter: bool = False
    transfer: bool = False
    management: bool = False

    @property
    def node(self) -> str:
        """The path with the suffix of a dead-letter queue, as tokens name it."""
        if self.transfer:
            return self.path + dead_letter.TRANSFER_SUFFIX
        return self.path + dead_letter.DEAD_LETTER_SUFFIX if self.dead_letter else self.path


def parse_address(address: str) -> Address:
    """Parse an AMQP address. Names may contain slashes, so only known suffixes are removed, from the right."""
    path = unquote(strip_host(address)).strip("/")
    path, management = _without(path, MANAGEMENT_SUFFIX)
    path, transfer = _without(path, dead_letter.TRANSFER_SUFFIX)
    path, dead = (path, False) if transfer else _without(path, dead_letter.DEAD_LETTER_SUFFIX)
    return Address(path, dead_letter=dead, transfer=transfer, management=management)


def strip_host(address: str) -> str:
    """The part after `scheme://host:port/`; an address without a scheme is returned as it is."""
    _, separator, rest = address.partition("://")
    return rest.partition("/")[2] if separator else address


def _without(path: str, suffix: str) -> tuple[str, bool]:
    if path.lower().endswith(suffix.lower()):
        return path[: -len(suffix)], True
    return path, False


class Namespace:
    """The entities of a namespace. Paths are compared without case and keep their spelling."""

    def __init__(self, name: str, journal: Journal | None = None) -> None:
        self.name = name
        self.journal: Journal = journal or NoJournal()
        self.hold = DeliveryHold()
        self._queues: dict[str, Queue] = {}
        self._topics: dict[str, Topic] = {}
        self._due: Schedule[Queue] = Schedule()
        self._due_at: dict[Queue, float] = {}

    # --- queues ----------------------------------------------------------------------------------------------------

    def create_queue(self, path: str, description: QueueDescription, now: float) -> Queue:
        """Create a queue. Raises EntityExists."""
        self._check_free(path)
        queue = self._queues[path.lower()] = Queue(description, self, now)
        self._changed(queue)
        return queue

    def queue(self, path: str) -> Queue:
        """The queue of this path. Raises EntityNotFound."""
        return _found(self._queues, path)

    def queues(self) -> list[Queue]:
        """All queues by path."""
        return [self._queues[key] for key in sorted(self._queues)]

    def update_queue(self, path: str, description: QueueDescription, now: float) -> Queue:
        """Apply new properties to a queue. Raises EntityNotFound."""
        queue = self.queue(path)
        queue.update(description, now)
        self._changed(queue)
        return queue

    def delete_queue(self, path: str) -> None:
        """Delete a queue with its messages. Raises EntityNotFound."""
        queue = self.queue(path)
        del self._queues[path.lower()]
        self._forget(queue)

    # --- topics and subscriptions ----------------------------------------------------------------------------------

    def create_topic(self, path: str, description: TopicDescription, now: float) -> Topic:
        """Create a topic without subscriptions. Raises EntityExists."""
        self._check_free(path)
        topic = self._topics[path.lower()] = Topic(description, self, now)
        self._changed(topic.inbox)
        return topic

    def topic(self, path: str) -> Topic:
        """The topic of this path. Raises EntityNotFound."""
        return _found(self._topics, path)

    def topics(self) -> list[Topic]:
        """All topics by path."""
        return [self._topics[key] for key in sorted(self._topics)]

    def update_topic(self, path: str, description: TopicDescription, now: float) -> Topic:
        """Apply new properties to a topic. Raises EntityNotFound."""
        topic = self.topic(path)
        topic.update(description, now)
        self._changed(topic.inbox)
        return topic

    def delete_topic(self, path: str) -> None:
        """Delete a topic with its subscriptions and messages. Raises EntityNotFound."""
        topic = self.topic(path)
        del self._topics[path.lower()]
        for queue in topic.queues():
            self._forget(queue)

    def create_subscription(
        self,
        topic: str,
        description: SubscriptionDescription,
        now: float,
        rules: Iterable[RuleDescription] = (DEFAULT_RULE,),
    ) -> Subscription:
        """Create a subscription. Raises EntityNotFound, EntityExists, QuotaExceeded or DescriptionError."""
        subscription = self.topic(topic).create_subscription(description, now, rules)
        self._changed(subscription.queue)
        return subscription

    def subscription(self, path: str) -> Subscription:
        """The subscription of this path, `<topic>/Subscriptions/<name>`. Raises EntityNotFound or NotAllowed."""
        topic, separator, name = path.lower().rpartition(SUBSCRIPTIONS)
        if not separator or path.lower() in self._queues:
            raise NotAllowed(f"'{path}' is not a subscription.")
        return self.topic(topic).subscription(name)

    def delete_subscription(self, topic: str, name: str, now: float) -> None:
        """Delete a subscription with its messages. Raises EntityNotFound."""
        self._forget(self.topic(topic).delete_subscription(name, now).queue)

    # --- all of them -----------------------------------------------------------------------------------------------

    def exists(self, path: str) -> bool:
        """Whether a queue or topic has this path."""
        return path.lower() in self._queues or path.lower() in self._topics

    def entities(self) -> Iterator[Queue]:
        """All queues: queue entities, those of topics and subscriptions; without dead-letter queues."""
        yield from self.queues()
        for topic in self.topics():
            yield from topic.queues()

    def knows(self, address: str) -> bool:
        """Whether an address names an existing entity."""
        try:
            self.resolve(address)
        except EntityNotFound:
            return False
        return True

    def authorization_rules(self, path: str) -> tuple[str, tuple[AuthorizationRule, ...]]:
        """The queue or topic a path belongs to, for a subscription its topic, and its rules; none if unknown."""
        key = path.lower()
        if key in self._queues:
            return path, self._queues[key].description.authorization_rules
        topic = key if key in self._topics else key.rpartition(SUBSCRIPTIONS)[0]
        return (topic, self._topics[topic].description.authorization_rules) if topic in self._topics else (path, ())

    def _check_free(self, path: str) -> None:
        if self.exists(path):
            raise EntityExists(f"The messaging entity '{path}' already exists.")

    def _changed(self, queue: Queue) -> None:
        self.wake(queue, queue.idle_due())
        self.journal.entity(queue.path)

    def _forget(self, queue: Queue) -> None:
        for gone in (queue, *queue.sub_queues()):
            gone.close()
            self._due.discard(gone)
            self._due_at.pop(gone, None)
        self.journal.entity(queue.path)

    # --- addresses -------------------------------------------------------------------------------------------------

    def resolve(self, address: str) -> Queue:
        """The queue an address names: a queue entity, that of a topic or subscription, or a dead-letter queue.

        Raises EntityNotFound.
        """
        parsed = parse_address(address)
        queue = self._holder(parsed.path)
        if parsed.transfer:
            return queue.transfer_dead_letters
        return queue.dead_letters if parsed.dead_letter else queue

    def resolve_sender(self, address: str) -> Queue:
        """The queue to which messages sent to an address go. Raises EntityNotFound or NotAllowed."""
        parsed = parse_address(address)
        if parsed.dead_letter or parsed.transfer or not self.exists(parsed.path):
            self.resolve(address)
            raise NotAllowed("Messages are sent to queues and topics, not to subscriptions or dead-letter queues.")
        return self._holder(parsed.path)

    def resolve_receiver(self, address: str) -> Queue:
        """The queue from which an address receives. Raises EntityNotFound, or NotAllowed for a topic."""
        queue = self.resolve(address)
        if isinstance(queue, Inbox):
            raise NotAllowed("Messages cannot be received from a topic: receive from one of its subscriptions.")
        return queue

    def _holder(self, path: str) -> Queue:
        key = path.lower()
        if key in self._queues:
            return self._queues[key]
        if key in self._topics:
            return self._topics[key].inbox
        topic, separator, name = key.rpartition(SUBSCRIPTIONS)
        if separator and topic in self._topics:
            return self._topics[topic].subscription(name).queue
        raise EntityNotFound(f"The messaging entity '{path}' could not be found.")

    def forward(self, target: str, stored: StoredMessage, now: float) -> None:
        """Put a copy of the message into the entity `target` and count the hop. Raises BrokerError."""
        if stored.hops >= MAX_HOPS:
            raise HopsExceeded
        self.resolve_sender(target).enqueue(stored.message, now, source=replace(stored, hops=stored.hops + 1))

    # --- time ------------------------------------------------------------------------------------------------------

    def wake(self, queue: Queue, due: float) -> None:
        """Schedule a call of `queue.advance` at `due` or before."""
        if due < self._due_at.get(queue, float("inf")):
            self._due_at[queue] = due
            self._due.set(queue, due)

    def next_due(self) -> float:
        """When `advance` has something to do; infinity if never."""
        return self._due.next_due()

    def advance(self, now: float) -> None:
        """Do everything that is due: lapse locks, expire, activate, free sessions."""
        for queue in list(self._due.take_due(now)):
            self._due_at.pop(queue, None)
            queue.advance(now)
            if queue.is_idle(now):
                self._delete(queue)
            else:
                self.wake(queue, min(queue.next_due(), max(queue.idle_due(), now + IDLE_CHECK_S)))

    def _delete(self, queue: Queue) -> None:
        """Delete an entity that was idle for longer than AutoDeleteOnIdle."""
        parsed, _, name = queue.path.lower().rpartition(SUBSCRIPTIONS)
        if isinstance(queue, Inbox):
            self.delete_topic(queue.path)
        elif queue.path.lower() in self._queues:
            self.delete_queue(queue.path)
        elif parsed in self._topics:
            self.delete_subscription(parsed, name, queue.accessed_at)


def _found(entities: Mapping[str, Entity], path: str) -> Entity:
    found = entities.get(path.lower())
    if found is None:
        raise EntityNotFound(f"The messaging entity '{path}' could not be found.")
    return found
