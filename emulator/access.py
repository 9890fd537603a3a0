"""What clients may do: the rights that keys give, and the tokens put on a connection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from amqp10.sas import EVERY_RIGHT, MANAGE, KeyRing, TokenError, verify_by_rings
from emulator.broker.descriptions import AuthorizationRule
from emulator.broker.namespace import MANAGEMENT_SUFFIX, strip_host

CBS_NODE = "$cbs"


def rule_rings(entity: str, rules: Iterable[AuthorizationRule]) -> Iterator[KeyRing]:
    """The keys of an entity's authorization rules; the right Manage includes the others."""
    for rule in rules:
        rights = EVERY_RIGHT if MANAGE in rule.rights else frozenset(rule.rights)
        for key in filter(None, (rule.primary_key, rule.secondary_key)):
            yield KeyRing({rule.key_name: key}, rights, entity)


@dataclass(frozen=True, slots=True)
class Grant:
    """The rights a token gives to a path in lower case and everything below it (empty: all), until a unix time.

    `entity` is the entity whose rule the key belongs to: the token gives no right to other entities below the path.
    """

    path: str
    until: float
    rights: frozenset[str] = EVERY_RIGHT
    entity: str | None = None

    def covers(self, path: str, now: float) -> bool:
        """Whether this grant applies to an entity or one of its nodes."""
        path = path.lower()
        if now >= self.until or (self.entity is not None and not _belongs(path, self.entity)):
            return False
        return not self.path or path == self.path or path.startswith(self.path + "/")


def _belongs(path: str, entity: str) -> bool:
    """Whether a path is that of an entity, its dead-letter queues or subscriptions; not of another entity below it."""
    rest = path.removeprefix(entity.lower())
    return path.startswith(entity.lower()) and (not rest or rest.startswith(("/$", "/subscriptions/")))


def grant(token: Any, audience: str, rings: Iterable[KeyRing], now: float) -> Grant:
    """The grant of a token put for this audience, by the first ring that verifies it. Raises TokenError.

    A token put for the `$management` node of an entity gives its rights to the entity: SDKs for .NET put one for the
    node that they open first.
    """
    checked, ring = verify_by_rings(str(token), rings, now)
    if not checked.covers(audience):
        raise TokenError("The token is for another audience.")
    path = audience.lower().removesuffix(MANAGEMENT_SUFFIX)
    return Grant(path, checked.expires_at, ring.rights, ring.entity)


def audience_path(name: Any) -> str:
    """The entity path of the audience of a token."""
    return strip_host(name).strip("/") if isinstance(name, str) else ""


class Expiring(Protocol):
    """A connection whose grants expire."""

    def expire(self, now: float) -> None:
        """Some of its grants have expired."""

    def __hash__(self) -> int:
        """Connections are compared by identity."""


class Grants:
    """The grants of the tokens put on one connection."""

    __slots__ = ("_granted",)

    def __init__(self) -> None:
        self._granted: dict[str, Grant] = {}

    def add(self, granted: Grant) -> None:
        """Add a grant; it replaces the one before it for the same audience, as a renewed token does."""
        self._granted[granted.path] = granted

    def rights(self, path: str, now: float) -> frozenset[str]:
        """The rights to an entity or one of its nodes."""
        covering = [granted.rights for granted in self._granted.values() if granted.covers(path, now)]
        return frozenset().union(*covering)

    def drop_expired(self, now: float) -> None:
        """Remove expired grants."""
        self._granted = {path: granted for path, granted in self._granted.items() if now < granted.until}

    def next_end(self) -> float:
        """When the first grant expires; infinity if there is none."""
        return min((granted.until for granted in self._granted.values()), default=float("inf"))
