"""The facts of a pair and its entities, from the database and Redis, without requests to namespaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Max, Sum

from dashboard.costs.forecasts.current_month import traffic
from dashboard.fleet.depth.outlook import outlook
from dashboard.fleet.state.projection import gateway_role
from dashboard.fleet.state.status import HEARTBEAT_LIMIT
from dashboard.fleet.usage.metered import sent
from dashboard.models import BacklogQueue, Charge, EntityHealth, Heartbeat, Invoice, Pair, PairDepth, SyphonPause
from dashboard.readiness.facts import EntityFacts, PairFacts, Probe, QueueFacts
from dashboard.site.redis import shared_state
from pairing.backlog.capacity import Fill
from pairing.backlog.rotation import backlog_path
from pairing.fleet.coordination import SharedState
from pairing.fleet.presence import Presences
from pairing.fleet.shared_backlog import SharedBacklog

LIMITS = {"basic": 262_144, "standard": 262_144, "premium": 1_048_576}
"""Bytes of the largest message by tier; Premium queues can be configured for more."""
LOOKED_LATELY = timedelta(minutes=2)


def pair_facts(
    pair: Pair, probes: Mapping[str, Any], now: datetime, *, problems: Mapping[str, str] | None = None
) -> PairFacts:
    """The current facts of the pair; `probes` as stored in its row. Raises RedisError."""
    shared = shared_state(pair.name)
    living = Presences(shared).living()
    queues, usual, live = tuple(_queues(pair, shared, probes, now)), traffic(pair.name, now), sent(now, pair.name)
    room = sum(max(0, queue.limit - queue.size) for queue in queues if queue.is_there)
    full_in = outlook(live, room, now).full_in
    return PairFacts(
        at=now,
        queues=queues,
        administration=Probe.from_json(probes.get("administration")),
        workers=Heartbeat.objects.filter(seen_at__gt=now - HEARTBEAT_LIMIT).count(),
        problems=problems or {},
        senders={process: len(one.rotation) for process, one in living.items() if one.sends},
        paused=_paused(pair, shared),
        clocks={process: one.ahead_s for process, one in living.items() if one.ahead_s is not None},
        bytes_per_s=usual.messages_per_hour * usual.message_bytes / 3600 or None,
        per_hour=usual.messages_per_hour or None,
        rate_words=usual.words,
        lasts_s=full_in.total_seconds() if full_in else None,
        gateways={name: one.gateway.certificate_ends for name, one in living.items() if one.gateway is not None},
        gateway_heard_at=Heartbeat.objects.filter(role=gateway_role(pair.name)).aggregate(at=Max("seen_at"))["at"],
    )


def entity_facts(pair: Pair, entities: Iterable[EntityHealth], probes: Mapping[str, Any]) -> Iterable[EntityFacts]:
    """The facts of each entity; `probes` as stored in the entities' rows, by path."""
    sizes, limit = message_bytes(pair), min(LIMITS[tier] for tier in (pair.primary_tier, pair.secondary_tier))
    for entity in entities:
        yield EntityFacts(
            path=entity.path,
            is_away=entity.state in ("failing", "failed_over"),
            home=Probe.from_json(probes.get(entity.path)),
            message_bytes=sizes.get(entity.path),
            limit=limit,
        )


def message_bytes(pair: Pair) -> dict[str, int]:
    """The mean size of messages sent to each entity in the latest month with charges."""
    newest = Invoice.objects.order_by("-month").values_list("month", flat=True).first()
    sent = Charge.objects.filter(
        invoice__month=newest, invoice__rule="published", pair=pair.name, kind__in=("send", "send_backlog")
    )
    sums = sent.values_list("entity").annotate(bytes=Sum("bytes"), messages=Sum("messages"))
    return {entity: round(size / messages) for entity, size, messages in sums if messages}


def _queues(pair: Pair, shared: SharedState, probes: Mapping[str, Any], now: datetime) -> Iterable[QueueFacts]:
    rows = {row.path.lower(): row for row in BacklogQueue.objects.filter(pair=pair, is_gone=False)}
    fills, leases = SharedBacklog(shared).fills(), shared.leases()
    holders = {name.lower(): owner for name, owner in leases.items()}
    looked = _looked_lately(pair, now)
    for index in range(pair.backlog_queue_count):
        path = backlog_path(pair.primary_namespace, index)
        tried: Mapping[str, Any] = probes.get("queues", {}).get(path, {})
        row = rows.get(path.lower())
        yield QueueFacts(
            path=path,
            is_there=row is not None if looked else None,
            status=row.status if row else "",
            deviations=tuple(row.deviations) if row else (),
            size=row.size_bytes if row else 0,
            limit=row.max_size_bytes if row else 0,
            full_in_s=_full_in_s(fills.get(row.path if row else path), now),
            holder=holders.get(path.lower(), ""),
            send=Probe.from_json(tried.get("send")),
            listen=Probe.from_json(tried.get("listen")),
        )


def _looked_lately(pair: Pair, now: datetime) -> bool:
    """Whether the last sample of the secondary's queues is at most a few intervals old."""
    since = now - max(LOOKED_LATELY, timedelta(seconds=4 * settings.SAMPLE_INTERVAL_S))
    return PairDepth.objects.filter(pair=pair, at__gte=since).exists()


def _full_in_s(fill: Fill | None, now: datetime) -> float | None:
    """Whether a rate is current: neither outdated nor in the future because of clock skew."""
    if fill is None or abs(now.timestamp() - fill.at) > max(120.0, 4.0 * settings.SAMPLE_INTERVAL_S):
        return None
    return fill.full_in_s


def _paused(pair: Pair, shared: SharedState) -> tuple[str, ...]:
    wanted = SyphonPause.objects.filter(pair=pair).values_list("queue", flat=True)
    return tuple(sorted({*wanted, *shared.paused()}))
