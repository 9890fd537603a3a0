"""Signing in, slowed down for those who guess: ten failures of one name from one address close it for a while."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from django import forms
from django.contrib.auth.forms import AuthenticationForm

from dashboard import redis

PAUSE_S = 900
MOST_OF_A_NAME, MOST_OF_AN_ADDRESS = 10, 50


@dataclass(slots=True)
class Memory:
    """Counters of this process, for when Redis is away: guessing must not get easier then."""

    clock: Callable[[], float] = time.monotonic
    _counts: dict[str, tuple[int, float]] = field(default_factory=dict)

    def read(self, key: str) -> int:
        count, ends = self._counts.get(key, (0, 0.0))
        return count if self.clock() < ends else 0

    def add(self, key: str) -> None:
        self._counts[key] = (self.read(key) + 1, self.clock() + PAUSE_S)
        if len(self._counts) > 10_000:
            self._counts = {key: one for key, one in self._counts.items() if self.clock() < one[1]}


_memory = Memory()


def failures(name: str, address: str) -> tuple[int, int]:
    """Recent failures of the name from the address, and of the address with any name."""
    keys = _keys(name, address)
    try:
        counts = cast("list[str | None]", redis.connection().mget(keys))
    except redis.RedisError:
        return (_memory.read(keys[0]), _memory.read(keys[1]))
    return (max(int(counts[0] or 0), _memory.read(keys[0])), max(int(counts[1] or 0), _memory.read(keys[1])))


def note_failure(name: str, address: str) -> None:
    """Count one more; forgotten PAUSE_S after the last."""
    for key in _keys(name, address):
        try:
            with redis.connection().pipeline() as pipeline:
                pipeline.incr(key)
                pipeline.expire(key, PAUSE_S)
                pipeline.execute()
        except redis.RedisError:
            _memory.add(key)


class LoginForm(AuthenticationForm):
    """Django's form, which does not even look at a password once too many were wrong."""

    def clean(self) -> dict[str, Any]:
        name = str(self.cleaned_data.get("username", ""))
        address = str(self.request.META.get("REMOTE_ADDR", "")) if self.request else ""
        of_name, of_address = failures(name, address)
        if of_name >= MOST_OF_A_NAME or of_address >= MOST_OF_AN_ADDRESS:
            raise forms.ValidationError("Too many wrong passwords. Wait 15 minutes, or ask an administrator.")
        try:
            return super().clean()
        except forms.ValidationError:
            note_failure(name, address)
            raise


def _keys(name: str, address: str) -> list[str]:
    digest = hashlib.sha256(f"{name.lower()} {address}".encode()).hexdigest()[:32]
    return [f"dashboard:logins:{digest}", f"dashboard:logins:{address}"]
