"""The condition of usage on its way to the files: it waits for too long."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

from dashboard.alerts.watching.conditions import ANY, SILENCE, Condition, key_of
from dashboard.fleet.usage.unwritten_usage import LATE, unwritten_usage
from dashboard.models import Heartbeat

USAGE_PROBLEM = "usage"
"""The name of a worker's problem with writing usage files, in its heartbeat."""


def unwritten(open_keys: Collection[str], now: datetime) -> Iterator[Condition]:
    """Usage that was reported long ago and is in no file yet. While Redis is away, an open alert stays open."""
    key, found = key_of("usage", ANY), unwritten_usage()
    if found is None and key not in open_keys:
        return
    if found is not None and (found.oldest is None or now - found.oldest <= LATE):
        return
    since = found.oldest if found is not None and found.oldest else now
    waiting = f"{found.records:,} records wait since {since:%Y-%m-%d %H:%M:%S} UTC." if found else "Redis is away."
    yield Condition(
        key=key,
        kind="usage",
        severity="critical",
        pair=ANY,
        title="Usage is metered and not written to files",
        detail=f"{waiting} {_why_unwritten(now)}",
        began_at=since,
    )


def _why_unwritten(now: datetime) -> str:
    rows = Heartbeat.objects.filter(seen_at__gt=now - SILENCE)
    problems = [str(row.problems[USAGE_PROBLEM]) for row in rows if USAGE_PROBLEM in row.problems]
    if problems:
        return problems[0]
    if not any("collectors" in row.role for row in rows):
        return "No worker serves the queue collectors: start one."
    return "Workers report no problem: they write more slowly than usage is metered, or beat is not running."
