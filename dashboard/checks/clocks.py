"""How far this host's clock is from another one, judged by the limits of readiness. Pure."""

from __future__ import annotations

from datetime import datetime

from dashboard.checks.findings import Finding, ok, problem, warning
from dashboard.readiness.checks import BAD_SKEW_S, SKEW_S

_REMEDY = "Synchronise the clocks (NTP)."


def clock_finding(item: str, ahead_s: float) -> Finding:
    """The finding about a difference that is known well."""
    if abs(ahead_s) <= SKEW_S:
        return ok(item, f"Within {SKEW_S:.0f} s of this host's.")
    cause = f"This host is {abs(ahead_s):.1f} s {'ahead' if ahead_s > 0 else 'behind'}."
    return (problem if abs(ahead_s) > BAD_SKEW_S else warning)(item, cause, _REMEDY)


def ahead_of_date(date: datetime, asked_at: datetime, answered_at: datetime) -> float:
    """The least difference that explains an HTTP Date, which has whole seconds; 0 if there need be none."""
    earliest, latest = (date - answered_at).total_seconds(), (date - asked_at).total_seconds() + 1.0
    if earliest > 0:
        return -earliest
    return -latest if latest < 0 else 0.0
