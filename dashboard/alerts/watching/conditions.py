"""Conditions that can be alerts, and their comparison with the open alerts. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

ANY = "*"
SILENCE = timedelta(seconds=60)
"""A worker whose last heartbeat is older is none."""
STILL = 0.8
"""A backlog alert ends below this share of its threshold (hysteresis)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition that currently holds. The key identifies it as long as it lasts."""

    key: str
    kind: str
    severity: str
    pair: str
    entity: str = ANY
    title: str
    detail: str = ""
    began_at: datetime


def key_of(kind: str, pair: str, entity: str = ANY, *more: object) -> str:
    """The identity of a condition: its kind, its place, and further distinguishing parts."""
    return ":".join([kind, pair, entity, *map(str, more)])


def threshold_of(kind: str, key: str) -> int | None:
    """The threshold at the end of a backlog's key."""
    last = key.rpartition(":")[2]
    return int(last) if kind == "backlog" and last.isdigit() else None


def compared(
    now_so: Iterable[Condition], open_keys: Collection[str]
) -> tuple[list[Condition], list[Condition], set[str]]:
    """The new conditions, the continuing ones, and the keys of those that are over."""
    found = {condition.key: condition for condition in now_so}
    fresh = [condition for key, condition in found.items() if key not in open_keys]
    going_on = [condition for key, condition in found.items() if key in open_keys]
    return fresh, going_on, set(open_keys) - found.keys()


def is_over(messages: int, threshold: int, was_over: bool) -> bool:
    """Whether a backlog is an alert: from the threshold until it is well below."""
    return messages >= threshold if not was_over else messages >= max(1, round(threshold * STILL))
