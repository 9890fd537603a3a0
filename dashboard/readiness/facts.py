"""What is known of a pair and of one entity, gathered before anything is judged. Frozen; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class Answer(StrEnum):
    """What came of trying something for real."""

    ALLOWED = "allowed"
    REFUSED = "refused"
    """A key, a right or the entity is missing: waiting does not mend it."""
    SILENT = "silent"
    """It could not be reached, so nothing is known."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One right that was really used, and what came of it."""

    answer: Answer
    at: datetime
    reason: str = ""

    def as_json(self) -> dict[str, str]:
        return {"answer": self.answer.value, "at": self.at.isoformat(), "reason": self.reason}

    @classmethod
    def from_json(cls, told: Any) -> Probe | None:
        """None where the text is none."""
        try:
            return cls(Answer(told["answer"]), datetime.fromisoformat(told["at"]), str(told["reason"]))
        except (ValueError, KeyError, TypeError):
            return None


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """One of the backlog queues that a pair should have."""

    path: str
    is_there: bool | None = None
    """None: nobody has looked lately."""
    status: str = "Active"
    deviations: tuple[str, ...] = ()
    size: int = 0
    limit: int = 0
    full_in_s: float | None = None
    """Until it is full, if it goes on growing like now; None where it does not grow."""
    holder: str = ""
    """Who holds the lease to bring its messages home."""
    send: Probe | None = None
    listen: Probe | None = None

    @property
    def share(self) -> float:
        """How full it is, 0 to 1."""
        return self.size / self.limit if self.limit else 0.0


@dataclass(frozen=True, slots=True)
class PairFacts:
    """What is the same for all entities of a pair."""

    at: datetime
    queues: tuple[QueueFacts, ...] = ()
    administration: Probe | None = None
    """Of the secondary, with the workers' credential."""
    workers: int = 0
    """Those heard of within 20 s."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """What keeps a worker from serving the pair, by worker."""
    senders: Mapping[str, int] = field(default_factory=dict)
    """The backlog queues in the rotation of each living process that sends."""
    paused: tuple[str, ...] = ()
    """Backlog queues and entities whose syphon an operator has paused; `*` is the whole pair's."""
    clocks: Mapping[str, float] = field(default_factory=dict)
    """How many seconds each living process is ahead of Redis's clock."""
    bytes_per_s: float | None = None
    """What the pair sends, on average over the latest month with charges."""


@dataclass(frozen=True, slots=True)
class EntityFacts:
    """What is known of one entity alone."""

    path: str
    is_away: bool = False
    """It is failing or failed over: its primary need not answer now."""
    home: Probe | None = None
    """Whether the workers' credential may send to it in the primary."""
    message_bytes: int | None = None
    """The mean size of its messages in the latest month with charges."""
    limit: int = 262_144
    """Bytes of the largest message that both namespaces take."""
