"""The facts of a pair and of one entity, from which checks are computed. Immutable; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class Answer(StrEnum):
    """The result of a probe."""

    ALLOWED = "allowed"
    REFUSED = "refused"
    """A key, a right or the entity is missing: waiting does not help."""
    SILENT = "silent"
    """The namespace could not be reached, so the result is unknown."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The probe of one right, and its result."""

    answer: Answer
    at: datetime
    reason: str = ""

    def as_json(self) -> dict[str, str]:
        return {"answer": self.answer.value, "at": self.at.isoformat(), "reason": self.reason}

    @classmethod
    def from_json(cls, reported: Any) -> Probe | None:
        """Parse the stored probe; None if there is none."""
        if not reported:
            return None
        return cls(Answer(reported["answer"]), datetime.fromisoformat(reported["at"]), reported["reason"])


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """One of the configured backlog queues of a pair."""

    path: str
    is_there: bool | None = None
    """None: not checked recently."""
    status: str = "Active"
    deviations: tuple[str, ...] = ()
    size: int = 0
    limit: int = 0
    full_in_s: float | None = None
    """Time until it is full at its current growth; None if it does not grow."""
    holder: str = ""
    """The holder of the lease to drain it."""
    send: Probe | None = None
    listen: Probe | None = None

    @property
    def share(self) -> float:
        """Its fill level, 0 to 1."""
        return self.size / self.limit if self.limit else 0.0


@dataclass(frozen=True, slots=True)
class PairFacts:
    """The facts of a pair, which apply to all its entities."""

    at: datetime
    queues: tuple[QueueFacts, ...] = ()
    administration: Probe | None = None
    """The probe of administration of the secondary, with the workers' credential."""
    workers: int = 0
    """Workers with a heartbeat within 20 s."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Why a worker cannot serve the pair, by worker."""
    senders: Mapping[str, int] = field(default_factory=dict)
    """The backlog queues in the rotation of each live sending process."""
    paused: tuple[str, ...] = ()
    """Backlog queues and entities whose syphon is paused by an operator; `*` is the whole pair."""
    clocks: Mapping[str, float] = field(default_factory=dict)
    """Seconds by which the clock of each live process is ahead of Redis."""
    bytes_per_s: float | None = None
    """The expected rate of sends of the pair: of the last minutes or days, else the average of a month."""
    per_hour: float | None = None
    """The same in messages."""
    rate_words: str = ""
    """What the rate was derived from."""
    lasts_s: float | None = None
    """Seconds until the backlog is full if all sends go there, by the rhythm of the day; None if it is unknown."""
    gateways: Mapping[str, float | None] | None = None
    """The end of the certificate, in Unix time, of each live gateway with TLS; None if nobody looked."""
    gateway_heard_at: datetime | None = None
    """The last heartbeat of a gateway, if there was one within a day."""


@dataclass(frozen=True, slots=True)
class EntityFacts:
    """The facts of one entity."""

    path: str
    is_away: bool = False
    """Whether it is failing or failed over, so that its primary may not answer."""
    home: Probe | None = None
    """Whether the workers' credential may send to it in the primary."""
    message_bytes: int | None = None
    """The mean size of its messages in the latest month with charges."""
    limit: int = 262_144
    """Bytes of the largest message that both namespaces accept."""
