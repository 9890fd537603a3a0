"""The six states of an outage in the database of a served control plane, each with its depth and events.

Run in the process environment of the site: `place.shell(ENTER.format(state))`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from dashboard.models import Pair

STATES = ("healthy", "failing", "failed-over", "held", "draining", "after")
ENTER = "from tests.dashboard.outage_states import enter; enter('{}')"
REJECTED = "ServiceBusError: Fault 0a6acd66e8f9: reject. Error condition: amqp:internal-error."
UNANSWERED = "OperationTimeoutError: No answer within 10.0 s."
FULL = "ServiceBusQuotaExceededError: The entity is full. Error condition: amqp:resource-limit-exceeded."
EVERY_S, SINCE_S = 20, 1500
BEGAN_S, RECOVERED_S, PAUSED_S, RESUMED_S = 1300, 500, 420, 330
"""Seconds before now."""
RATES = {"orders": 2.0, "payments": 1.2, "shipments/eu-west": 0.8}
"""Messages a second."""
Curve = Callable[[float], float]


def enter(state: str) -> None:
    """Bring `contoso` into this state: orders, payments and shipments/eu-west are those that change."""
    from django.utils import timezone

    from dashboard.models import Pair

    now, pair = timezone.now(), Pair.objects.get(name="contoso")
    _calm(pair, now)
    {"failing": _failing, "failed-over": _failed_over, "held": _held, "draining": _drained, "after": _drained}.get(
        state, _healthy
    )(pair, now, state)


def _calm(pair: Pair, now: datetime) -> None:
    """All is well since the sample's own outage, which stays as it was."""
    from dashboard.models import EntityHealth, FailoverEvent, MeteredRecord, PairDepth, SyphonPause, WaitingSample
    from tests.dashboard.sample_outage import AGO, OVER, RECOVERED

    recovered_at = FailoverEvent.objects.get(event_id=RECOVERED).time
    since = recovered_at + OVER
    for table, time in ((WaitingSample, "at"), (PairDepth, "at"), (FailoverEvent, "time"), (MeteredRecord, "minute")):
        table.objects.filter(**{f"{time}__gt": since}).delete()
    SyphonPause.objects.all().delete()
    known = {"state": "healthy", "waiting": 0, "oldest_waiting_at": None, "held_by": None, "expires": None}
    EntityHealth.objects.update(**known, origin="organic", reason="", since=now - 2 * AGO)
    EntityHealth.objects.filter(path="orders").update(since=recovered_at)
    pair.backlog_queues.update(active=0, scheduled=0, seen_at=now)


def _metered(now: datetime, curve: Curve, shares: Mapping[str, float]) -> None:
    """The traffic of an hour by minute: what makes the backlog grow and shrink so, and otherwise sends."""
    from dashboard.fleet.usage import metered
    from tests.dashboard.sample_outage import sent

    reports = []
    for path, rate in RATES.items():
        depths = [int(curve(60 * minute) * shares.get(path, 0)) for minute in range(61)]
        for minute in range(1, 61):
            at, grown = now - timedelta(seconds=60 * minute - 30), depths[minute - 1] - depths[minute]
            reports.append(sent(at, path, *(("send_backlog", grown) if grown > 0 else ("send", round(60 * rate)))))
            reports += [sent(at, path, "syphon_send", -grown)] if grown < 0 else []
    metered.store(reports, now)


def _healthy(pair: Pair, now: datetime, state: str) -> None:
    _depths(pair, now, lambda _: 0, {"orders": 1.0})


def _failing(pair: Pair, now: datetime, state: str) -> None:
    for path, reason in (("orders", REJECTED), ("payments", UNANSWERED)):
        _turn(pair, path, "failing", now, 3, reason)
        _event(now, "failing", 3, path, reason)
    _depths(pair, now, lambda _: 0, {"orders": 1.0})


def _failed_over(pair: Pair, now: datetime, state: str) -> None:
    for path, reason in (("orders", REJECTED), ("payments", REJECTED), ("shipments/eu-west", FULL)):
        _turn(pair, path, "failed_over", now, 900, reason)
        _event(now, "failing", 906, path, reason)
        _event(now, "failed_over", 900, path, reason)
    _depths(pair, now, lambda ago: 4 * max(0, 900 - ago), {"orders": 0.5, "payments": 0.3, "shipments/eu-west": 0.2})


def _held(pair: Pair, now: datetime, state: str) -> None:
    why = "storage of the region is down, ticket 4711"
    _turn(pair, "orders", "failed_over", now, 600, why, held_by="ada", origin="forced")
    for kind in ("forced", "held"):
        _event(now, kind, 600, "orders", why, "ada")
    pair.pauses.create(queue="*", by="ada", reason="look first", at=now - timedelta(seconds=300))
    _event(now, "syphon_paused", 300, "*", "look first", "ada")
    _depths(pair, now, lambda ago: 2 * max(0, 600 - ago), {"orders": 1.0})


def _drained(pair: Pair, now: datetime, state: str) -> None:
    """Two entities recovered, and the syphon was paused for a while; `after`: it is over."""
    for path in ("orders", "payments"):
        _event(now, "failing", BEGAN_S + 5, path, REJECTED)
        _event(now, "failed_over", BEGAN_S, path, REJECTED)
        _event(now, "recovered", RECOVERED_S, path, "a ping was accepted")
        pair.entities.filter(path=path).update(since=now - timedelta(seconds=RECOVERED_S))
    _event(now, "syphon_paused", PAUSED_S, "*", "look first", "ada")
    _event(now, "syphon_resumed", RESUMED_S, "*", "", "ada")
    _depths(pair, now, _drain(9 if state == "draining" else 40), {"orders": 0.7, "payments": 0.3})


def _drain(rate: float) -> Curve:
    def waiting(ago: float) -> float:
        if ago > RECOVERED_S:
            return 6 * max(0, BEGAN_S - ago)
        if ago > PAUSED_S:
            return 4800 - 4 * (RECOVERED_S - ago)
        return 4480 if ago > RESUMED_S else max(0, 4480 - rate * (RESUMED_S - ago))

    return waiting


def _turn(pair: Pair, path: str, state: str, now: datetime, ago_s: float, reason: str, **more: str) -> None:
    pair.entities.filter(path=path).update(state=state, since=now - timedelta(seconds=ago_s), reason=reason, **more)


def _event(now: datetime, kind: str, ago_s: float, entity: str, reason: str, operator: str | None = None) -> None:
    from dashboard.models import FailoverEvent

    known = {"pair": "contoso", "entity": entity, "kind": kind, "reason": reason, "operator": operator}
    at = now - timedelta(seconds=ago_s)
    FailoverEvent.objects.create(event_id=uuid4().hex, time=at, process="host-3:4711:0a1b2c3d", **known)


def _depths(pair: Pair, now: datetime, curve: Curve, shares: Mapping[str, float]) -> None:
    """Samples of the last minutes of the pair and of these entities, and the counts of the present."""
    from dashboard.models import BacklogQueue, PairDepth, WaitingSample

    _metered(now, curve, shares)
    entities = list(pair.entities.filter(path__in=shares))
    samples, totals = [], []
    for ago_s in range(SINCE_S, 0, -EVERY_S):
        at = now - timedelta(seconds=ago_s)
        found = [int(curve(ago_s) * shares[entity.path]) for entity in entities]
        samples += [WaitingSample(entity=one, at=at, waiting=n) for one, n in zip(entities, found, strict=True)]
        totals.append(PairDepth(pair=pair, at=at, messages=sum(found)))
    WaitingSample.objects.bulk_create(samples)
    PairDepth.objects.bulk_create(totals)
    for entity in entities:
        entity.waiting, entity.waiting_at = int(curve(EVERY_S) * shares[entity.path]), now
        entity.save()
    queue = BacklogQueue.objects.filter(pair=pair, is_gone=False).order_by("path").first()
    if queue:
        queue.active = sum(entity.waiting or 0 for entity in entities)
        queue.size_bytes, queue.max_size_bytes = 300 * queue.active, 1 << 30
        queue.save()
