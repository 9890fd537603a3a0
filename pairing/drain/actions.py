"""What a homecoming asks to be done, what comes of it, and how far it is: records for either world."""

from collections.abc import Generator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pairing.drain.ledger import Ledger

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
class Receive:
    """Up to so many messages, waiting for the first at most so long. Outcome: the messages, or Failed."""

    count: int
    wait_s: float


@dataclass(slots=True)
class Fetch:
    """Deferred messages by their numbers. Outcome: those that are still there, or Failed."""

    numbers: list[int]


@dataclass(slots=True)
class Peek:
    """Messages from this number on. Outcome: the messages, or Failed."""

    number: int


@dataclass(slots=True)
class Count:
    """How many messages the queue holds, deferred ones included. Outcome: the number, or Failed."""


@dataclass(slots=True)
class Send:
    """Messages to their entity in the primary, in their order: as many as one transfer takes. Outcome: Sent."""

    path: str
    items: list[Item]


@dataclass(slots=True)
class Settle:
    """Outcome: what is known of each, in their order."""

    verb: Verb
    items: list[Item]
    reason: str = ""
    description: str = ""


@dataclass(slots=True)
class Keep:
    """Keep the books where a later syphon of this queue finds them, if there is such a place.

    Outcome: False where another syphon has taken the queue over since; anything else otherwise.
    """

    ledger: Ledger


@dataclass(slots=True)
class Renew:
    """Renew the locks of these messages."""

    items: list[Item]


@dataclass(slots=True)
class Rest:
    """Wait, unless the syphon stops."""

    seconds: float


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


Action = Receive | Fetch | Peek | Count | Send | Keep | Settle | Renew | Rest
Steps = Generator[Action, Any, None]


@dataclass(slots=True)
class Progress:
    """How far a queue's homecoming is; read by others while it goes on."""

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
