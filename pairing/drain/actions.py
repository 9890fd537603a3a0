"""The actions of draining a backlog queue, their outcomes, and the progress of a drain.

Each action carries the type of its outcome (``pairing.drive``).
"""

from collections.abc import Generator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pairing.drain.ledger import Ledger
from pairing.drive import Action, Reply

BATCH = 100
"""Messages a receive."""

Verb = Literal["complete", "defer", "abandon", "dead_letter"]
Settled = Literal["done", "lost", "unknown"]
Why = Literal["outage", "busy", "final", "message", "ours", "turn", "lease"]


@dataclass(slots=True)
class Item:
    """A message from the backlog, and what it was when it was sent."""

    received: Any
    number: int
    path: str
    message: Any
    size: int = 0
    fetched: bool = False
    """Whether it was deferred before, and fetched by its number."""


@dataclass(slots=True)
class Failed:
    """The backlog queue did not do what it was asked; ``text`` for operators."""

    text: str


@dataclass(slots=True)
class Sent:
    """How many of the messages were acknowledged, from the first on; and why not all."""

    count: int
    why: Why | None = None
    text: str = ""


@dataclass(slots=True)
class Receive(Action[list[Any] | Failed]):
    """Up to so many messages, waiting for the first at most so long."""

    count: int
    wait_s: float


@dataclass(slots=True)
class Fetch(Action[list[Any] | Failed]):
    """Deferred messages by their numbers: those that are still there."""

    numbers: list[int]


@dataclass(slots=True)
class Peek(Action[list[Any] | Failed]):
    """Messages from this number on."""

    number: int


@dataclass(slots=True)
class Count(Action[int | Failed]):
    """How many active messages the queue holds."""


@dataclass(slots=True)
class Send(Action[Sent]):
    """Messages to their entity in the primary, in their order: as many as one transfer takes."""

    path: str
    items: list[Item]


@dataclass(slots=True)
class Settle(Action[list[Settled]]):
    """Settle messages of the backlog queue; what is known of each, in their order."""

    verb: Verb
    items: list[Item]
    reason: str = ""
    description: str = ""


@dataclass(slots=True)
class Keep(Action[bool]):
    """Store the ledger where a later syphon of this queue finds it, if there is such a place.

    False where another syphon has taken the queue over since.
    """

    ledger: Ledger


@dataclass(slots=True)
class Renew(Action[None]):
    """Renew the locks of these messages."""

    items: list[Item]


@dataclass(slots=True)
class Rest(Action[None]):
    """Wait, unless the syphon stops."""

    seconds: float


DrainAction = Receive | Fetch | Peek | Count | Send | Keep | Settle | Renew | Rest
Steps = Generator[DrainAction, Reply, None]


@dataclass(slots=True)
class Progress:
    """How far the drain of a queue is; read by others while it goes on."""

    queue: str
    ledger: Ledger
    state: str = "starting"
    """``receiving``, ``moving``, ``waiting``, ``failing``, ``paused`` or ``stopped``."""
    moved: int = 0
    dead_lettered: int = 0
    set_aside: int = 0
    deferred: int = 0
    """Deferred messages this process knows of."""
    locks_lost: int = 0
    """Messages that were sent and could not be completed: they may be delivered again."""
    last_error: str = ""
    last_moved_at: datetime | None = None
    hindered_since: datetime | None = None
    """Since when messages come and none leaves, though not all of them are for entities that are failed over."""
