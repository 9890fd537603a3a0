"""The records that processes of a fleet exchange about an entity, its pings and the syphon, and their JSON."""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Literal, cast

from pairing.stored_json import moment, moment_or_none, number, reading, record, text, text_or_none, whole

Origin = Literal["organic", "forced"]
_STATES = ("healthy", "failing", "failed_over")
_ORIGINS = ("organic", "forced")


@dataclass(frozen=True, slots=True)
class SharedHealth:
    """The state of one entity as the fleet knows it."""

    path: str
    state: str
    """``healthy``, ``failing`` or ``failed_over``; only the first and the last are adopted by other processes."""
    since: datetime
    reason: str
    held_by: str | None
    expires: datetime | None
    """When the hold ends by itself."""
    origin: Origin
    """``forced``: an operator's decision, also where it says healthy."""
    version: int
    """Rises with every change, also over a Redis that was restarted empty."""
    process: str
    knew: int = 0
    """The last version that stood when this was reported, or that its author knew of and left behind."""

    def to_json(self) -> str:
        """The record as the hash and the channel carry it."""
        expires = _iso(self.expires) if self.expires else None
        return json.dumps(asdict(self) | {"since": _iso(self.since), "expires": expires})

    @classmethod
    def from_json(cls, written: str | bytes) -> "SharedHealth":
        """The record that ``to_json`` wrote; ValueError where the text is none, or of a state nobody here knows."""
        with reading("the health of an entity"):
            fields = record(written)
            state, origin = text(fields, "state"), text(fields, "origin")
            if state not in _STATES or origin not in _ORIGINS:
                raise ValueError("not the health of an entity: no such state or origin")
            return cls(
                path=text(fields, "path"),
                state=state,
                since=moment(fields, "since"),
                reason=text(fields, "reason"),
                held_by=text_or_none(fields, "held_by"),
                expires=moment_or_none(fields, "expires"),
                origin=cast(Origin, origin),
                version=whole(fields, "version"),
                process=text(fields, "process"),
                knew=whole(fields, "knew") if "knew" in fields else 0,
            )


@dataclass(frozen=True, slots=True)
class PingRecord:
    """The last ping of an entity, by whichever process."""

    at: datetime
    accepted: bool
    reason: str
    count: int
    """Pings since the entity failed over."""
    next_due: datetime | None

    def to_json(self) -> str:
        """The record as the hash carries it."""
        due = _iso(self.next_due) if self.next_due else None
        return json.dumps(asdict(self) | {"at": _iso(self.at), "next_due": due})

    @classmethod
    def from_json(cls, written: str | bytes) -> "PingRecord":
        """The record that ``to_json`` wrote; ValueError where the text is none."""
        with reading("a ping"):
            fields = record(written)
            at, next_due = moment(fields, "at"), moment_or_none(fields, "next_due")
            return cls(at, bool(fields["accepted"]), text(fields, "reason"), whole(fields, "count"), next_due)


@dataclass(frozen=True, slots=True)
class Pause:
    """Who paused the syphon, why and when."""

    by: str
    reason: str
    at: datetime

    def to_json(self) -> str:
        """The record as the hash carries it."""
        return json.dumps({"by": self.by, "reason": self.reason, "at": _iso(self.at)})

    @classmethod
    def from_json(cls, written: str | bytes) -> "Pause":
        """The record that ``to_json`` wrote; ValueError where the text is none."""
        with reading("a pause"):
            fields = record(written)
            return cls(text(fields, "by"), text(fields, "reason"), moment(fields, "at"))


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast an operator lets the syphon go, why and since when."""

    rate: float
    """Messages a second, at most; over all processes of the fleet together."""
    by: str
    reason: str
    at: datetime

    def to_json(self) -> str:
        """The record as the hash carries it."""
        return json.dumps(asdict(self) | {"at": _iso(self.at)})

    @classmethod
    def from_json(cls, written: str | bytes) -> "Pace":
        """The record that ``to_json`` wrote; ValueError where the text is none, or the rate stands for standing still.

        To stop is ``Pause``.
        """
        with reading("a pace"):
            fields = record(written)
            rate = number(fields, "rate")
            if rate <= 0:
                raise ValueError("not a pace: rate is not above 0")
            return cls(rate, text(fields, "by"), text(fields, "reason"), moment(fields, "at"))


def _iso(when: datetime) -> str:
    """Always of one form, so that texts compare as times do."""
    return when.astimezone(UTC).isoformat(timespec="microseconds")
