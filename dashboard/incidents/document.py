"""One incident as data, for the API and its file: a ticket, or a post-mortem."""

from typing import Any

from dashboard.fleet.state.paces import limits
from dashboard.incidents.story import Story, pause_of, story
from pairing.fleet.shared_health import Pace

SUMMARY = (
    *("id", "pair", "entity", "reason", "forced_by"),
    *("began_at", "failed_over_at", "recovered_at", "drained_at"),
)


def document(pair: str, event_id: str) -> dict[str, Any]:
    """The incident that an event belongs to. Raises Http404."""
    return document_of(story(pair, event_id))


def document_of(found: Story) -> dict[str, Any]:
    """The values of `IncidentStory` in `api`, some of them as rows of the database."""
    incident = found.incident
    is_draining = incident.recovered_at is not None and not incident.is_over
    paces = limits(incident.pair, incident.entity) if is_draining else []
    return {
        **{name: getattr(incident, name) for name in SUMMARY},
        "lasted_s": found.lasted.total_seconds(),
        "peak_messages": found.drain.peak,
        "waiting_messages": found.drain.waiting,
        "drain_rate_per_s": found.drain.rate,
        "events": incident.events,
        "actions": found.actions,
        "pings": found.pings,
        "pause": pause_of(found.entity) if is_draining else None,
        "paces": [_limit(target, pace) for target, pace in paces],
        "moved": found.moved,
        "ledgers": found.ledgers,
        "cost": found.cost.as_json() if found.cost else None,
        "depth": [(at, waiting) for at, waiting in found.samples if at <= found.ended_at],
    }


def _limit(target: str, pace: Pace) -> dict[str, Any]:
    return {"target": target, "messages_per_s": pace.rate, "by": pace.by, "reason": pace.reason, "at": pace.at}
