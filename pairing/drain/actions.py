"""The actions of draining a backlog queue, their outcomes, and the progress of a drain.

Each action carries the type of its outcome (``pairing.drive``).
"""

from collections.abc import Generator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
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


@dataclass(slots=True)
class Receive(Action[list[Any] | Failed]):
    """Receive up to this many messages, waiting at most this long for the first."""

    count: int
    wait_s: float


@dataclass(slots=True)
class Fetch(Action[list[Any] | Failed]):
    """Receive deferred messages by their numbers; missing ones are omitted."""

    numbers: list[int]


@dataclass(slots=True)
class Peek(Action[list[Any] | Failed]):
    """Peek messages from this number on."""

    number: int


@dataclass(slots=True)
class Count(Action[int | Failed]):
    """The number of active messages in the queue."""


@dataclass(slots=True)
class Send(Action[Sent]):
    """Send messages to their entity in the primary, in order: as many as fit one transfer."""

    path: str
    items: list[Item]


@dataclass(slots=True)
class Settle(Action[list[Settled]]):
    """Settle messages of the backlog queue; the outcomes are in the same order."""

    verb: Verb
    items: list[Item]
    reason: str = ""
    description: str = ""


class Kept(StrEnum):
    """What became of storing a ledger."""

    STORED = "stored"
    IN_MEMORY = "in memory"
    """Redis did not answer."""
    REFUSED = "refused"
    """Another syphon has taken the queue over."""


@dataclass(slots=True)
class Keep(Action[Kept]):
    """Store the ledger for a later syphon of this queue, if there is a store."""

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
    """The progress of a queue's drain, which others may read at any time."""

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
    """Messages that were sent but could not be completed, and may be delivered again."""
    last_error: str = ""
    last_moved_at: datetime | None = None
    hindered_since: datetime | None = None
    """Since when messages arrive and none leaves, although not all are for failed-over entities."""
