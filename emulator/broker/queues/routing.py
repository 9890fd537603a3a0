"""Where messages go from a queue: into its dead-letter queues, or on to the entities that it forwards to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

from emulator.broker import dead_letter
from emulator.broker.descriptions import QueueDescription
from emulator.broker.errors import BrokerError
from emulator.broker.journal import Journal
from emulator.broker.message import StoredMessage
from emulator.broker.queues.contents import Contents
from emulator.broker.queues.owner import Counters


class Source(Protocol):
    """The queue that messages leave."""

    description: QueueDescription
    counters: Counters
    journal: Journal
    last_sequence_number: int

    @property
    def path(self) -> str: ...


class Forwarder(Protocol):
    """What brings messages to other entities."""

    def forward(self, target: str, stored: StoredMessage, now: float) -> None:
        """Put a copy of the message into another entity. Raises BrokerError, and then nothing was stored."""


class SubQueue(Protocol):
    """A dead-letter queue."""

    contents: Contents

    def add_dead_letter(self, source: StoredMessage, now: float) -> None:
        """Store a copy of a dead-lettered message; no status or quota refuses it."""


Q = TypeVar("Q", bound=SubQueue)


class Routing(Generic[Q]):
    """The dead-letter queues of a queue, and its forwarding. `make` creates a queue with this suffix of the path."""

    def __init__(self, source: Source, forwarder: Forwarder, make: Callable[[str], Q]) -> None:
        self._source, self._forwarder, self._make = source, forwarder, make
        self.dead: Q | None = None
        """The dead-letter queue, if it exists so far."""
        self.transfer: Q | None = None
        """The queue of messages that could not be forwarded, if it exists so far."""

    def __iter__(self) -> Iterator[Q]:
        """The queues that exist so far."""
        for queue in (self.dead, self.transfer):
            if queue is not None:
                yield queue

    @property
    def size_bytes(self) -> int:
        """The bytes that they store."""
        size = 0
        for queue in (self.dead, self.transfer):  # without a generator: each send asks
            if queue is not None:
                size += queue.contents.size_bytes
        return size

    @property
    def dead_letters(self) -> Q:
        """The dead-letter queue, created on first use."""
        if self.dead is None:
            self.dead = self._make(dead_letter.DEAD_LETTER_SUFFIX)
        return self.dead

    @property
    def transfer_dead_letters(self) -> Q:
        """The queue of messages that could not be forwarded, created on first use."""
        if self.transfer is None:
            self.transfer = self._make(dead_letter.TRANSFER_SUFFIX)
        return self.transfer

    def dead_letter(self, copy: StoredMessage, now: float) -> None:
        """Store a dead letter, or forward it to the entity in `forward_dead_lettered_messages_to`."""
        target = self._source.description.forward_dead_lettered_messages_to
        if target is not None:
            try:
                self._forwarder.forward(target, copy, now)
                self._source.counters.forwarded += 1
                return
            except BrokerError:
                pass  # it must not be lost: it stays in the dead-letter queue, as if nothing were forwarded
        self.dead_letters.add_dead_letter(copy, now)

    def forward(self, stored: StoredMessage, target: str, now: float) -> None:
        """Forward to another entity; what it refuses goes to the transfer dead-letter queue."""
        source = self._source
        source.journal.sequence(source.path, source.last_sequence_number)
        try:
            self._forwarder.forward(target, stored, now)
            source.counters.forwarded += 1
        except BrokerError as error:
            message = dead_letter.with_reason(stored.message, error.reason, str(error))
            copy = replace(stored, message=message, dead_letter_source=source.path)
            source.counters.dead_lettered += 1
            self.transfer_dead_letters.add_dead_letter(copy, now)
