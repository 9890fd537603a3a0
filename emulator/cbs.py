"""The `$cbs` node: what a client's token opens on its connection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from emulator import signatures
from emulator.broker.descriptions import AuthorizationRule
from emulator.broker.namespace import strip_host

NODE = "$cbs"


SEND, LISTEN, MANAGE = "Send", "Listen", "Manage"
EVERY_RIGHT = frozenset({SEND, LISTEN, MANAGE})


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Keys by name that give the same rights: the namespace's own (`entity` is None), or those of an entity's rule."""

    keys: Mapping[str, str] = field(repr=False)
    rights: frozenset[str] = EVERY_RIGHT
    entity: str | None = None


def rule_rings(entity: str, rules: Iterable[AuthorizationRule]) -> Iterator[KeyRing]:
    """The keys of an entity's authorization rules; the right to manage holds the others."""
    for rule in rules:
        rights = EVERY_RIGHT if MANAGE in rule.rights else frozenset(rule.rights)
        for key in filter(None, (rule.primary_key, rule.secondary_key)):
            yield KeyRing({rule.key_name: key}, rights, entity)


@dataclass(frozen=True, slots=True)
class Grant:
    """A path in lower case that a token opens, with all below it (empty: everything), and until when (unix seconds).

    `entity` is the one whose rule the key belongs to: other entities below the path stay closed. None: they are open.
    """

    path: str
    until: float
    rights: frozenset[str] = EVERY_RIGHT
    entity: str | None = None

    def covers(self, path: str, now: float) -> bool:
        """Whether this grant opens an entity or one of its nodes, with whatever rights."""
        path = path.lower()
        if now >= self.until or (self.entity is not None and not _belongs(path, self.entity)):
            return False
        return not self.path or path == self.path or path.startswith(self.path + "/")


def _belongs(path: str, entity: str) -> bool:
    """Whether a path is an entity's, one of its dead-letter queues or subscriptions; not an entity named below it."""
    rest = path.removeprefix(entity.lower())
    return path.startswith(entity.lower()) and (not rest or rest.startswith(("/$", "/subscriptions/")))


def grant(token: Any, audience: str, rings: Iterable[KeyRing], now: float) -> Grant:
    """What a token put for this audience opens; the first ring that signed it counts. Raises signatures.TokenError."""
    refused = signatures.TokenError("There is no key.")
    for ring in rings:
        try:
            checked = signatures.verify(str(token), ring.keys, now)
        except signatures.TokenError as error:
            refused = error
            continue
        if not checked.covers(audience):
            raise signatures.TokenError("The token is for another audience.")
        return Grant(audience.lower(), checked.expires_at, ring.rights, ring.entity)
    raise refused


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

    def rights(self, path: str, now: float) -> frozenset[str]:
        """What may be done with an entity or one of its nodes."""
        covering = [granted.rights for granted in self._granted.values() if granted.covers(path, now)]
        return frozenset().union(*covering)

    def drop_expired(self, now: float) -> None:
        """Forget those that are over."""
        self._granted = {path: granted for path, granted in self._granted.items() if now < granted.until}

    def next_end(self) -> float:
        """When the first of them ends; infinity where there is none."""
        return min((granted.until for granted in self._granted.values()), default=float("inf"))
