"""Which rules apply to an alert. Pure: no database, no clock."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from dashboard.alerts.watching.conditions import threshold_of
from dashboard.models import Alert, AlertRule

SEVERITIES = ("info", "warning", "critical")


def matches(rule: AlertRule, alert: Alert) -> bool:
    """Whether the rule matches the alert. A backlog matches only rules with exactly its threshold; a primary that is
    down is a failover of every entity.
    """
    return (
        (not rule.kinds or alert.kind in rule.kinds)
        and rank(alert.severity) >= rank(rule.least_severity)
        and fits(rule.pair, alert.pair)
        and (fits(rule.entity, alert.entity) or (alert.kind, alert.entity) == ("failover", "*"))
        and (alert.kind != "backlog" or rule.threshold == threshold_of(alert.kind, alert.key))
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
    return SEVERITIES.index(severity)


def thresholds(rules: Iterable[AlertRule]) -> list[AlertRule]:
    """The rules with a backlog threshold."""
    return [rule for rule in rules if rule.threshold is not None and (not rule.kinds or "backlog" in rule.kinds)]
