"""Readiness: whether failover would work."""

from datetime import datetime
from typing import Annotated, Any, Literal

from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema

from dashboard.api.fields import Word, pair_or_404
from dashboard.api.paging import Cursor, Page, page
from dashboard.models import Pair, PairReadiness, Readiness
from dashboard.readiness.boards import STATES, score_now
from dashboard.readiness.score import READY
from dashboard.site.redis import RedisError, connection

router = Router(tags=["readiness and alerts"])
MOST = 500


class Found(Schema):
    """One check: its result, and what to do about it."""

    name: str
    result: str
    reason: str
    todo: str


class EntityReadiness(Schema):
    """The readiness of an entity, 0 to 100; null if it was not checked recently."""

    pair: str
    entity: str
    score: int | None
    fell_at: datetime | None
    reasons: list[Found]
    checked_at: datetime


class SummaryQuery(Schema):
    """The pair, and the lowest score that counts as ready."""

    pair: Word = ""
    least: Annotated[int, Query(ge=0, le=100)] = READY


class Summary(Schema):
    """Whether failover would work for every entity. `not_ready`: those with a score below `least`, or without one."""

    is_ready: bool
    least: int
    redis: str
    never_checked: list[str]
    ready: int
    unknown: int
    not_ready: list[EntityReadiness]


class SharedReadiness(Schema):
    """The checks that all entities of a pair share."""

    pair: str
    score: int | None
    checks: list[Found]
    checked_at: datetime | None


class ReadinessQuery(Cursor):
    """Filters of entities."""

    pair: Word = ""
    q: Word = ""
    state: Literal["", "ready", "weak", "endangered"] = ""


@router.get("/readiness", response=Page[EntityReadiness], operation_id="readiness")
def readiness(request: HttpRequest, query: Annotated[ReadinessQuery, Query()]) -> dict[str, Any]:
    """Whether the failover of each entity would work, lowest score first."""
    rows, now = Readiness.objects.select_related("pair"), timezone.now()
    if query.pair:
        rows = rows.filter(pair=pair_or_404(query.pair))
    if query.q:
        rows = rows.filter(entity__icontains=query.q)
    if query.state:
        rows = rows.filter(STATES[query.state])
    return page(rows, ("score", "id"), query, lambda row: _ready(row, now))


@router.get("/readiness/summary", response=Summary, operation_id="readiness_summary")
def readiness_summary(request: HttpRequest, query: Annotated[SummaryQuery, Query()]) -> dict[str, Any]:
    """Whether failover would work for every entity, and for which it would not: for a gate or a monitor."""
    if query.pair:
        pair_or_404(query.pair)
    now, chosen = timezone.now(), Q(is_configured=True) & (Q(name=query.pair) if query.pair else Q())
    pairs = list(Pair.objects.filter(chosen))
    rows = Readiness.objects.filter(pair__in=pairs).select_related("pair").order_by("score", "pair_id", "entity")
    entities = [_ready(row, now) for row in rows]
    poor = [one for one in entities if one["score"] is None or one["score"] < query.least]
    checked = PairReadiness.objects.filter(pair__in=pairs, checked_at__isnull=False).values_list("pair_id", flat=True)
    never, redis = [one.name for one in pairs if one.pk not in set(checked)], _redis()
    return {
        "is_ready": bool(pairs) and not (poor or never or redis),
        "least": query.least,
        "redis": redis or "answers",
        "never_checked": never,
        "ready": len(entities) - len(poor),
        "unknown": sum(one["score"] is None for one in entities),
        "not_ready": poor[:MOST],
    }


@router.get("/pairs/{pair}/readiness", response=SharedReadiness, operation_id="pair_readiness")
def pair_readiness(request: HttpRequest, pair: str) -> dict[str, Any]:
    """The checks that all entities of the pair share."""
    row = PairReadiness.objects.filter(pair=pair_or_404(pair)).first()
    if row is None:
        return {"pair": pair, "score": None, "checks": [], "checked_at": None}
    return {"pair": pair, "score": score_now(row, timezone.now()), "checks": row.checks, "checked_at": row.checked_at}


def _ready(row: Readiness, now: datetime) -> dict[str, Any]:
    names = ("entity", "fell_at", "reasons", "checked_at")
    return {name: getattr(row, name) for name in names} | {"pair": row.pair.name, "score": score_now(row, now)}


def _redis() -> str:
    """The problem of Redis; empty if it answers."""
    try:
        connection().ping()
    except RedisError as error:
        return f"does not answer ({type(error).__name__})"
    return ""
