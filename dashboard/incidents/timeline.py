"""The timeline of an incident: events, what operators did, and the depth of its backlog, in one order. Pure.

An operator's action is recorded twice: in the audit trail when it is requested, and as an event when the fleet has
carried it out. The timeline has it once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.fleet.state.event_lines import EventLine, plain_cause
from dashboard.incidents.folding import Incident, depth_at
from dashboard.models import AuditEntry
from dashboard.site.charts import Point

SAME_ACTION = timedelta(seconds=5)
"""At most so far apart are the audit entry of an action and its event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One line. `kind` is that of an event, or else empty; `verb` is that of an action, or else empty."""

    at: datetime
    waiting: int
    """Messages for the entity in the backlog at this time, by the last sample."""
    kind: str = ""
    verb: str = ""
    words: str = ""
    """What is neither an event nor an action."""
    about: str = ""
    """The queue, or `*` for the whole pair; empty for the entity itself."""
    by: str = ""
    reason: str = ""
    outcome: str = ""
    """Of an action that was not simply done."""
    detail: str = ""
    """The rate that a pace has set, or the new end of a hold."""
    often: str = ""
    """In how many processes, or how many times."""

    @property
    def cause(self) -> str:
        """The cause of a failure in a few words; empty for what a person did, and for other reasons."""
        return "" if self.by else plain_cause(self.reason, self.kind)


def timeline(
    incident: Incident,
    events: Iterable[EventLine],
    actions: Iterable[AuditEntry],
    samples: Sequence[Point],
    event_of: Mapping[str, str],
) -> list[Moment]:
    """The lines, oldest first. `event_of`: the kind of event that an action records, by the action's name."""
    reported = list(events)
    found = [_of_event(incident, line, samples) for line in reported]
    found += [
        _of_action(incident, entry, samples)
        for entry in actions
        if not any(_is_same(entry, line, event_of.get(entry.verb, "")) for line in reported)
    ]
    found += _of_depth(incident, samples)
    return sorted(found, key=lambda one: one.at)


def _is_same(entry: AuditEntry, line: EventLine, kind: str) -> bool:
    event = line.event
    is_of_action = bool(kind) and event.kind == kind and event.operator == entry.operator
    return is_of_action and entry.outcome == "done" and abs(event.time - entry.at) <= SAME_ACTION


def _of_event(incident: Incident, line: EventLine, samples: Sequence[Point]) -> Moment:
    event = line.event
    return Moment(
        at=event.time,
        waiting=depth_at(event.time, samples),
        kind=event.kind,
        about="" if event.entity == incident.entity else event.entity,
        by=event.operator or "",
        reason=event.reason,
        often=line.often,
    )


def _of_action(incident: Incident, entry: AuditEntry, samples: Sequence[Point]) -> Moment:
    return Moment(
        at=entry.at,
        waiting=depth_at(entry.at, samples),
        verb=entry.verb,
        about="" if entry.target == incident.entity else entry.target,
        by=entry.operator,
        reason=entry.reason,
        outcome="" if entry.outcome == "done" else entry.outcome or "outcome unknown",
        detail=entry.what_it_set,
    )


def _of_depth(incident: Incident, samples: Sequence[Point]) -> list[Moment]:
    """The first message in the backlog, the most of them, and the backlog seen to be empty."""
    end = incident.drained_at
    within = [(at, n) for at, n in samples if at >= incident.began_at and (end is None or at <= end)]
    waiting = [(at, n) for at, n in within if n]
    found = []
    if waiting:
        (first, few), (most_at, most) = waiting[0], max(waiting, key=lambda point: point[1])
        if first != most_at:
            found.append(Moment(at=first, waiting=few, words="First messages seen in the backlog"))
        found.append(Moment(at=most_at, waiting=most, words="Most messages in the backlog"))
    if end is not None:
        found.append(Moment(at=end, waiting=0, words="Backlog seen to be empty"))
    return found
