"""What the processes of a fleet tell each other of an entity, its pings and the syphon: records, and their JSON."""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal

Origin = Literal["organic", "forced"]


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
    """``forced``: an operator's word, also where it says healthy."""
    version: int
    """Rises with every change, also over a Redis that was restarted empty."""
    process: str

    def to_json(self) -> str:
        """The record as the hash and the channel carry it."""
        expires = _iso(self.expires) if self.expires else None
        return json.dumps(asdict(self) | {"since": _iso(self.since), "expires": expires})

    @classmethod
    def from_json(cls, text: str | bytes) -> "SharedHealth":
        """The record that ``to_json`` wrote; ValueError, KeyError or TypeError where the text is none."""
        fields: dict[str, Any] = json.loads(text)
        expires = fields.get("expires")
        return cls(
            path=fields["path"],
            state=fields["state"],
            since=datetime.fromisoformat(fields["since"]),
            reason=fields["reason"],
            held_by=fields.get("held_by"),
            expires=datetime.fromisoformat(expires) if expires else None,
            origin=fields["origin"],
            version=int(fields["version"]),
            process=fields["process"],
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
    def from_json(cls, text: str | bytes) -> "PingRecord":
        """The record that ``to_json`` wrote."""
        fields: dict[str, Any] = json.loads(text)
        due = fields.get("next_due")
        at = datetime.fromisoformat(fields["at"])
        next_due = datetime.fromisoformat(due) if due else None
        return cls(at, bool(fields["accepted"]), fields["reason"], int(fields["count"]), next_due)


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
    def from_json(cls, text: str | bytes) -> "Pause":
        """The record that ``to_json`` wrote."""
        fields: dict[str, Any] = json.loads(text)
        return cls(fields["by"], fields["reason"], datetime.fromisoformat(fields["at"]))


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
    def from_json(cls, text: str | bytes) -> "Pace":
        """The record that ``to_json`` wrote."""
        fields: dict[str, Any] = json.loads(text)
        return cls(float(fields["rate"]), fields["by"], fields["reason"], datetime.fromisoformat(fields["at"]))


def _iso(when: datetime) -> str:
    """Always of one form, so that texts compare as times do."""
    return when.astimezone(UTC).isoformat(timespec="microseconds")
