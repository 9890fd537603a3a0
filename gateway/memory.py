"""What the primary has accepted of clients: tokens, keys, and who may send where, for the time when it is away.

Tokens and keys are remembered by their hashes, until they expire.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_plus

from amqp10.addresses import MANAGEMENT, path_of
from amqp10.codec import decode
from amqp10.frame_fields import FrameFields
from amqp10.requests import Request
from amqp10.sas import expiry, strays
from amqp10.types import AmqpError

_MOST, _MOST_OF_ONE, _MOST_ASKED, _LONGEST_S = 50_000, 1000, 256, 24 * 3600.0
USUAL: tuple[int, Any] = (256 * 1024, None)


@dataclass(frozen=True, slots=True)
class Grant:
    """A token for an entity, or a key for everything. `is_proof`: it proves the right to send by itself."""

    shown: str = field(repr=False)
    path: str = ""
    until: float = float("inf")
    is_proof: bool = False

    @classmethod
    def asked(cls, request: Request) -> Grant:
        """The token of a request to `$cbs`."""
        shown, path = str(request.body), path_of(str(request.properties.get("name"))).casefold()
        return cls(shown, path.removesuffix(MANAGEMENT), expiry(shown))

    @property
    def digest(self) -> bytes:
        """How it is remembered."""
        return hashlib.sha256(f"{self.path}\n{self.shown}".encode()).digest()

    @property
    def owner(self) -> str:
        """The name of the key that signed it, as often as somebody likes; empty for what is not made at will."""
        parts = dict(part.split("=", 1) for part in self.shown.partition(" ")[2].split("&") if "=" in part)
        return unquote_plus(parts.get("skn", "")).casefold()

    def covers(self, path: str) -> bool:
        """Whether it is for this entity, and has not expired."""
        is_below = not self.path or f"{path}/".startswith(f"{self.path}/")
        return is_below and not strays(path) and self.until > time.time()


class Memory:
    """The memory of one process."""

    def __init__(self) -> None:
        self._until: dict[str, dict[tuple[bytes, str | None], float]] = {}
        """By owner, so that the many tokens of one do not displace those of others."""
        self.links: dict[str, tuple[int, Any]] = {}
        """How large a message to an entity may be, and the properties with which the primary answers its senders."""

    def learn(self, grant: Grant, path: str | None = None) -> None:
        """The primary has accepted a token or a key, or lets its owner send to this entity."""
        if path is None or grant.covers(path):
            until = min(grant.until, time.time() + _LONGEST_S)
            _keep(self._until.setdefault(grant.owner, {}), (grant.digest, path), until, _MOST)

    def forget(self, grant: Grant, path: str | None = None) -> None:
        """The primary does not accept a token or a key any more, or does not let its owner send to this entity."""
        self._until.get(grant.owner, {}).pop((grant.digest, path), None)

    def knows(self, grant: Grant, path: str | None = None) -> bool:
        """Whether the primary has accepted the same one before, or has let its owner send to this entity."""
        return self._until.get(grant.owner, {}).get((grant.digest, path), 0.0) > time.time()


class Proofs:
    """What one client has shown, and what was accepted of it."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.asked: dict[str, Grant | None] = {}  # None: two have the same number, whose answers look alike
        self.grants: dict[str, Grant] = {}
        self._paths: dict[str, None] = {}

    def ask(self, payload: bytes) -> None:
        """A token is passed on to the primary. Raises AmqpError."""
        request = Request(payload)
        if request.message_id is not None:
            number = repr(decode(request.message_id.encoded)[0])
            self.asked[number] = None if number in self.asked else Grant.asked(request)
        if len(self.asked) > _MOST_ASKED:
            raise AmqpError("amqp:resource-limit-exceeded", "too many tokens without an answer")

    def answered(self, payload: bytes) -> None:
        """The primary has answered a token."""
        answer = Request(payload)
        grant = self.asked.pop(repr(answer.correlation_id), None)
        status = answer.properties.get("status-code")
        if grant is not None and status in (200, 202):
            self.accepted(grant)
        elif grant is not None and status == 401:
            self.memory.forget(grant)

    def accepted(self, grant: Grant) -> None:
        """The primary has accepted a token or a key, with which the client goes on to send."""
        self.add(grant)
        self.renew()

    def renew(self) -> None:
        """Remember what the client has for as long as if all of it was accepted now."""
        for grant in self.grants.values():
            self.memory.learn(grant)
        for path in self._paths:
            self._learn(path)

    def _learn(self, path: str) -> None:
        if (grant := self._sending(path)) is not None:
            self.memory.learn(grant, path)

    def _sending(self, path: str) -> Grant | None:
        """The token for the longest part of a path lets its owner send there; others may not."""
        place = path
        while place and place not in self.grants:
            place = place.rpartition("/")[0]
        return self.grants.get(place)

    def refused(self, path: str) -> None:
        """The primary does not let the client send to this entity any more."""
        path = path.casefold()
        self._paths.pop(path, None)
        if (grant := self._sending(path)) is not None:
            self.memory.forget(grant, path)

    def add(self, grant: Grant) -> None:
        """It replaces what was shown before for the same entity."""
        _keep(self.grants, grant.path, grant, _MOST_OF_ONE)

    def attached(self, path: str, answer: FrameFields) -> None:
        """The primary has accepted the client's link that sends to this entity."""
        path, size = path.casefold(), answer.value("max_message_size") or USUAL[0]
        _keep(self.memory.links, path, (size, answer.value("properties")), _MOST)
        _keep(self._paths, path, None, _MOST_OF_ONE)
        self._learn(path)

    def may_send(self, path: str) -> bool:
        """Whether the client has proved that it may send to this entity."""
        path = path.casefold()
        grants = self.grants.values()
        return any(each.covers(path) and (each.is_proof or self.memory.knows(each, path)) for each in grants)


def _keep(kept: dict[Any, Any], key: Any, value: Any, most: int) -> None:
    """Keep the newest."""
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]
