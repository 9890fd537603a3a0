"""Reads the current conditions from the database, with one or two queries per kind for any size of fleet."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from django.db.models import F, Max, Sum

from dashboard.alerts.watching.conditions import SILENCE, fits, is_over, key_of, thresholds
from dashboard.fleet.state import ledgers
from dashboard.fleet.state.primaries import PrimaryDown
from dashboard.fleet.state.projection import gateway_role
from dashboard.models import (
    Alert,
    AlertRule,
    BacklogQueue,
    BudgetAlert,
    EntityHealth,
    FailoverEvent,
    Heartbeat,
    Pair,
    Readiness,
    SyphonLedger,
)
from dashboard.models.alert import ANY
from dashboard.models.records import GATEWAY
from dashboard.site.money import money
from dashboard.site.redis import RedisError, connection
from pairing.fleet.shared_state import USAGE

EXPIRES_SOON = timedelta(minutes=10)
WARNED = timedelta(minutes=30)
"""How long the fleet's warning of a filling queue is valid, which is also how far it looks ahead."""
FULL_SHARE = 0.8
POOR = 50
REMEMBERED = timedelta(days=1)
LATE = timedelta(minutes=5)
"""Much longer than usage is held before it is written, and than a restart of a worker takes."""
USAGE_PROBLEM = "usage"
"""The name of a worker's problem with writing usage files, in its heartbeat."""


def conditions(rules: Iterable[AlertRule], open_keys: Collection[str], now: datetime) -> Iterator[Alert]:
    """All current conditions except failovers of entities, which are followed by events (failovers.py)."""
    yield from backlogs(rules, open_keys, now)
    for found in (expiring, filling, stalled, unbalanced, dead_letters, budgets, missing_workers, less_ready):
        yield from found(now)
    yield from unwritten(open_keys, now)


def condition(kind: str, severity: str, place: tuple[Any, ...], **described: Any) -> Alert:
    """An unsaved alert. `place`: the pair, the entity, and what else tells its key from others."""
    pair, entity, *more = place
    key = key_of(kind, pair, entity, *more)
    return Alert(key=key, kind=kind, severity=severity, pair=pair, entity=entity, **described)


def down(primaries: Iterable[PrimaryDown]) -> Iterator[Alert]:
    """Primaries that are down, each instead of the failovers of its entities."""
    for one in primaries:
        title, detail = f"The primary of {one.pair} is down", f"{one.evidence}. {one.advice}"
        yield condition("failover", "critical", (one.pair, ANY), title=title, detail=detail, began_at=one.since)


def expiring(now: datetime) -> Iterator[Alert]:
    """Forced failovers whose hold ends soon: afterwards an accepted ping ends the failover."""
    rows = EntityHealth.objects.filter(
        state="failed_over", held_by__isnull=False, expires__gt=now, expires__lte=now + EXPIRES_SOON
    ).select_related("pair")
    for row in rows:
        until = f"{row.expires:%H:%M} UTC"
        yield condition(
            "forced_expiring",
            "warning",
            (row.pair.name, row.path, row.version),
            title=f"The failover of {row.path} that {row.held_by} forced ends at {until}",
            detail="Then the first accepted ping ends it. Hold the entity again if it is to stay failed over.",
            began_at=now,
        )


def backlogs(rules: Iterable[AlertRule], open_keys: Collection[str], now: datetime) -> Iterator[Alert]:
    """Backlogs over the threshold of a rule: of whole pairs, or of the entities that the rule names."""
    asked = thresholds(rules)
    if not asked:
        return
    pairs = _depths() if any(rule.entity == ANY for rule in asked) else {}
    entities = _waiting() if any(rule.entity != ANY for rule in asked) else []
    found: dict[str, Alert] = {}
    for rule in asked:
        counts = (
            [(pair, ANY, count) for pair, count in pairs.items()]
            if rule.entity == ANY
            else [one for one in entities if fits(rule.entity, one[1])]
        )
        for pair, entity, count in counts:
            if fits(rule.pair, pair):
                found |= _backlog(pair, entity, count, rule.threshold or 0, open_keys, now)
    yield from found.values()


def _backlog(
    pair: str, entity: str, count: int, threshold: int, open_keys: Collection[str], now: datetime
) -> dict[str, Alert]:
    whose = f"the backlog of {pair}" if entity == ANY else f"the backlog for {entity}"
    title, detail = f"{threshold:,} messages or more are in {whose}", f"{count:,} now."
    found = condition("backlog", "warning", (pair, entity, threshold), title=title, detail=detail, began_at=now)
    return {found.key: found} if is_over(count, threshold, found.key in open_keys) else {}


def _depths() -> dict[str, int]:
    rows = BacklogQueue.objects.filter(is_gone=False).order_by().values_list("pair__name")
    return {pair: total or 0 for pair, total in rows.annotate(total=Sum(F("active") + F("scheduled")))}


def _waiting() -> list[tuple[str, str, int]]:
    rows = EntityHealth.objects.filter(waiting__gt=0).values_list("pair__name", "path", "waiting")
    return [(pair, path, waiting or 0) for pair, path, waiting in rows]


def filling(now: datetime) -> Iterator[Alert]:
    """Backlog queues that are nearly full, or for which the fleet has warned that they soon will be."""
    warned = dict(
        FailoverEvent.objects.filter(kind="capacity_warning", time__gt=now - WARNED)
        .order_by()
        .values_list("entity")
        .annotate(at=Max("time"))
    )
    for queue in BacklogQueue.objects.filter(is_gone=False, max_size_bytes__gt=0).select_related("pair"):
        is_full = queue.share_full >= FULL_SHARE
        used = f"{queue.share_full:.0%} of {queue.max_size_bytes / 2**30:.1f} GB are used."
        place = (queue.pair.name, queue.path)
        if is_full:
            title = f"Backlog queue {queue.path} is nearly full"
            yield condition("capacity", "critical", (*place, "full"), title=title, detail=used, began_at=now)
        if queue.path in warned:
            yield condition(
                "capacity",
                "warning",
                (*place, "soon"),
                title=f"Backlog queue {queue.path} is filling up",
                detail=used if is_full else f"{used} At the rate of that moment it will be full within 30 minutes.",
                began_at=warned[queue.path],
            )


def stalled(now: datetime) -> Iterator[Alert]:
    """Backlog queues whose syphon delivers nothing, although messages are deliverable and it is not paused."""
    for queue in ledgers.stalled(now).select_related("pair"):
        yield condition(
            "stalled",
            "critical",
            (queue.pair.name, queue.path),
            title=f"The syphon of {queue.path} is stalled",
            detail="Messages for healthy entities wait in it, and none has been drained for two minutes.",
            began_at=now,
        )


def unbalanced(now: datetime) -> Iterator[Alert]:
    """Ledgers closed within the last day that do not account for every message."""
    closed = SyphonLedger.objects.filter(ended_at__gt=now - REMEMBERED, missing__isnull=False).exclude(missing=0)
    for row in closed.select_related("pair"):
        missing = row.missing or 0
        more = f"{missing:,} of {row.enqueued:,} messages are not accounted for."
        yield condition(
            "ledger",
            "critical",
            (row.pair.name, row.queue, row.began_at.isoformat()),
            title=f"The ledger of {row.queue} does not balance",
            detail=more if missing > 0 else f"It accounts for {-missing:,} more messages than were enqueued.",
            began_at=row.ended_at or now,
        )


def dead_letters(now: datetime) -> Iterator[Alert]:
    """Backlog queues with dead letters: messages that the syphon could not deliver."""
    for queue in BacklogQueue.objects.filter(is_gone=False, dead_lettered__gt=0).select_related("pair"):
        count, place = queue.dead_lettered, (queue.pair.name, queue.path)
        detail = f"{count:,} {'message' if count == 1 else 'messages'} could not be delivered."
        title = f"Dead letters in {queue.path}"
        yield condition("dead_letters", "warning", place, title=title, detail=detail, began_at=now)


def budgets(now: datetime) -> Iterator[Alert]:
    """Reached budgets of this and the last month."""
    months = {f"{day:%Y-%m}" for day in (now, now - timedelta(days=2))}
    for row in BudgetAlert.objects.filter(month__in=months):
        whose = "everything" if row.pair == ANY else row.pair
        yield condition(
            "budget",
            "critical" if row.percent >= 100 else "warning",
            (row.pair, ANY, row.month, row.percent),
            title=f"{row.percent} % of the budget for {whose} in {row.month} is spent",
            detail=f"{money(row.cents)} of {money(row.budget_cents)} {row.currency}.",
            began_at=row.raised_at,
        )


def less_ready(now: datetime) -> Iterator[Alert]:
    """Pairs with entities whose readiness fell; one condition per pair."""
    fell: dict[str, list[Readiness]] = defaultdict(list)
    for row in Readiness.objects.filter(fell_at__isnull=False).select_related("pair").order_by("score", "entity"):
        fell[row.pair.name].append(row)
    for pair, rows in fell.items():
        worst, count = rows[0], len(rows)
        whose = worst.entity if count == 1 else f"{count:,} entities of {pair}"
        reasons = Counter(str(one.get("reason", "")) for row in rows for one in row.reasons)
        yield condition(
            "readiness",
            "critical" if worst.score < POOR else "warning",
            (pair, ANY),
            title=f"Readiness of {whose} fell",
            detail=f"{worst.entity} is at {worst.score} of 100. " + " ".join(dict(reasons.most_common(2))),
            began_at=min(row.fell_at or now for row in rows),
        )


def missing_workers(now: datetime) -> Iterator[Alert]:
    """Task queues without a worker, and pairs without the gateway they had: no heartbeat of one for a minute."""
    heard: dict[str, datetime] = {}
    for role, seen_at in Heartbeat.objects.values_list("role", "seen_at"):
        for queue in filter(None, (name.strip() for name in role.split(","))):
            heard[queue] = max(seen_at, heard.get(queue, seen_at))
    names = Pair.objects.filter(is_configured=True).values_list("name", flat=True)
    pairs = {gateway_role(name): name for name in names}
    for queue, seen_at in heard.items():
        pair = pairs.get(queue) if queue.startswith(GATEWAY) else ANY
        if pair and now - seen_at > SILENCE:
            yield condition(
                "workers",
                "critical",
                (pair, ANY, queue),
                title=f"No worker serves {queue}" if pair == ANY else f"No gateway of {pair} is alive",
                detail=f"The last heartbeat was at {seen_at:%Y-%m-%d %H:%M:%S} UTC.",
                began_at=seen_at,
            )


def unwritten(open_keys: Collection[str], now: datetime) -> Iterator[Alert]:
    """Usage that was reported long ago and is in no file yet. While Redis is away, an open alert stays open."""
    key = key_of("usage", ANY)
    try:
        oldest, records = cast("list[Any]", connection().xrange(USAGE, count=1)), int(connection().xlen(USAGE))
    except RedisError:
        if key not in open_keys:
            return
        since, waiting = now, "Redis is away."
    else:
        since = datetime.fromtimestamp(int(oldest[0][0].partition("-")[0]) / 1000, UTC) if oldest else now
        if now - since <= LATE:
            return
        waiting = f"{records:,} records wait since {since:%Y-%m-%d %H:%M:%S} UTC."
    detail = f"{waiting} {_why_unwritten(now)}"
    title = "Usage is metered and not written to files"
    yield condition("usage", "critical", (ANY, ANY), title=title, detail=detail, began_at=since)


def _why_unwritten(now: datetime) -> str:
    rows = Heartbeat.objects.filter(seen_at__gt=now - SILENCE)
    problems = [str(row.problems[USAGE_PROBLEM]) for row in rows if USAGE_PROBLEM in row.problems]
    if problems:
        return problems[0]
    if not any("collectors" in row.role for row in rows):
        return "No worker serves the queue collectors: start one."
    return "Workers report no problem: they write more slowly than usage is metered, or beat is not running."
