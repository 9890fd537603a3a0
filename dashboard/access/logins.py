"""Sign-in with protection against guessing: ten failures of one name from one address block it for 15 minutes.

An attempt is counted before the password is checked, and subtracted if it was right, so that parallel attempts cannot
exceed the limit.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm

from dashboard.site import redis

PAUSE_S = 900
MOST_OF_A_NAME, MOST_OF_AN_ADDRESS = 10, 50


@dataclass(slots=True)
class Memory:
    """Counters of this process, used while Redis is unavailable, so that guessing does not become easier."""

    clock: Callable[[], float] = time.monotonic
    _counts: dict[str, tuple[int, float]] = field(default_factory=dict)

    def read(self, key: str) -> int:
        count, ends = self._counts.get(key, (0, 0.0))
        return count if self.clock() < ends else 0

    def add(self, key: str, change: int = 1) -> int:
        """The count after the change. It expires PAUSE_S after the first attempt or the last extension."""
        count = max(0, self.read(key) + change)
        ends = self._counts.get(key, (0, 0.0))[1]
        self._counts[key] = (count, ends if self.clock() < ends else self.clock() + PAUSE_S)
        if len(self._counts) > 10_000:
            self._counts = {key: one for key, one in self._counts.items() if self.clock() < one[1]}
        return count

    def prolong(self, key: str) -> None:
        self._counts[key] = (self.read(key), self.clock() + PAUSE_S)


_memory = Memory()


def count(name: str, address: str, change: int = 1) -> tuple[int, int]:
    """Count an attempt (or, with -1, subtract it): the attempts of the name from the address, and of the address with
    any name.
    """
    of_name, of_address = (_count(key, change) for key in _keys(name, address))
    return of_name, of_address


def _count(key: str, change: int) -> int:
    try:
        with redis.connection().pipeline() as pipeline:
            pipeline.set(key, 0, ex=PAUSE_S, nx=True)
            pipeline.incrby(key, change)
            return max(int(pipeline.execute()[1]), _memory.read(key))
    except redis.RedisError:
        return _memory.add(key, change)


def note_failure(name: str, address: str) -> None:
    """The password was wrong: the counts expire PAUSE_S from now, not sooner."""
    for key in _keys(name, address):
        try:
            redis.connection().expire(key, PAUSE_S)
        except redis.RedisError:
            _memory.prolong(key)


class LoginForm(AuthenticationForm):
    """Django's form, which checks no password after too many failures."""

    def clean(self) -> dict[str, Any]:
        name = str(self.cleaned_data.get("username", ""))
        address = str(self.request.META.get("REMOTE_ADDR", "")) if self.request else ""
        of_name, of_address = count(name, address)
        if of_name > MOST_OF_A_NAME or of_address > MOST_OF_AN_ADDRESS:
            count(name, address, -1)  # the password was not checked
            raise forms.ValidationError("Too many wrong passwords. Wait 15 minutes, or ask an administrator.")
        try:
            found = super().clean()
        except forms.ValidationError:
            note_failure(name, address)
            raise
        count(name, address, -1)
        return found


def _keys(name: str, address: str) -> list[str]:
    place = whereabouts(address)
    digest = hashlib.sha256(f"{name.lower()} {place}".encode()).hexdigest()[:32]
    return [f"dashboard:logins:{digest}", f"dashboard:logins:{place}"]


def whereabouts(address: str) -> str:
    """The part of an address that one host cannot change: the IPv4 address, or the /64 network of an IPv6 address.
    Pure.
    """
    try:
        known = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(known, IPv6Address):
        return str(known)
    return str(known.ipv4_mapped or ip_network((known, 64), strict=False))
