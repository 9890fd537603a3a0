"""The readiness of all entities in one document, for a deployment gate or a monitor."""

from __future__ import annotations

from typing import Any

from django.db.models import Q
from django.utils import timezone

from dashboard.models import Pair, PairReadiness, Readiness
from dashboard.readiness.boards import is_stale
from dashboard.site.redis import RedisError, connection

MOST = 500


def summary(pair: str, least: int) -> dict[str, Any]:
    """The last findings about the configured pairs, or one of them; without a finding nothing is ready."""
    now, chosen = timezone.now(), Q(is_configured=True) & (Q(name=pair) if pair else Q())
    pairs = list(Pair.objects.filter(chosen))
    rows = Readiness.objects.filter(pair__in=pairs).select_related("pair").order_by("score", "pair_id", "entity")
    entities = [_entity(row, is_stale(row.checked_at, now)) for row in rows]
    poor = [one for one in entities if one["score"] is None or one["score"] < least]
    checked = PairReadiness.objects.filter(pair__in=pairs, checked_at__isnull=False).values_list("pair_id", flat=True)
    never, redis = [one.name for one in pairs if one.pk not in set(checked)], _redis()
    return {
        "is_ready": bool(pairs) and not (poor or never or redis),
        "least": least,
        "redis": redis or "answers",
        "never_checked": never,
        "ready": len(entities) - len(poor),
        "unknown": sum(one["score"] is None for one in entities),
        "not_ready": poor[:MOST],
    }


def _entity(row: Readiness, stale: bool) -> dict[str, Any]:
    names = ("entity", "fell_at", "reasons", "checked_at")
    return {"pair": row.pair.name, "score": None if stale else row.score} | {name: getattr(row, name) for name in names}


def _redis() -> str:
    """The problem of Redis; empty if it answers."""
    try:
        connection().ping()
    except RedisError as error:
        return f"does not answer ({type(error).__name__})"
    return ""
