"""One namespace: its entities by path, how addresses find them, and when something is due."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from emulator.broker import dead_letter
from emulator.broker.descriptions import QueueDescription
from emulator.broker.errors import EntityExists, EntityNotFound, NotAllowed
from emulator.broker.journal import Journal, NoJournal
from emulator.broker.message import Message, StoredMessage
from emulator.broker.queue import MAX_HOPS, Queue
from emulator.broker.schedule import Schedule

MANAGEMENT_SUFFIX = "/$management"


@dataclass(frozen=True, slots=True)
class Address:
    """What an address names: the entity's path without suffixes, and which part of the entity is meant."""

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
    """Split an AMQP address from the right: names hold slashes, so only known suffixes are taken off."""
    path = unquote(strip_host(address)).strip("/")
    path, management = _without(path, MANAGEMENT_SUFFIX)
    path, transfer = _without(path, dead_letter.TRANSFER_SUFFIX)
    path, dead = (path, False) if transfer else _without(path, dead_letter.DEAD_LETTER_SUFFIX)
    return Address(path, dead_letter=dead, transfer=transfer, management=management)


def strip_host(address: str) -> str:
    """The part behind `scheme://host:port/`; an address without a scheme is a path already."""
    _, separator, rest = address.partition("://")
    return rest.partition("/")[2] if separator else address


def _without(path: str, suffix: str) -> tuple[str, bool]:
    if path.lower().endswith(suffix.lower()):
        return path[: -len(suffix)], True
    return path, False


class Namespace:
    """The catalogue of entities. Paths are compared without case and kept as they were created."""

    def __init__(self, name: str, journal: Journal | None = None) -> None:
        self.name = name
        self.journal: Journal = journal or NoJournal()
        self._queues: dict[str, Queue] = {}
        self._due: Schedule[Queue] = Schedule()
        self._due_at: dict[Queue, float] = {}

    # --- entities --------------------------------------------------------------------------------------------------

    def create_queue(self, path: str, description: QueueDescription, now: float) -> Queue:
        """A new, empty queue. Raises EntityExists."""
        if self.exists(path):
            raise EntityExists(f"The messaging entity '{path}' already exists.")
        queue = self._queues[path.lower()] = Queue(description, self, now)
        self.journal.entities()
        return queue

    def queue(self, path: str) -> Queue:
        """The queue of this path. Raises EntityNotFound."""
        found = self._queues.get(path.lower())
        if found is None:
            raise EntityNotFound(f"The messaging entity '{path}' could not be found.")
        return found

    def queues(self) -> Iterable[Queue]:
        """All queues by path."""
        return [self._queues[key] for key in sorted(self._queues)]

    def update_queue(self, path: str, description: QueueDescription, now: float) -> Queue:
        """Give a queue other properties. Raises EntityNotFound."""
        queue = self.queue(path)
        queue.update(description, now)
        self.journal.entities()
        return queue

    def delete_queue(self, path: str) -> None:
        """Forget a queue and what is in it. Raises EntityNotFound."""
        queue = self.queue(path)
        del self._queues[path.lower()]
        self._forget(queue)
        self.journal.entities()

    def knows(self, address: str) -> bool:
        """Whether an address names something here."""
        try:
            self.resolve(address)
        except EntityNotFound:
            return False
        return True

    def exists(self, path: str) -> bool:
        """Whether a queue or topic has this path."""
        return path.lower() in self._queues

    def _forget(self, queue: Queue) -> None:
        for gone in (queue, *queue.sub_queues()):
            gone.close()
            self._due.discard(gone)
            self._due_at.pop(gone, None)

    # --- addresses -------------------------------------------------------------------------------------------------

    def resolve(self, address: str) -> Queue:
        """The queue (or sub-queue) an address names. Raises EntityNotFound."""
        parsed = parse_address(address)
        queue = self.queue(parsed.path)
        if parsed.transfer:
            return queue.transfer_dead_letters
        return queue.dead_letters if parsed.dead_letter else queue

    def resolve_sender(self, address: str) -> Queue:
        """What an address to send to names. Raises EntityNotFound, or NotAllowed for a dead-letter queue."""
        parsed = parse_address(address)
        if parsed.dead_letter or parsed.transfer:
            raise NotAllowed("Messages cannot be sent to a dead-letter queue.")
        return self.queue(parsed.path)

    def forward(self, target: str, stored: StoredMessage, now: float) -> None:
        """Put a copy of the message into the entity `target`. Raises BrokerError."""
        self.enqueue(target, stored.message, now, source=stored)

    def enqueue(self, path: str, message: Message, now: float, *, source: StoredMessage | None = None) -> None:
        """Store a message in a queue, or in a topic's subscriptions. Raises BrokerError."""
        if source is not None and source.hops >= MAX_HOPS:
            raise NotAllowed(dead_letter.HOPS_EXCEEDED[1])
        self.resolve_sender(path).enqueue(message, now, source=source)

    def enqueue_all(self, path: str, messages: list[Message], now: float) -> None:
        """Store a batch as a whole, or nothing of it. Raises BrokerError."""
        entity = self.resolve_sender(path)
        entity.check(messages)
        for message in messages:
            entity.enqueue(message, now)

    # --- time ------------------------------------------------------------------------------------------------------

    def wake(self, queue: Queue, due: float) -> None:
        """See that `advance` looks at this queue at `due`, or before."""
        if due < self._due_at.get(queue, float("inf")):
            self._due_at[queue] = due
            self._due.set(queue, due)

    def next_due(self) -> float:
        """When `advance` has something to do; infinity where nothing is due."""
        return self._due.next_due()

    def advance(self, now: float) -> None:
        """Do everything that is due: lapse locks, expire, activate, free sessions."""
        for queue in list(self._due.take_due(now)):
            self._due_at.pop(queue, None)
            queue.advance(now)
            self.wake(queue, queue.next_due())
