"""The marks of charts: what happened to a pair or an entity, and when its backlog was drained."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from django.db.models import Q

from dashboard.fleet.state.event_lines import EventLine, together
from dashboard.models import FailoverEvent
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.site.charts import Mark, Point
from pairing.events import KINDS

MARKED = tuple(name for name, kind in KINDS.items() if kind.outage or kind.is_repeated)
"""What begins or ends an outage or a pause."""
MOST = 200


def marks_of(pairs: Iterable[str], since: datetime, until: datetime, entity: str = "") -> Mapping[str, Sequence[Mark]]:
    """The marks of each pair, or of one of its entities and of the whole pair; in one query."""
    events = FailoverEvent.objects.filter(pair__in=list(pairs), kind__in=MARKED, time__range=(since, until))
    if entity:
        events = events.filter(entity__in=(entity, WHOLE_PAIR))
    return _marks(events[:MOST], is_named=not entity)


def lately(
    since: datetime, until: datetime, pair: str = "", limit: int = 12
) -> tuple[list[EventLine], Mapping[str, Sequence[Mark]]]:
    """The newest events, of a pair or of all, and the marks of this period by pair; in one query."""
    events = FailoverEvent.objects.filter(pair=pair) if pair else FailoverEvent.objects.all()
    newest = Q(pk__in=events.values("pk")[: 4 * limit])
    found = list(events.filter(newest | Q(kind__in=MARKED, time__range=(since, until)))[:MOST])
    marked = (event for event in found if event.kind in MARKED and since <= event.time <= until)
    return together(found[: 4 * limit])[:limit], _marks(marked, is_named=True)


def _marks(events: Iterable[FailoverEvent], *, is_named: bool) -> Mapping[str, Sequence[Mark]]:
    found: dict[str, list[Mark]] = defaultdict(list)
    for line in together(events):
        event, kind = line.event, KINDS[line.event.kind]
        words = f"{kind.label} by {event.operator}" if event.operator else kind.label
        subject = event.entity if is_named and event.entity != WHOLE_PAIR else ""
        found[event.pair].append(Mark(event.time, words, kind.tone, subject, is_end=kind.outage == "ends"))
    return found


def drained_at(at: datetime) -> Mark:
    """The mark of a backlog that was seen to be empty."""
    return Mark(at, "Drained", "healthy")


def with_drained(marks: Iterable[Mark], points: Sequence[Point]) -> list[Mark]:
    """The marks, and when the backlog was first seen to be empty after each recovery."""
    known = list(marks)
    recovered = [mark.at for mark in known if mark.is_end]
    emptied = {next((at for at, value in points if at >= since and not value), None) for since in recovered}
    return [*known, *(drained_at(at) for at in emptied if at is not None and _held_some(points, at))]


def _held_some(points: Sequence[Point], emptied: datetime) -> bool:
    """Whether there was something to drain: the value before is not zero."""
    before = [value for at, value in points if at < emptied]
    return bool(before) and before[-1] > 0
