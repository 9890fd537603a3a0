"""Conditions, which are unsaved alerts: their comparison with the open alerts, and which rules apply. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import timedelta
from fnmatch import fnmatchcase

from dashboard.models import Alert, AlertRule, Severity
from dashboard.models.alert import ANY

SILENCE = timedelta(seconds=60)
"""A worker whose last heartbeat is older is none."""
STILL = 0.8
"""A backlog alert ends below this share of its threshold (hysteresis)."""


def key_of(kind: str, pair: str, entity: str = ANY, *more: object) -> str:
    """The identity of a condition: its kind, its place, and further distinguishing parts."""
    return ":".join([kind, pair, entity, *map(str, more)])


def compared(now_so: Iterable[Alert], open_keys: Collection[str]) -> tuple[list[Alert], list[Alert], set[str]]:
    """The new conditions, the continuing ones, and the keys of those that are over."""
    found = {condition.key: condition for condition in now_so}
    fresh = [condition for key, condition in found.items() if key not in open_keys]
    going_on = [condition for key, condition in found.items() if key in open_keys]
    return fresh, going_on, set(open_keys) - found.keys()


def is_over(messages: int, threshold: int, was_over: bool) -> bool:
    """Whether a backlog is an alert: from the threshold until it is well below."""
    return messages >= threshold if not was_over else messages >= max(1, round(threshold * STILL))


def matches(rule: AlertRule, alert: Alert) -> bool:
    """Whether the rule matches the alert. A backlog matches only rules with exactly its threshold; a primary that is
    down is a failover of every entity.
    """
    return (
        (not rule.kinds or alert.kind in rule.kinds)
        and rank(alert.severity) >= rank(rule.least_severity)
        and fits(rule.pair, alert.pair)
        and (fits(rule.entity, alert.entity) or (alert.kind, alert.entity) == ("failover", "*"))
        and (alert.kind != "backlog" or alert.key.endswith(f":{rule.threshold}"))
    )


def fits(pattern: str, name: str) -> bool:
    """Whether a name matches: `*` matches any characters, case is ignored.

    The name `*` (all pairs or all entities) matches every pattern that is not a single name.
    """
    if name == "*":
        return "*" in pattern
    literal = pattern.lower().replace("[", "[[]").replace("?", "[?]")
    return fnmatchcase(name.lower(), literal)


def rank(severity: str) -> int:
    """0 for the least severe."""
    return Severity.values.index(severity)


def thresholds(rules: Iterable[AlertRule]) -> list[AlertRule]:
    """The rules with a backlog threshold."""
    return [rule for rule in rules if rule.threshold is not None and (not rule.kinds or "backlog" in rule.kinds)]
