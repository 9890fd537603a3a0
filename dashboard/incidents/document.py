"""One incident as JSON, for a ticket, a post-mortem, or the API."""

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from dashboard.actions.entities import SEPARATOR
from dashboard.fleet import ping_tallies
from dashboard.fleet.ledgers import during
from dashboard.fleet.paces import limits
from dashboard.incidents.estimates import as_json, estimate
from dashboard.incidents.finding import MOST_EVENTS, find, next_failover
from dashboard.incidents.folding import Drain, Incident, drain
from dashboard.incidents.moved import moved
from dashboard.models import AuditEntry, EntityHealth, SyphonLedger, SyphonPause
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.site.charts import Point
from pairing.backlog.rotation import parse_backlog_path
from pairing.fleet.shared_health import Pace

ENTRY_TO_EVENT = timedelta(seconds=5)
"""Maximum time between the audit entry of an action and the event of the failover that it forced."""


def document(pair: str, event_id: str) -> dict[str, Any]:
    """The incident that an event belongs to, as JSON. Raises Http404."""
    entity, incident, samples = find(pair, event_id)
    now = timezone.now()
    progress = drain(incident, samples, now)
    summary = _document(incident, progress, samples, now)
    price = estimate(entity, incident, progress, now)
    ledgers = during(entity.pair, incident.began_at, incident.ended_at(now))
    cost = as_json(price) if price else None
    return {
        **summary,
        **_slowed(entity, incident),
        "cost": cost,
        "pings": pings(entity, incident),
        "moved": found.as_json() if (found := moved(incident, now)) else None,
        "ledgers": [_ledger(one) for one in ledgers],
    }


def actions_during(incident: Incident, now: datetime) -> list[AuditEntry]:
    """Actions of operators on the entity or the whole pair during the incident."""
    since = incident.began_at - (ENTRY_TO_EVENT if incident.forced_by else timedelta())
    entries = AuditEntry.objects.filter(pair=incident.pair, at__range=(since, incident.ended_at(now)))
    meant = {incident.entity, WHOLE_PAIR}
    return [entry for entry in entries.order_by("at")[:MOST_EVENTS] if meant & set(entry.target.split(SEPARATOR))]


def pause_of(entity: EntityHealth) -> SyphonPause | None:
    """The pauses that stop its drain: of the pair, of the entity, or of queues that may hold its messages."""
    pauses = {pause.queue: pause for pause in entity.pair.pauses.all()}
    others = (pauses[queue] for queue in sorted(pauses) if parse_backlog_path(queue) is not None)
    return pauses.get(WHOLE_PAIR) or pauses.get(entity.path) or next(others, None)


def pings(entity: EntityHealth, incident: Incident) -> dict[str, Any] | None:
    """The last ping of this failover and their number; None if those of a later failover have replaced them, which
    happens no more since they are kept.
    """
    if kept := ping_tallies.during(entity, incident.failed_over_at, next_failover(incident)):
        return {
            "count": kept.count,
            "last_at": kept.last_at.isoformat(),
            "accepted": kept.accepted,
            "reason": kept.reason,
        }
    at = entity.last_ping_at
    if at is None or at < incident.failed_over_at:
        return {"count": 0, "last_at": None, "accepted": None, "reason": ""}
    if (later := next_failover(incident)) and at >= later:
        return None
    return {
        "count": entity.ping_count,
        "last_at": at.isoformat(),
        "accepted": entity.last_ping_accepted,
        "reason": entity.last_ping_reason,
    }


def _slowed(entity: EntityHealth, incident: Incident) -> dict[str, Any]:
    """The pauses and paces that slow its drain."""
    is_draining = incident.recovered_at is not None and not incident.is_over
    pause = pause_of(entity) if is_draining else None
    paces = limits(entity.pair.name, entity.path) if is_draining else []
    return {
        "pause": {"queue": pause.queue, **_by_whom(pause)} if pause else None,
        "paces": [{"target": target, "messages_per_s": pace.rate, **_by_whom(pace)} for target, pace in paces],
    }


def _by_whom(of: SyphonPause | Pace) -> dict[str, str]:
    return {"by": of.by, "reason": of.reason, "at": of.at.isoformat()}


def _ledger(ledger: SyphonLedger) -> dict[str, Any]:
    return {
        "queue": ledger.queue,
        "began_at": ledger.began_at.isoformat(),
        "ended_at": ledger.ended_at.isoformat() if ledger.ended_at else None,
        "enqueued": ledger.enqueued,
        "fates": ledger.fates,
        "missing": ledger.missing,
    }


def _document(incident: Incident, drain: Drain, samples: list[Point], now: datetime) -> dict[str, Any]:
    times = ("began_at", "failed_over_at", "recovered_at", "drained_at")
    return {
        "id": incident.id,
        "pair": incident.pair,
        "entity": incident.entity,
        "reason": incident.reason,
        "forced_by": incident.forced_by,
        **{name: at.isoformat() if (at := getattr(incident, name)) else None for name in times},
        "lasted_s": (incident.ended_at(now) - incident.began_at).total_seconds(),
        "peak_messages": drain.peak,
        "waiting_messages": drain.waiting,
        "drain_rate_per_s": drain.rate,
        "events": [
            {
                "time": event.time.isoformat(),
                "kind": event.kind,
                "reason": event.reason,
                "process": event.process,
                "operator": event.operator,
            }
            for event in incident.events
        ],
        "actions": [
            {
                "time": entry.at.isoformat(),
                "operator": entry.operator,
                "verb": entry.verb,
                "target": entry.target,
                "reason": entry.reason,
                "outcome": entry.outcome,
            }
            for entry in actions_during(incident, now)
        ],
        "depth": [[at.isoformat(), waiting] for at, waiting in samples if at <= incident.ended_at(now)],
    }
