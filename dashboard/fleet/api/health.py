"""The state of the fleet: headline, pairs, entities, workers."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema

from dashboard.access.rights import may
from dashboard.access.tokens import RIGHTS
from dashboard.api.fields import Word, pair_or_404
from dashboard.api.paging import Cursor, Page, page
from dashboard.api.schemas import PaceLimit, Pause, pace_limits
from dashboard.fleet.boards import headline_of, last_heartbeat, status_of, watched_pairs
from dashboard.fleet.depth.outlook import outlooks
from dashboard.fleet.depth.trend import trends
from dashboard.fleet.forms import STATES
from dashboard.fleet.state.paces import paces_of
from dashboard.fleet.state.status import Status, is_silent, verbs
from dashboard.fleet.state.status_counts import counts_by_pair
from dashboard.models import EntityHealth, Heartbeat, Pair
from dashboard.site.database import one_reading
from pairing.fleet.shared_health import Pace

router = Router(tags=["health"])
Looks = Literal["failed-over", "held", "failing", "unknown", "draining", "healthy"]


class Traffic(Schema):
    """The messages an hour that are expected, with an interval. `basis`: what this was derived from; null if nothing
    was metered lately. `full_in_s`: how long the backlog has room if all entities are failed over, which the page calls
    Room. The time at the present rate is in `trend`.
    """

    messages_per_hour: int | None
    low: int | None
    high: int | None
    basis: str | None
    full_in_s: float | None


class BacklogTrend(Schema):
    """The time until the backlog is drained or full at the rate of the last two minutes, as the headline of the page
    says; null if it does not move in that direction, and `drained_in_s` also while anything is held: entities that are
    failed over, or parts of the syphon. `traffic.full_in_s` is about an outage of all entities instead.
    """

    drained_in_s: float | None
    full_in_s: float | None


class PairState(Schema):
    """A pair of namespaces and the state of its entities. `backlog_counted_at`: when its messages were counted."""

    name: str
    primary_namespace: str
    secondary_namespace: str
    is_configured: bool
    backlog_queue_count: int
    failover_interval_s: float
    ping_primary_interval_s: float
    entities: dict[Looks, int]
    backlog_messages: int
    backlog_counted_at: datetime | None
    dead_letters: int
    traffic: Traffic
    trend: BacklogTrend
    pauses: list[Pause]
    paces: list[PaceLimit]
    is_stalled: bool


class Health(Schema):
    """The headline and the pairs."""

    status: Looks
    headline: str
    detail: str
    last_heartbeat_at: datetime | None
    is_silent: bool
    pairs: list[PairState]


class Ping(Schema):
    """The pings of a failed-over entity."""

    count: int
    last_at: datetime | None
    accepted: bool | None
    reason: str
    next_at: datetime | None


class Entity(Schema):
    """A queue or topic of the primary. `verbs`: the actions that operators can execute on it now, most likely first.

    `gone_at`: since when it is neither in the pairs file nor in the primary's list of entities.
    """

    pair: str
    path: str
    kind: Literal["queue", "topic"]
    status: Looks
    since: datetime | None
    reason: str
    held_by: str | None
    expires: datetime | None
    origin: Literal["organic", "forced"]
    disagreement: str
    gone_at: datetime | None
    backlog_messages: int | None
    backlog_is_complete: bool
    oldest_backlog_at: datetime | None
    pings: Ping
    verbs: list[str]


class EntityQuery(Cursor):
    """Filters of entities. `path` is a full path; `q` is a part of one."""

    pair: Word = ""
    path: Word = ""
    q: Word = ""
    status: Literal["", "failed-over", "held", "failing", "draining", "healthy", "not-healthy"] = ""


class Worker(Schema):
    """A process of the control plane."""

    process: str
    role: str
    seen_at: datetime
    is_silent: bool


class Me(Schema):
    """The caller and the caller's permissions, from groups and the token, if one is used."""

    user: str
    may: list[Literal["read", "operate", "administer"]]


@router.get("/health", response=Health, operation_id="health")
def health(request: HttpRequest) -> dict[str, Any]:
    """The headline, and every pair with its entities by status."""
    now = timezone.now()
    with one_reading():
        beat, known = last_heartbeat(), list(watched_pairs(now))
        silent = is_silent(beat, now)
        reported = headline_of(known, now, silent)
        return {
            "status": reported.status,
            "headline": reported.sentence,
            "detail": reported.detail,
            "last_heartbeat_at": beat,
            "is_silent": silent,
            "pairs": _pairs(known, now, silent),
        }


@router.get("/pairs", response=list[PairState], operation_id="pairs")
def pairs(request: HttpRequest) -> list[dict[str, Any]]:
    """All pairs, by name."""
    now = timezone.now()
    with one_reading():
        silent = is_silent(last_heartbeat(), now)
        return _pairs(watched_pairs(now), now, silent)


@router.get("/pairs/{pair}", response=PairState, operation_id="pair")
def pair(request: HttpRequest, pair: str) -> dict[str, Any]:
    """One pair."""
    now = timezone.now()
    with one_reading():
        row = pair_or_404(pair)
        return _pairs(watched_pairs(now).filter(pk=row.pk), now, is_silent(last_heartbeat(), now))[0]


@router.get("/entities", response=Page[Entity], operation_id="entities")
def entities(request: HttpRequest, query: Annotated[EntityQuery, Query()]) -> dict[str, Any]:
    """Entities by path, of one pair or all. A deleted entity is returned only if requested by `path`."""
    rows = EntityHealth.objects.select_related("pair")
    if query.pair:
        rows = rows.filter(pair=pair_or_404(query.pair))
    rows = rows.filter(path=query.path) if query.path else rows.present()
    if query.q:
        rows = rows.filter(path__icontains=query.q)
    if query.status == "not-healthy":
        rows = rows.exclude(STATES["healthy"])
    elif query.status:
        rows = rows.filter(STATES[query.status])
    now = timezone.now()
    silent = is_silent(last_heartbeat(), now)
    return page(rows, ("path", "id"), query, lambda row: _entity(row, status_of(row, now, silent)))


@router.get("/workers", response=list[Worker], operation_id="workers")
def workers(request: HttpRequest) -> list[dict[str, Any]]:
    """Workers, most recent heartbeat first."""
    now = timezone.now()
    newest = Heartbeat.objects.order_by("-seen_at")[:500]
    names = ("process", "role", "seen_at")
    return [
        {name: getattr(beat, name) for name in names} | {"is_silent": is_silent(beat.seen_at, now)} for beat in newest
    ]


@router.get("/me", response=Me, operation_id="me")
def me(request: HttpRequest) -> dict[str, Any]:
    """The owner and permissions of this session or token."""
    rights = [scope for scope, right in RIGHTS.items() if may(request.user, right)]
    return {"user": request.user.get_username(), "may": rights}


def _pairs(pairs: Iterable[Pair], now: datetime, silent: bool) -> list[dict[str, Any]]:
    known = list(pairs)
    ahead = outlooks(known, now)
    counted, limited = counts_by_pair(known, now, silent), paces_of(pair.name for pair in known)
    moving = trends(known, ahead, counted, now)
    return [
        _pair(pair, counted.get(pair.pk, {}), limited.get(pair.name, {}))
        | {"traffic": ahead[pair.pk].as_json(), "trend": moving[pair.pk].as_json()}
        for pair in known
    ]


def _pair(pair: Pair, counted: Mapping[Status, int], limited: Mapping[str, Pace]) -> dict[str, Any]:
    sums = vars(pair)  # with the annotations of watched_pairs
    return {name: sums[name] for name in PairState.model_fields if name in sums} | {
        "entities": {status.value: counted.get(status, 0) for status in Status},
        "backlog_messages": sums["waiting"],
        "backlog_counted_at": sums["sampled_at"],
        "dead_letters": sums["dead"],
        "pauses": list(pair.pauses.all()),
        "paces": pace_limits(sorted(limited.items())),
        "is_stalled": bool(sums["stalls"]),
    }


def _entity(row: EntityHealth, status: Status) -> dict[str, Any]:
    names = ("path", "kind", "since", "reason", "held_by", "expires", "origin", "disagreement", "gone_at")
    return {name: getattr(row, name) for name in names} | {
        "pair": row.pair.name,
        "status": status.value,
        "backlog_messages": row.waiting,
        "backlog_is_complete": row.waiting_is_complete,
        "oldest_backlog_at": row.oldest_waiting_at,
        "pings": {
            "count": row.ping_count,
            "last_at": row.last_ping_at,
            "accepted": row.last_ping_accepted,
            "reason": row.last_ping_reason,
            "next_at": row.next_ping_at,
        },
        "verbs": [verb.replace("_", "-") for verb in verbs(status)],
    }
