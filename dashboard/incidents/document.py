"""One incident as JSON, for a ticket, a post-mortem, or the API."""

from typing import Any

from dashboard.fleet.state.paces import limits
from dashboard.incidents.folding import Incident
from dashboard.incidents.story import Story, pause_of, story
from dashboard.models import EntityHealth, SyphonLedger, SyphonPause
from pairing.fleet.shared_health import Pace


def document(pair: str, event_id: str) -> dict[str, Any]:
    """The incident that an event belongs to, as JSON. Raises Http404."""
    return document_of(story(pair, event_id))


def document_of(found: Story) -> dict[str, Any]:
    """An incident as JSON."""
    return {
        **_summary(found),
        **_slowed(found.entity, found.incident),
        "cost": found.cost.as_json() if found.cost else None,
        "pings": found.pings,
        "moved": found.moved.as_json() if found.moved else None,
        "ledgers": [_ledger(one) for one in found.ledgers],
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


def _summary(found: Story) -> dict[str, Any]:
    incident = found.incident
    times = ("began_at", "failed_over_at", "recovered_at", "drained_at")
    return {
        "id": incident.id,
        "pair": incident.pair,
        "entity": incident.entity,
        "reason": incident.reason,
        "forced_by": incident.forced_by,
        **{name: at.isoformat() if (at := getattr(incident, name)) else None for name in times},
        "lasted_s": found.lasted.total_seconds(),
        "peak_messages": found.drain.peak,
        "waiting_messages": found.drain.waiting,
        "drain_rate_per_s": found.drain.rate,
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
            for entry in found.actions
        ],
        "depth": [[at.isoformat(), waiting] for at, waiting in found.samples if at <= found.ended_at],
    }
