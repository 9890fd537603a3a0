"""The records that processes of a fleet exchange about an entity, its pings and the syphon, and their JSON."""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Literal, cast

from pairing.stored_json import moment, moment_or_none, number, reading, record, text, text_or_none, whole

Origin = Literal["organic", "forced"]


@dataclass(frozen=True, slots=True)
class SharedHealth:
    """The state of one entity in the fleet."""

    path: str
    state: str
    """``healthy``, ``failing`` or ``failed_over``; only the first and the last are adopted by other processes."""
    since: datetime
    reason: str
    held_by: str | None
    expires: datetime | None
    """When the hold expires."""
    origin: Origin
    """``forced``: an operator's decision, which includes healthy."""
    version: int
    """Increases with every change, even after Redis was restarted empty."""
    process: str
    knew: int = 0
    """The last version at the time of this report, or that its author knew and superseded."""

    def to_json(self) -> str:
        """The record as stored in hash and channel."""
        expires = _iso(self.expires) if self.expires else None
        return json.dumps(asdict(self) | {"since": _iso(self.since), "expires": expires})

    @classmethod
    def from_json(cls, written: str | bytes) -> "SharedHealth":
        """Parse the output of ``to_json``; ValueError for other texts."""
        with reading("the health of an entity"):
            fields = record(written)
            return cls(
                path=text(fields, "path"),
                state=text(fields, "state"),
                since=moment(fields, "since"),
                reason=text(fields, "reason"),
                held_by=text_or_none(fields, "held_by"),
                expires=moment_or_none(fields, "expires"),
                origin=cast(Origin, fields["origin"]),
                version=whole(fields, "version"),
                process=text(fields, "process"),
                knew=whole(fields, "knew") if "knew" in fields else 0,
            )


@dataclass(frozen=True, slots=True)
class PingRecord:
    """The last ping of an entity, by any process."""

    at: datetime
    accepted: bool
    reason: str
    count: int
    """Pings since the entity failed over."""
    next_due: datetime | None

    def to_json(self) -> str:
        """The record as stored in the hash."""
        due = _iso(self.next_due) if self.next_due else None
        return json.dumps(asdict(self) | {"at": _iso(self.at), "next_due": due})

    @classmethod
    def from_json(cls, written: str | bytes) -> "PingRecord":
        """Parse the output of ``to_json``; ValueError for other texts."""
        with reading("a ping"):
            fields = record(written)
            at, next_due = moment(fields, "at"), moment_or_none(fields, "next_due")
            return cls(at, bool(fields["accepted"]), text(fields, "reason"), whole(fields, "count"), next_due)


@dataclass(frozen=True, slots=True)
class Pause:
    """The operator, the reason and the time of a pause of the syphon."""

    by: str
    reason: str
    at: datetime

    def to_json(self) -> str:
        """The record as stored in the hash."""
        return json.dumps({"by": self.by, "reason": self.reason, "at": _iso(self.at)})

    @classmethod
    def from_json(cls, written: str | bytes) -> "Pause":
        """Parse the output of ``to_json``; ValueError for other texts."""
        with reading("a pause"):
            fields = record(written)
            return cls(text(fields, "by"), text(fields, "reason"), moment(fields, "at"))


@dataclass(frozen=True, slots=True)
class Pace:
    """An operator's rate limit of the syphon, with its reason and time."""

    rate: float
    """Maximum messages per second, over all processes of the fleet together."""
    by: str
    reason: str
    at: datetime

    def to_json(self) -> str:
        """The record as stored in the hash."""
        return json.dumps(asdict(self) | {"at": _iso(self.at)})

    @classmethod
    def from_json(cls, written: str | bytes) -> "Pace":
        """Parse the output of ``to_json``; ValueError for other texts."""
        with reading("a pace"):
            fields = record(written)
            return cls(number(fields, "rate"), text(fields, "by"), text(fields, "reason"), moment(fields, "at"))


def _iso(when: datetime) -> str:
    """A fixed format, so that texts sort like times."""
    return when.astimezone(UTC).isoformat(timespec="microseconds")
