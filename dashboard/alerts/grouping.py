"""Grouping of alerts into messages: one message per kind, pair, channel and rule. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from dashboard.alerts.rules import Due


@dataclass(frozen=True, slots=True)
class Group:
    """Alerts with equal groups share one message."""

    channel: str
    rule: int
    pair: str
    kind: str
    phase: str
    is_quiet: bool


@dataclass(frozen=True, slots=True)
class Notification:
    """One alert to notify, by its key."""

    alert: int
    group: Group
    due: Due


def grouped(notifications: Iterable[Notification]) -> dict[Group, list[Notification]]:
    """The alerts of each message. A channel is notified once per phase of an alert; the earliest time counts."""
    once: dict[tuple[int, str, str], Notification] = {}
    for one in notifications:
        key = (one.alert, one.group.channel, one.group.phase)
        if key not in once or one.due.at < once[key].due.at:
            once[key] = one
    groups: dict[Group, list[Notification]] = defaultdict(list)
    for one in once.values():
        groups[one.group].append(one)
    return dict(groups)
