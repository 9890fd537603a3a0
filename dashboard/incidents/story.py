"""Everything that is known of one incident, read once: for its page, its files and the API."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from django.db.models import Q
from django.utils import timezone

from dashboard.access import registry
from dashboard.actions.entities import SEPARATOR
from dashboard.fleet.state.event_lines import together
from dashboard.fleet.state.ledgers import during
from dashboard.incidents.cost import Cost, cost_of
from dashboard.incidents.finding import MOST_EVENTS, find
from dashboard.incidents.folding import Drain, Incident, drain
from dashboard.incidents.moved import Moved, moved
from dashboard.incidents.timeline import Moment, timeline
from dashboard.models import AuditEntry, EntityHealth, FailoverEvent, SyphonLedger, SyphonPause
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.site.charts import Point
from pairing.backlog.rotation import parse_backlog_path

ENTRY_TO_EVENT = PING_TO_RECOVERY = timedelta(seconds=5)
"""Maximum time between the audit entry of an action and the event of the failover that it forced."""
OF_QUEUES = ("queue_pulled", "queue_returned", "capacity_warning", "dead_lettered", "set_aside", "ledger_unbalanced")
"""Events of backlog queues that belong to the history of an incident; starts and stops of syphons do not."""


@dataclass(frozen=True)
class Story:
    """One incident as it is known at `now`."""

    entity: EntityHealth
    incident: Incident
    samples: Sequence[Point]
    now: datetime

    @property
    def ended_at(self) -> datetime:
        return self.incident.ended_at(self.now)

    @property
    def lasted(self) -> timedelta:
        return self.ended_at - self.incident.began_at

    @cached_property
    def drain(self) -> Drain:
        return drain(self.incident, self.samples, self.now)

    @cached_property
    def moved(self) -> Moved | None:
        """The ledger of the entity."""
        return moved(self.incident, self.samples, self.drain.waiting, self.now)

    @cached_property
    def cost(self) -> Cost | None:
        return cost_of(self.incident, self.drain, self.moved, self.now)

    @cached_property
    def ledgers(self) -> list[SyphonLedger]:
        return list(during(self.entity.pair, self.incident.began_at, self.ended_at))

    @cached_property
    def pings(self) -> dict[str, Any]:
        """The pings of this failover as metered, and its last one unless later failovers had some."""
        entity, ended = self.entity, self.incident.recovered_at or self.now
        count, last_at = self.cost.units.get("ping", 0) if self.cost else 0, entity.last_ping_at
        if last_at is None or not self.incident.failed_over_at <= last_at <= ended + PING_TO_RECOVERY:
            return {"count": count, "last_at": None, "accepted": None, "reason": ""}
        answer = {"accepted": entity.last_ping_accepted, "reason": entity.last_ping_reason}
        return {"count": count, "last_at": last_at, **answer}

    @cached_property
    def actions(self) -> list[AuditEntry]:
        """Actions of operators on the entity or the whole pair during the incident."""
        since = self.incident.began_at - (ENTRY_TO_EVENT if self.incident.forced_by else timedelta())
        entries = AuditEntry.objects.filter(pair=self.incident.pair, at__range=(since, self.ended_at)).order_by("at")
        meant = {self.incident.entity, WHOLE_PAIR}
        return [entry for entry in entries[:MOST_EVENTS] if meant & set(entry.target.split(SEPARATOR))]

    @cached_property
    def timeline(self) -> list[Moment]:
        """Events of the entity and of the pair, actions and depth, oldest first."""
        events = {event.event_id: event for event in (*self.incident.events, *self._of_pair())}
        newest_first = sorted(events.values(), key=lambda event: event.time, reverse=True)
        event_of = {name: action.event for name, action in registry.actions().items()}
        return timeline(self.incident, together(newest_first), self.actions, self.samples, event_of)

    def _of_pair(self) -> list[FailoverEvent]:
        """Events of the whole pair and of its backlog queues during the incident."""
        which = Q(entity=WHOLE_PAIR) | Q(kind__in=OF_QUEUES)
        between = (self.incident.began_at, self.ended_at)
        found = FailoverEvent.objects.filter(which, pair=self.incident.pair, time__range=between)
        return list(found.order_by("time", "id")[:MOST_EVENTS])


def story(pair: str, event_id: str) -> Story:
    """The incident that an event belongs to. Raises Http404."""
    found = find(pair, event_id)
    return Story(found.entity, found.incident, found.samples, timezone.now())


def pause_of(entity: EntityHealth) -> SyphonPause | None:
    """The pauses that stop its drain: of the pair, of the entity, or of queues that may hold its messages."""
    pauses = {pause.queue: pause for pause in entity.pair.pauses.all()}
    others = (pauses[queue] for queue in sorted(pauses) if parse_backlog_path(queue) is not None)
    return pauses.get(WHOLE_PAIR) or pauses.get(entity.path) or next(others, None)
