"""Conditions: what may be an alert at a moment, and how it is compared with the alerts that are open. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

ANY = "*"
STILL = 0.8
"""A backlog over a threshold is over once it is below this share of it: so that it does not come and go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Something that is so now. The key is its identity as long as it lasts."""

    key: str
    kind: str
    severity: str
    pair: str
    entity: str = ANY
    title: str
    detail: str = ""
    began_at: datetime


def key_of(kind: str, pair: str, entity: str = ANY, *more: object) -> str:
    """The identity of a condition: its kind, where it is, and what else tells it from others."""
    return ":".join([kind, pair, entity, *map(str, more)])


def threshold_of(kind: str, key: str) -> int | None:
    """The threshold that a backlog's key ends with."""
    last = key.rpartition(":")[2]
    return int(last) if kind == "backlog" and last.isdigit() else None


def compared(
    now_so: Iterable[Condition], open_keys: Collection[str]
) -> tuple[list[Condition], list[Condition], set[str]]:
    """The conditions that are new, those that go on, and the keys of those that are over."""
    found = {condition.key: condition for condition in now_so}
    fresh = [condition for key, condition in found.items() if key not in open_keys]
    going_on = [condition for key, condition in found.items() if key in open_keys]
    return fresh, going_on, set(open_keys) - found.keys()


def is_over(messages: int, threshold: int, was_over: bool) -> bool:
    """Whether a backlog is an alert: from the threshold on, until it is well below it."""
    return messages >= threshold if not was_over else messages >= max(1, round(threshold * STILL))
