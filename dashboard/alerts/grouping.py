"""Which alerts are told in one message: those of one kind of a pair, to one channel, by one rule. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from dashboard.alerts.rules import Due


@dataclass(frozen=True, slots=True)
class Group:
    """Alerts with the same of all these go into one message."""

    channel: str
    rule: int
    pair: str
    kind: str
    phase: str
    is_quiet: bool


@dataclass(frozen=True, slots=True)
class Notification:
    """One alert, by its key, that is to be told."""

    alert: int
    group: Group
    due: Due


def grouped(notifications: Iterable[Notification]) -> dict[Group, list[Notification]]:
    """What goes into one message each. A channel is told of a phase of an alert once: the earliest counts."""
    once: dict[tuple[int, str, str], Notification] = {}
    for one in notifications:
        key = (one.alert, one.group.channel, one.group.phase)
        if key not in once or one.due.at < once[key].due.at:
            once[key] = one
    groups: dict[Group, list[Notification]] = defaultdict(list)
    for one in once.values():
        groups[one.group].append(one)
    return dict(groups)
