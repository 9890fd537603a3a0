"""Which rules apply to an alert. Pure: no database, no clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SEVERITIES = ("info", "warning", "critical")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule. `*` in patterns matches any characters; no kinds means all kinds."""

    pair: str = "*"
    entity: str = "*"
    kinds: tuple[str, ...] = ()
    least_severity: str = "info"
    threshold: int | None = None
    channels: tuple[str, ...] = ()
    notifies_resolved: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The fields of an alert that rules evaluate."""

    kind: str
    severity: str
    pair: str
    entity: str
    threshold: int | None = None


def matches(rule: Rule, subject: Subject) -> bool:
    """Whether the rule matches the alert. A backlog matches only rules with exactly its threshold."""
    return (
        (not rule.kinds or subject.kind in rule.kinds)
        and rank(subject.severity) >= rank(rule.least_severity)
        and fits(rule.pair, subject.pair)
        and fits(rule.entity, subject.entity)
        and (subject.kind != "backlog" or rule.threshold == subject.threshold)
    )


def fits(pattern: str, name: str) -> bool:
    """Whether a name matches: `*` matches any characters, case is ignored.

    The name `*` (all pairs or all entities) matches every pattern that is not a single name.
    """
    if name == "*":
        return "*" in pattern
    first, *others = pattern.lower().split("*")
    rest = name.lower()
    if not others:
        return rest == first
    *middle, last = others
    if not rest.startswith(first) or len(rest) < len(first) + len(last) or not rest.endswith(last):
        return False
    rest = rest[len(first) : len(rest) - len(last)]
    for part in middle:  # leftmost match of each part, so that the time is bounded by pattern length times name length
        _, found, rest = rest.partition(part) if part else ("", "*", rest)
        if not found:
            return False
    return True


def rank(severity: str) -> int:
    """0 for the least severe."""
    return SEVERITIES.index(severity)


def thresholds(rules: Iterable[Rule]) -> list[Rule]:
    """The rules with a backlog threshold."""
    return [rule for rule in rules if rule.threshold is not None and (not rule.kinds or "backlog" in rule.kinds)]
