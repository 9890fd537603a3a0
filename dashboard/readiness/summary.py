"""The readiness of all entities as one document and as lines, for commands."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError
from django.db import DatabaseError
from django.utils import timezone

from dashboard.models import Pair, PairReadiness, Readiness
from dashboard.readiness.boards import is_stale
from dashboard.readiness.score import word
from dashboard.site.database import problem_of
from dashboard.site.redis import RedisError, connection

NOT_KNOWN = 2
MOST_LINES = 50


def summary(pair: str | None, least: int) -> dict[str, Any]:
    """The last findings of one pair or all. Raises CommandError if there are none."""
    try:
        return _summary(pair, least)
    except DatabaseError as error:
        raise CommandError(problem_of(error), returncode=NOT_KNOWN) from None


def _summary(pair: str | None, least: int) -> dict[str, Any]:
    now = timezone.now()
    pairs = Pair.objects.filter(is_configured=True)
    if pair is not None:
        pairs = pairs.filter(name=pair)
        if not pairs:
            raise CommandError(f"There is no pair {pair}.", returncode=NOT_KNOWN)
    rows = Readiness.objects.filter(pair__in=pairs).select_related("pair").order_by("score", "pair_id", "entity")
    entities = [_entity(row, is_stale(row.checked_at, now)) for row in rows]
    checked = {row.pair_id: row for row in PairReadiness.objects.filter(pair__in=pairs)}
    never = [one.name for one in pairs if one.pk not in checked or checked[one.pk].checked_at is None]
    if not entities and not checked:
        raise CommandError("There are no checks yet: start a worker and beat.", returncode=NOT_KNOWN)
    redis = _redis()
    stale = [one["entity"] for one in entities if one["score"] is None]
    low = [one["entity"] for one in entities if one["score"] is not None and one["score"] < least]
    return {
        "is_ready": not (stale or low or never or redis),
        "least": least,
        "redis": redis or "answers",
        "never_checked": never,
        "counts": {"ready": len(entities) - len(stale) - len(low), "below": len(low), "unknown": len(stale)},
        "entities": entities,
    }


def _entity(row: Readiness, stale: bool) -> dict[str, Any]:
    points = None if stale else row.score
    return {
        "pair": row.pair.name,
        "entity": row.entity,
        "score": points,
        "word": word(points),
        "reasons": row.reasons,
        "checked_at": row.checked_at.isoformat(),
        "fell_at": row.fell_at and row.fell_at.isoformat(),
        "previous_score": row.previous_score,
    }


def _redis() -> str:
    """The problem of Redis; empty if it answers."""
    try:
        connection().ping()
    except RedisError as error:
        return f"does not answer ({type(error).__name__})"
    return ""


def lines(reported: dict[str, Any]) -> list[str]:
    """The summary as lines: counts, and poor entities with remedies."""
    counts = reported["counts"]
    head = f"{counts['ready']:,} ready, {counts['below']:,} below {reported['least']}, {counts['unknown']:,} not known"
    said = [f"Redis {reported['redis']}; {head}."]
    said += [f"{pair}: never checked; is a worker running?" for pair in reported["never_checked"]]
    poor = [one for one in reported["entities"] if one["score"] is None or one["score"] < reported["least"]]
    for one in poor[:MOST_LINES]:
        points = "  ?" if one["score"] is None else f"{one['score']:3}"
        said.append(f"{points}  {one['pair']}/{one['entity']}")
        said += [f"       {reason['reason']} {reason['todo']}" for reason in one["reasons"]]
    if len(poor) > MOST_LINES:
        said.append(f"and {len(poor) - MOST_LINES:,} more; --json lists all.")
    return said
