"""The `$cbs` node: what a client's token opens on its connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from emulator import signatures
from emulator.broker.namespace import strip_host

NODE = "$cbs"


@dataclass(frozen=True, slots=True)
class Grant:
    """A path in lower case that a token opens, with all below it (empty: everything), and until when (unix seconds)."""

    path: str
    until: float

    def covers(self, path: str, now: float) -> bool:
        """Whether this grant opens an entity or one of its nodes."""
        path = path.lower()
        return now < self.until and (not self.path or path == self.path or path.startswith(self.path + "/"))


def grant(token: Any, audience: str, keys: Mapping[str, str], now: float) -> Grant:
    """What a token put for this audience opens. Raises signatures.TokenError."""
    checked = signatures.verify(str(token), keys, now)
    if not checked.covers(audience):
        raise signatures.TokenError("The token is for another audience.")
    return Grant(audience.lower(), checked.expires_at)


def audience_path(name: Any) -> str:
    """The entity path of the audience a client put a token for."""
    return strip_host(name).strip("/") if isinstance(name, str) else ""


class Expiring(Protocol):
    """A connection whose grants end."""

    def expire(self, now: float) -> None:
        """Some of its grants are over."""

    def __hash__(self) -> int:
        """Each connection is itself."""


class Grants:
    """What the tokens put on one connection open."""

    __slots__ = ("_granted",)

    def __init__(self) -> None:
        self._granted: dict[str, Grant] = {}

    def add(self, granted: Grant) -> None:
        """Add a grant; it replaces the one before it for the same audience, as a renewed token does."""
        self._granted[granted.path] = granted

    def cover(self, path: str, now: float) -> bool:
        """Whether one of them opens an entity or one of its nodes."""
        return any(granted.covers(path, now) for granted in self._granted.values())

    def drop_expired(self, now: float) -> None:
        """Forget those that are over."""
        self._granted = {path: granted for path, granted in self._granted.items() if now < granted.until}

    def next_end(self) -> float:
        """When the first of them ends; infinity where there is none."""
        return min((granted.until for granted in self._granted.values()), default=float("inf"))
