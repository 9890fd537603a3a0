"""Stores the simulated past in the database, once: as processes report it, and as samplers and alerts make of it."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain
from uuid import uuid4

from django.contrib.auth.models import User
from django.db import transaction

from dashboard.access.audited import Request
from dashboard.actions.entities import FAIL_OVER
from dashboard.alerts.watching.changes import Changes
from dashboard.alerts.watching.conditions_now import down
from dashboard.alerts.watching.following import follow_failovers
from dashboard.demo.history.plan import MARK, MINUTE, SIMULATION, History, Outage
from dashboard.demo.history.scenery import BACKLOG_QUEUES, of_pair
from dashboard.demo.history.usage import rows_of_outage
from dashboard.fleet.depth.peaks import roll_up
from dashboard.fleet.state import projection
from dashboard.fleet.state.event_lines import plain_cause
from dashboard.fleet.state.primaries import PrimaryDown
from dashboard.fleet.usage.metered import OF_A_FAILOVER
from dashboard.models import (
    Budget,
    EntityHealth,
    MeteredUsage,
    Pair,
    PairDepth,
    SyphonLedger,
    WaitingSample,
)
from dashboard.site.charts import Point
from pairing.backlog.rotation import backlog_path
from pairing.events import Event

WORKER = f"{SIMULATION}:worker"
FORECAST_FROM = timedelta(days=8)
"""Traffic is forecast from these days. Diverted messages without the ordinary ones beside them would falsify it."""


@transaction.atomic
def load(past: History) -> None:
    """Store the past of the pairs that exist."""
    pairs = {pair.name: pair for pair in Pair.objects.all()}
    for outages in past.incidents():
        drained_at = max(one.drained_at for one in outages)
        projection.record_events(chain.from_iterable(map(_events, outages)))
        follow_failovers(Changes(), _primaries_down(outages), drained_at)
        _store_ledgers(pairs[outages[0].entity.pair], outages, drained_at)
    EntityHealth.objects.update(state=EntityHealth.State.HEALTHY, process=WORKER, since=past.begin)
    for outage in past.outages:
        _store_outage(outage, is_metered=outage.drained_at < past.end - FORECAST_FROM)
    for pair in pairs.values():
        own = [one for one in past.outages if one.entity.pair == pair.name]
        points = _points(own, past.begin, 30 * MINUTE)
        PairDepth.objects.bulk_create(PairDepth(pair=pair, at=at, messages=waiting) for at, waiting in points)
        roll_up(pair)
    Budget.objects.create(pair="*", cents=12_000_00, set_by=person("carla"), set_at=past.begin)


def person(name: str) -> str:
    """The name of a simulated person."""
    return f"{name} {MARK}"


def _events(outage: Outage) -> Iterator[Event]:
    incident = outage.incident
    if incident.forced_by:
        yield _event(outage, outage.failed_over_at, "forced", incident.reason, person(incident.forced_by))
    else:
        yield _event(outage, outage.failing_at, "failing", incident.reason)
        yield _event(outage, outage.failed_over_at, "failed_over", incident.reason)
    yield _event(outage, outage.recovered_at, "recovered", "the primary accepted a ping")


def _event(outage: Outage, at: datetime, kind: str, reason: str, operator: str | None = None) -> Event:
    entity = outage.entity
    return Event(uuid4().hex, at, entity.pair, entity.path, kind, f"{reason} {MARK}", WORKER, operator)


def _primaries_down(outages: Sequence[Outage]) -> list[PrimaryDown]:
    """The primary, if the outages are of all entities of its pair, with its alert stored, which was open meanwhile."""
    pair, paths = outages[0].entity.pair, [one.entity.path for one in outages]
    if len(paths) < len(of_pair(pair)):
        return []
    cause, since = f"{plain_cause(outages[0].incident.reason)} {MARK}", min(one.failed_over_at for one in outages)
    found = [PrimaryDown(pair, cause, since, since, paths, len(paths), 0)]
    ended_at = max(one.recovered_at for one in outages)
    for alert in down(found):
        alert.opened_at, alert.ended_at, alert.resolved_at = since, ended_at, ended_at
        alert.save()
    return found


def _store_ledgers(pair: Pair, outages: Sequence[Outage], drained_at: datetime) -> None:
    """The ledger of each backlog queue: the messages that were diverted, in equal parts."""
    diverted = sum(one.diverted for one in outages)
    for number in range(BACKLOG_QUEUES):
        count = diverted // BACKLOG_QUEUES + (number < diverted % BACKLOG_QUEUES)
        SyphonLedger.objects.create(
            pair=pair,
            queue=backlog_path(pair.name, number),
            began_at=outages[0].failed_over_at,
            ended_at=drained_at,
            enqueued=count,
            home=count,
            moved_at=drained_at,
            fates={"restored": count},
            missing=0,
            reporter=WORKER,
            seen_at=drained_at,
        )


def _store_outage(outage: Outage, *, is_metered: bool) -> None:
    """The action that forced it, if one did; the depth of the entity's backlog, and metered operations."""
    incident, at = outage.incident, outage.failed_over_at
    entity = EntityHealth.objects.select_related("pair").get(pair__name=incident.pair, path=outage.entity.path)
    EntityHealth.objects.filter(pk=entity.pk).update(since=outage.recovered_at)
    if incident.forced_by:
        by = User(username=person(incident.forced_by))
        reason = f"{incident.reason} {MARK}"
        FAIL_OVER.record(Request(by, entity.pair, entity.path, reason, via=SIMULATION, at=at), "")
    points = _points([outage], at, MINUTE)
    WaitingSample.objects.bulk_create(WaitingSample(entity=entity, at=at, waiting=waiting) for at, waiting in points)
    rows = [row for row in rows_of_outage(outage) if is_metered and row.kind in OF_A_FAILOVER]
    MeteredUsage.objects.bulk_create(MeteredUsage(begins_at=row.minute, **row.columns()) for row in rows)


def _points(outages: Sequence[Outage], begin: datetime, step: timedelta) -> list[Point]:
    """The depth at each step, and at each minute of an outage until the first empty sample."""
    end = max(one.drained_at for one in outages)
    times = {begin + step * n for n in range((end - begin) // step + 1)} | {end}
    for one in outages:
        times |= {one.failed_over_at + MINUTE * n for n in range((one.drained_at - one.failed_over_at) // MINUTE + 1)}
    return [(at, sum(one.waiting(at) for one in outages)) for at in sorted(times)]
