"""Stores the simulated past in the database, once."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from uuid import NAMESPACE_URL, uuid5

from django.db import transaction
from django.db.models import Model

from dashboard.alerts.watching.conditions import key_of
from dashboard.demo.history.plan import MARK, MINUTE, SIMULATION, DrillRun, History, Outage
from dashboard.demo.history.scenery import BACKLOG_QUEUES, LIVE_PAIR
from dashboard.demo.history.usage import rows_of_outage
from dashboard.drills.course import Arrival, Course, Step
from dashboard.drills.report import report
from dashboard.fleet.depth.peaks import COARSE_S, steps
from dashboard.fleet.usage.metered import OF_A_FAILOVER
from dashboard.models import (
    Alert,
    AuditEntry,
    Budget,
    DepthPeak,
    Drill,
    EntityHealth,
    FailoverEvent,
    MeteredUsage,
    Pair,
    PairDepth,
    PingTally,
    SyphonLedger,
    WaitingSample,
)
from dashboard.models.depth import WHOLE_BACKLOG
from dashboard.site.charts import Point
from pairing.backlog.rotation import backlog_path
from pairing.events import counted

WORKER = f"{SIMULATION}:worker"
MESSAGES = 30
FORECAST_FROM = timedelta(days=8)
"""Traffic is forecast from these days. Diverted messages without the ordinary ones beside them would falsify it."""
_SOON = timedelta(seconds=9)


@transaction.atomic
def load(past: History) -> None:
    """Store the past of the pairs that exist."""
    by_model: dict[type[Model], list[Model]] = defaultdict(list)
    for row in _Rows(past).all():
        by_model[type(row)].append(row)
    for model, rows in by_model.items():
        model._default_manager.bulk_create(rows, batch_size=2_000)
    EntityHealth.objects.update(state=EntityHealth.State.HEALTHY, process=WORKER, since=past.begin)
    for outage in past.outages:
        entity = EntityHealth.objects.filter(pair__name=outage.entity.pair, path=outage.entity.path)
        entity.update(since=outage.recovered_at)
    Budget.objects.create(pair="*", cents=12_000_00, set_by=person("carla"), set_at=past.begin)


def person(name: str) -> str:
    """The name of a simulated person."""
    return f"{name} {MARK}"


class _Rows:
    def __init__(self, past: History) -> None:
        self.past = past
        self.pairs = {pair.name: pair for pair in Pair.objects.all()}
        self.entities = {(one.pair.name, one.path): one for one in EntityHealth.objects.select_related("pair")}

    def all(self) -> Iterator[Model]:
        for outage in self.past.outages:
            yield from _of_entity(outage)
            yield from self._measured(outage)
        for outages in self.past.incidents():
            yield from self._backlog(outages)
        for pair in self.pairs.values():
            yield from self._depths(pair)
        for drill in self.past.drills:
            yield _drill(self.pairs[LIVE_PAIR], drill)
            yield _audit(drill.at, drill.by, "start_drill", LIVE_PAIR, "pairing-canary", "before the release")

    def _measured(self, outage: Outage) -> Iterator[Model]:
        """Pings, metered operations, and the depth of the entity's backlog."""
        entity = self.entities[outage.entity.pair, outage.entity.path]
        pings = outage.incident.lasted // MINUTE
        times = {"began_at": outage.failed_over_at, "last_at": outage.recovered_at}
        yield PingTally(entity=entity, **times, accepted=True, reason=MARK, count=pings)
        points = _points([outage], outage.failed_over_at, MINUTE)
        for at, waiting in points:
            if waiting == 0 or at > self.past.end - timedelta(days=8):
                yield WaitingSample(entity=entity, at=at, waiting=waiting)
        yield from _peaks(entity.pair, outage.entity.path, points)
        if outage.drained_at < self.past.end - FORECAST_FROM:
            for row in rows_of_outage(outage):
                if row.kind in OF_A_FAILOVER:
                    yield MeteredUsage(begins_at=row.minute, **row.columns())

    def _depths(self, pair: Pair) -> Iterator[Model]:
        outages = [one for one in self.past.outages if one.entity.pair == pair.name]
        points = _points(outages, self.past.begin, 30 * MINUTE)
        yield from (PairDepth(pair=pair, at=at, messages=messages) for at, messages in points)
        yield from _peaks(pair, WHOLE_BACKLOG, points)

    def _backlog(self, outages: list[Outage]) -> Iterator[Model]:
        """Each backlog queue: the ledger of its messages, and the dead letters of its syphon."""
        first, diverted = outages[0], sum(one.diverted for one in outages)
        pair, drained_at = self.pairs[first.entity.pair], max(one.drained_at for one in outages)
        for number in range(BACKLOG_QUEUES):
            queue, began_at = backlog_path(pair.name, number), first.recovered_at + _SOON
            count = diverted // BACKLOG_QUEUES + (number < diverted % BACKLOG_QUEUES)
            dead = int(number < first.dead_letters)
            if dead:
                why = counted(1, queue, f"refused 10 times: message {4_200 + number} is larger than the limit")
                yield _event(first, began_at + (number + 1) * _SOON, "dead_lettered", why)
            yield SyphonLedger(
                pair=pair,
                queue=queue,
                began_at=first.failed_over_at,
                ended_at=drained_at,
                enqueued=count,
                home=count,
                moved_at=drained_at,
                fates={"restored": count - dead, "dead_lettered": dead},
                missing=0,
                reporter=WORKER,
                seen_at=drained_at,
            )


def _of_entity(outage: Outage) -> Iterator[Model]:
    """The events, the alert and the audit entry of one entity's outage."""
    incident, path, by = outage.incident, outage.entity.path, outage.incident.forced_by
    if by:
        yield _event(outage, outage.failed_over_at, "forced", incident.reason, by=by)
        yield _audit(outage.failed_over_at, by, "fail_over", incident.pair, path, incident.reason)
    else:
        yield _event(outage, outage.failing_at, "failing", incident.reason)
        yield _event(outage, outage.failed_over_at, "failed_over", incident.reason)
        yield _audit(outage.failed_over_at + 4 * MINUTE, "ben", "acknowledge_alert", incident.pair, path, "on it")
    yield _event(outage, outage.recovered_at, "recovered", "the primary accepted a ping")
    yield Alert(
        key=key_of(Alert.Kind.FAILOVER, incident.pair, path),
        kind=Alert.Kind.FAILOVER,
        severity="warning" if by else "critical",
        pair=incident.pair,
        entity=path,
        title=f"{path} was failed over by {person(by)}" if by else f"{path} failed over {MARK}",
        detail=f"{incident.reason} {MARK}",
        began_at=outage.failed_over_at,
        opened_at=outage.failed_over_at + _SOON,
        ended_at=outage.recovered_at,
        resolved_at=outage.recovered_at + _SOON,
        acknowledged_at=outage.failed_over_at + 4 * MINUTE,
        acknowledged_by=person("ben"),
    )


def _event(outage: Outage, at: datetime, kind: str, reason: str, entity: str = "", by: str = "") -> FailoverEvent:
    path = entity or outage.entity.path
    return FailoverEvent(
        event_id=_identity("event", outage.entity.pair, path, kind, at),
        time=at,
        pair=outage.entity.pair,
        entity=path,
        kind=kind,
        reason=f"{reason} {MARK}".strip(),
        process=WORKER,
        operator=person(by) if by else None,
        alerted_at=at,
    )


def _audit(at: datetime, by: str, verb: str, pair: str, target: str, reason: str) -> AuditEntry:
    return AuditEntry(
        request_id=_identity("audit", verb, pair, target, at),
        at=at,
        operator=person(by),
        via=SIMULATION,
        verb=verb,
        pair=pair,
        target=target,
        reason=f"{reason} {MARK}",
        outcome="done",
    )


def _identity(*parts: object) -> str:
    return uuid5(NAMESPACE_URL, ":".join(map(str, parts))).hex


def _points(outages: Sequence[Outage], begin: datetime, step: timedelta) -> list[Point]:
    """The depth at each step, and at each minute of an outage until the first empty sample."""
    end = max(one.drained_at for one in outages)
    times = {begin + step * n for n in range((end - begin) // step + 1)} | {end}
    for one in outages:
        times |= {one.failed_over_at + MINUTE * n for n in range((one.drained_at - one.failed_over_at) // MINUTE + 1)}
    return [(at, sum(one.waiting(at) for one in outages)) for at in sorted(times)]


def _peaks(pair: Pair, path: str, points: Sequence[Point]) -> Iterator[DepthPeak]:
    for step in steps(points, COARSE_S):
        yield DepthPeak(pair=pair, path=path, step_s=COARSE_S, at=step.at, peak=step.peak, last=step.last)


def _drill(pair: Pair, run: DrillRun) -> Drill:
    ended_at = run.at + timedelta(seconds=41)
    course = Course(step=Step.ENDED, total=MESSAGES, sent=4, is_prepared=True, failure=run.failure)
    course = course if run.failure else _passed(run.at)
    return Drill(
        pair=pair,
        path="pairing-canary",
        by=person(run.by),
        reason=f"before the release {MARK}",
        at=run.at,
        request_id=_identity("drill", run.at),
        ended_at=ended_at,
        detail=f"{run.failure} {MARK}" if run.failure else "",
        step=course.step.value,
        messages=MESSAGES,
        is_scheduled=run.by == "schedule",
        expires_at=run.at + 15 * MINUTE,
        course=course.as_json(),
        outcome=Drill.Outcome.FAILED if run.failure else Drill.Outcome.PASSED,
        report=report(course, run.at, ended_at),
    )


def _passed(at: datetime) -> Course:
    """A drill in which every message arrived."""
    seconds = {"forced_at": 6.0, "known_at": 6.4, "diverted_at": 6.6, "released_at": 17, "healed_at": 19, "home_at": 30}
    return Course(
        step=Step.ENDED,
        total=MESSAGES,
        sent=MESSAGES,
        is_prepared=True,
        seen_in_backlog=MESSAGES // 3,
        left_in_backlog=0,
        arrivals=tuple(Arrival(number, number) for number in range(1, MESSAGES + 1)),
        operations={"send": 20, "send_backlog": 10, "receive": 30, "settle": 30, "manage": 9},
        **{name: at + timedelta(seconds=after) for name, after in seconds.items()},  # type: ignore[arg-type]
    )
