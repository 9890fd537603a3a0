"""Who is notified of an alert and when: rules, quiet hours and escalation. Pure: no database, no clock."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

SEVERITIES = ("info", "warning", "critical")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule. `*` in patterns matches any characters; no kinds means all kinds."""

    pk: int = 0
    pair: str = "*"
    entity: str = "*"
    kinds: tuple[str, ...] = ()
    least_severity: str = "info"
    threshold: int | None = None
    channels: tuple[str, ...] = ()
    escalation: tuple[str, ...] = ()
    escalate_after: timedelta = timedelta(minutes=15)
    gathers: timedelta = timedelta(seconds=10)
    quiet_from: time | None = None
    quiet_until: time | None = None
    time_zone: str = "UTC"
    wakes_from: str = "critical"
    notifies_resolved: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The fields of an alert that rules evaluate."""

    kind: str
    severity: str
    pair: str
    entity: str
    threshold: int | None = None


@dataclass(frozen=True, slots=True)
class Due:
    """When a notice is sent, and whether quiet hours delay it."""

    at: datetime
    is_quiet: bool = False


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


def when(rule: Rule, severity: str, now: datetime) -> Due:
    """When a new alert is sent: after the grouping time, and after quiet hours unless it is severe enough."""
    at = now + rule.gathers
    if rank(severity) >= rank(rule.wakes_from):
        return Due(at)
    end = quiet_end(rule, at)
    return Due(at) if end is None else Due(end, is_quiet=True)


def quiet_end(rule: Rule, at: datetime) -> datetime | None:
    """End of the quiet hours that contain this time; None outside quiet hours.

    Quiet hours are in local time, so they are an hour longer or shorter at changes of daylight saving time.
    """
    if rule.quiet_from is None or rule.quiet_until is None or not _is_quiet(rule, at):
        return None
    zone = ZoneInfo(rule.time_zone)
    local = at.astimezone(zone)
    day = local.date() if local.time() < rule.quiet_until else local.date() + timedelta(days=1)
    ends = [datetime.combine(day, rule.quiet_until.replace(fold=fold), zone).astimezone(UTC) for fold in (0, 1)]
    end = next((end for end in sorted(ends) if end > at and not _is_quiet(rule, end)), max(ends))
    if end.astimezone(zone).time().replace(fold=0) != rule.quiet_until:  # skipped by the change to daylight saving time
        end = _first_not_quiet(rule, min(ends), end)
    return end


def _is_quiet(rule: Rule, at: datetime) -> bool:
    begin, end = rule.quiet_from, rule.quiet_until
    if begin is None or end is None or begin == end:
        return False
    clock = at.astimezone(ZoneInfo(rule.time_zone)).time()
    return begin <= clock < end if begin < end else clock >= begin or clock < end


def _first_not_quiet(rule: Rule, low: datetime, high: datetime) -> datetime:
    minutes = round((high - low) / timedelta(minutes=1))
    moments = (low + timedelta(minutes=minute) for minute in range(minutes + 1))
    return next((moment for moment in moments if not _is_quiet(rule, moment)), high)


def steps_due(rule: Rule, severity: str, opened_at: datetime, gave_up: Collection[str], now: datetime) -> int:
    """Number of escalation channels that are due for an alert that is not acknowledged.

    One channel per `escalate_after`, counted from the first notification; immediately if all channels of the previous
    step gave up.
    """
    waited = now - when(rule, severity, opened_at).at
    due = max(0, waited // rule.escalate_after) if rule.escalate_after else 0
    levels = [rule.channels, *((channel,) for channel in rule.escalation)]
    due = min(due, len(rule.escalation))
    while due < len(rule.escalation) and levels[due] and set(levels[due]) <= set(gave_up):
        due += 1
    return due


def thresholds(rules: Iterable[Rule]) -> list[Rule]:
    """The rules with a backlog threshold."""
    return [rule for rule in rules if rule.threshold is not None and (not rule.kinds or "backlog" in rule.kinds)]
