"""A backlog queue as its drain sees it: the operations on it, their results, and the progress of the drain."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Protocol

from pairing.drain.ledger import Ledger
from pairing.drive import Operation

BATCH = 100
"""Messages a receive."""

Verb = Literal["complete", "defer", "abandon", "dead_letter"]
Settled = Literal["done", "lost", "unknown"]
Why = Literal["outage", "busy", "final", "message", "ours", "turn", "lease", "shortage"]


@dataclass(slots=True)
class Item:
    """A message from the backlog, and its restored form."""

    received: Any
    number: int
    path: str
    message: Any
    size: int = 0
    fetched: bool = False
    """Whether it was deferred before, and fetched by its number."""


@dataclass(slots=True)
class Failed:
    """The operation on the backlog queue failed; ``text`` for operators."""

    text: str


@dataclass(slots=True)
class Sent:
    """How many of the messages were acknowledged, from the first on, and why the rest was not."""

    count: int
    why: Why | None = None
    text: str = ""


class Kept(StrEnum):
    """What became of storing a ledger."""

    STORED = "stored"
    IN_MEMORY = "in memory"
    """Redis did not answer."""
    REFUSED = "refused"
    """Another syphon has taken the queue over."""


class BacklogQueue(Protocol):
    """The operations of a drain on its queue and on the primary; only cancellation is raised."""

    def receive(self, count: int, wait_s: float) -> Operation[list[Any] | Failed]: ...

    def fetch(self, numbers: list[int]) -> Operation[list[Any] | Failed]: ...

    def peek(self, number: int) -> Operation[list[Any] | Failed]: ...

    def count(self) -> Operation[int | Failed]: ...

    def send(self, path: str, items: list[Item]) -> Operation[Sent | None]: ...

    def answers(self, wait_s: float) -> Operation[list[tuple[str, Sent]]]: ...

    def settle(
        self, verb: Verb, items: list[Item], reason: str = "", description: str = ""
    ) -> Operation[list[Settled]]:
        """Settle messages; the outcomes are in the same order."""
        ...

    def keep(self, ledger: Ledger) -> Operation[Kept]: ...

    def renew(self, items: list[Item]) -> Operation[None]: ...

    def rest(self, seconds: float) -> Operation[None]: ...


@dataclass(slots=True)
class Progress:
    """The progress of a queue's drain, which others may read at any time."""

    queue: str
    ledger: Ledger
    state: str = "starting"
    """``receiving``, ``moving``, ``waiting`` (for Redis), ``failing`` or ``stopped``."""
    moved: int = 0
    dead_lettered: int = 0
    set_aside: int = 0
    deferred: int = 0
    """Deferred messages this process knows of."""
    locks_lost: int = 0
    """Messages that were sent but could not be completed, and may be delivered again."""
    last_error: str = ""
    last_moved_at: datetime | None = None
    hindered_since: datetime | None = None
    """Since when messages arrive and none leaves, although not all are for failed-over entities."""
