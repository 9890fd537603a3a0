"""The simulated past as rows of the models: events, ledgers, alerts, the audit trail. Nothing is stored here."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from uuid import NAMESPACE_URL, uuid5

from dashboard.alerts.conditions import key_of
from dashboard.demo.history.plan import MARK, SIMULATION, History, Outage
from dashboard.demo.history.scenery import BACKLOG_QUEUES
from dashboard.models import Alert, AuditEntry, FailoverEvent, Pair, SyphonLedger, SyphonRun
from pairing.backlog.rotation import backlog_path
from pairing.events import counted

WORKER = f"{SIMULATION}:worker"
ON_CALL = f"ben {MARK}"
ACKNOWLEDGED_AFTER = timedelta(minutes=4)
SYPHON_LAG = timedelta(seconds=9)
_MINUTE = timedelta(minutes=1)


def identity(*parts: object) -> str:
    """The same id for the same fact in every run."""
    return uuid5(NAMESPACE_URL, ":".join(map(str, (SIMULATION, *parts)))).hex


def person(name: str) -> str:
    """The name of a simulated person."""
    return f"{name} {MARK}"


def events(past: History) -> Iterator[FailoverEvent]:
    """What processes and workers would have reported."""
    for outage in past.outages:
        yield from _of_entity(outage)
    for outages in incidents(past).values():
        yield from _of_backlog(outages)


def incidents(past: History) -> Mapping[str, list[Outage]]:
    """The outages of each incident, by its title."""
    found: dict[str, list[Outage]] = defaultdict(list)
    for outage in past.outages:
        found[outage.scene.title].append(outage)
    return found


def _of_entity(outage: Outage) -> Iterator[FailoverEvent]:
    scene, by = outage.scene, person(outage.scene.forced_by) if outage.scene.forced_by else None
    if by:
        yield _event(outage, outage.failed_over_at, "forced", scene.reason, by)
        if scene.held:
            yield _event(outage, outage.failed_over_at + 2 * _MINUTE, "held", scene.reason, by)
            yield _event(outage, outage.failed_over_at + scene.held, "released", "maintenance is done", by)
    else:
        yield _event(outage, outage.failing_at, "failing", scene.reason)
        yield _event(outage, outage.failed_over_at, "failed_over", scene.reason)
    yield _event(outage, outage.recovered_at, "recovered", "the primary accepted a ping")


def _of_backlog(outages: list[Outage]) -> Iterator[FailoverEvent]:
    first, last = outages[0], max(outages, key=lambda one: one.drained_at)
    scene, queues = first.scene, _queues(first)
    if scene.fills_up:
        at = first.failed_over_at + 0.8 * scene.lasted
        yield _event(first, at, "capacity_warning", "80 % full", entity=queues[0])
    if scene.paused:
        by, why = ON_CALL, "consumers are to restart first"
        yield _event(first, first.recovered_at, "syphon_paused", why, by, entity="*")
        yield _event(first, first.resumed_at, "syphon_resumed", "consumers are up", by, entity="*")
    for queue in queues:
        yield _event(first, first.resumed_at + SYPHON_LAG, "syphon_started", "", entity=queue)
        yield _event(first, last.drained_at, "syphon_stopped", "the queue is empty", entity=queue)
    for number in range(first.dead_letters):
        why = counted(1, queues[number], f"refused 10 times: message {4_200 + number} is larger than the limit")
        yield _event(first, first.resumed_at + (number + 1) * SYPHON_LAG, "dead_lettered", why)


def _event(
    outage: Outage, at: datetime, kind: str, reason: str, operator: str | None = None, *, entity: str = ""
) -> FailoverEvent:
    path = entity or outage.entity.path
    return FailoverEvent(
        event_id=identity("event", outage.entity.pair, path, kind, at.isoformat()),
        time=at,
        pair=outage.entity.pair,
        entity=path,
        kind=kind,
        reason=f"{reason} {MARK}".strip(),
        process=WORKER,
        operator=operator,
        alerted_at=at,
    )


def _queues(outage: Outage) -> list[str]:
    return [backlog_path(outage.entity.pair, number) for number in range(BACKLOG_QUEUES)]


def ledgers(past: History, pairs: Mapping[str, Pair]) -> Iterator[SyphonLedger | SyphonRun]:
    """What each backlog queue got in each incident, and the syphon that drained it."""
    for outages in incidents(past).values():
        first, diverted = outages[0], sum(one.diverted for one in outages)
        drained_at = max(one.drained_at for one in outages)
        for number, queue in enumerate(_queues(first)):
            count = diverted // BACKLOG_QUEUES + (number < diverted % BACKLOG_QUEUES)
            dead = int(number < first.dead_letters)
            moved = {"restored": count - dead} | ({"dead_lettered": dead} if dead else {})
            yield SyphonLedger(
                pair=pairs[first.entity.pair],
                queue=queue,
                began_at=first.failed_over_at,
                ended_at=drained_at,
                enqueued=count,
                home=count,
                moved_at=drained_at,
                fates=moved,
                missing=0,
                reporter=WORKER,
                seen_at=drained_at,
            )
            yield SyphonRun(
                pair=pairs[first.entity.pair],
                queue=queue,
                holder=WORKER,
                started_at=first.resumed_at + SYPHON_LAG,
                seen_at=drained_at,
                ended_at=drained_at,
                ended_because=f"The queue is empty {MARK}.",
                moved=count - dead,
                dead_lettered=dead,
                busy_s=max(1.0, (drained_at - first.resumed_at - SYPHON_LAG).total_seconds() * 0.9),
            )


def alerts(past: History) -> Iterator[Alert]:
    """An alert of each failover, and of each backlog that filled up."""
    for outage in past.outages:
        path, scene = outage.entity.path, outage.scene
        forced = person(scene.forced_by) if scene.forced_by else ""
        yield _alert(
            Alert.Kind.FAILOVER,
            outage,
            outage.failed_over_at,
            outage.recovered_at,
            f"{path} was failed over by {forced}" if forced else f"{path} failed over {MARK}",
            "warning" if forced else "critical",
            path,
        )
    for outages in incidents(past).values():
        if (first := outages[0]).scene.fills_up:
            queue, at = _queues(first)[0], first.failed_over_at + 0.8 * first.scene.lasted
            title = f"{queue} is filling up {MARK}"
            yield _alert(Alert.Kind.CAPACITY, first, at, first.resumed_at + 5 * _MINUTE, title, "warning", queue)


def _alert(
    kind: Alert.Kind, outage: Outage, at: datetime, until: datetime, title: str, severity: str, entity: str
) -> Alert:
    pair = outage.entity.pair
    return Alert(
        key=key_of(kind, pair, entity),
        kind=kind,
        severity=severity,
        pair=pair,
        entity=entity,
        title=title,
        detail=f"{outage.scene.reason} {MARK}",
        began_at=at,
        opened_at=at + SYPHON_LAG,
        ended_at=until,
        resolved_at=until + SYPHON_LAG,
        acknowledged_at=at + ACKNOWLEDGED_AFTER,
        acknowledged_by=ON_CALL,
    )


def audit_entries(past: History) -> Iterator[AuditEntry]:
    """What simulated operators did."""
    for outages in incidents(past).values():
        yield from _done_in(outages[0])
    for drill in past.drills:
        yield _entry(drill.at, drill.by, "start_drill", drill.pair, "pairing-canary", "before the release")


def _done_in(outage: Outage) -> Iterator[AuditEntry]:
    scene, pair, path = outage.scene, outage.entity.pair, outage.entity.path
    if scene.forced_by:
        at = outage.failed_over_at
        yield _entry(at, scene.forced_by, "fail_over", pair, path, scene.reason)
        if scene.held:
            yield _entry(at + 2 * _MINUTE, scene.forced_by, "hold", pair, path, scene.reason)
            yield _entry(at + scene.held, scene.forced_by, "release", pair, path, "maintenance is done")
        return
    target = "alert of " + path
    yield _entry(outage.failed_over_at + ACKNOWLEDGED_AFTER, "ben", "acknowledge_alert", pair, target, "on it")
    if scene.paused:
        yield _entry(outage.recovered_at, "ben", "pause_syphon", pair, "*", "consumers are to restart first")
        yield _entry(outage.resumed_at, "ben", "resume_syphon", pair, "*", "consumers are up")


def _entry(at: datetime, by: str, verb: str, pair: str, target: str, reason: str) -> AuditEntry:
    return AuditEntry(
        request_id=identity("audit", verb, pair, target, at.isoformat()),
        at=at,
        operator=person(by),
        via=SIMULATION,
        verb=verb,
        pair=pair,
        target=target,
        reason=f"{reason} {MARK}",
        outcome="done",
    )
