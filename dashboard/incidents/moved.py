"""The ledger of an incident: what became of the messages of its entity. A backlog queue's ledger is of all entities."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q

from dashboard.fleet.usage import metered
from dashboard.incidents.folding import Incident, depth_at
from dashboard.models import DiscardedMessage, FailoverEvent, ResubmittedMessage
from dashboard.site.charts import Point
from pairing.backlog.rotation import parse_backlog_path
from pairing.events import count_in, is_expiry

MINUTE = timedelta(minutes=1)
REPORTED = 2 * MINUTE
"""After this time, processes have reported what they have moved."""
OF_QUEUES = "/x-servicebus-transfer/"
"""Part of the path of a backlog queue."""
TAKEN_OUT = ("dead_lettered", "set_aside")
"""Events of messages that a syphon could not deliver."""
COUNTED = (*TAKEN_OUT, "expired", "resubmitted", "discarded", "of_unknown_entity")


@dataclass(frozen=True, slots=True)
class Moved:
    """The ledger of the entity: its messages that were in the backlog before, were sent to it, came home (sent to the
    primary by the syphon), could not be delivered, and still wait. Sends are metered by minute. `unexplained`: the
    difference, 0 if every message is accounted for, below 0 if more came home than were sent; null until the incident
    is over and metered. `expired`: those of `dead_lettered` whose time-to-live was over. `resubmitted`, `discarded`:
    what operators decided later about those that could not be delivered. `of_unknown_entity`: messages of the pair that
    were taken out of the backlog in this time and name no entity, or cannot be decoded; they are in no other figure.
    """

    waiting_before: int
    to_backlog: int
    to_primary: int
    dead_lettered: int
    set_aside: int
    waiting: int
    expired: int
    resubmitted: int
    discarded: int
    of_unknown_entity: int
    unexplained: int | None


def moved(incident: Incident, samples: Sequence[Point], waiting: int, now: datetime) -> Moved | None:
    """The ledger of the incident's entity, with these depths of it; None if nothing was metered."""
    ended = incident.ended_at(now)
    since, until = metered.minute_of(incident.failed_over_at), metered.minute_of(ended) + MINUTE
    which = {"pair": incident.pair, "entity": incident.entity, "kind__in": ("send_backlog", "syphon_send")}
    rows = metered.since(since, until, **which)
    if not rows:
        return None
    counts = _taken_out(incident, ended) + _decided(incident, since, until)
    for row in rows:
        counts[row["kind"]] += row["messages"]
    before = depth_at(incident.began_at - timedelta.resolution, samples)
    gone = counts["syphon_send"] + counts["dead_lettered"] + counts["set_aside"]
    is_reported = incident.is_over and now >= until + REPORTED
    return Moved(
        waiting_before=before,
        to_backlog=counts["send_backlog"],
        to_primary=counts["syphon_send"],
        waiting=waiting,
        unexplained=before + counts["send_backlog"] - gone - waiting if is_reported else None,
        **{name: counts[name] for name in COUNTED},
    )


def _taken_out(incident: Incident, ended: datetime) -> Counter[str]:
    """Messages that the syphon could not deliver, by kind of event; those of no known entity in a sum of their own."""
    which = Q(entity=incident.entity) | Q(entity__contains=OF_QUEUES)
    events = FailoverEvent.objects.filter(which, pair=incident.pair, kind__in=TAKEN_OUT)
    within = events.filter(time__range=(incident.failed_over_at, ended))
    counts = Counter[str]()
    for entity, kind, reason in within.values_list("entity", "kind", "reason"):
        if entity == incident.entity:
            counts.update({kind: count_in(reason), "expired": count_in(reason) if is_expiry(reason) else 0})
        elif parse_backlog_path(entity) is not None:
            counts["of_unknown_entity"] += count_in(reason)
    return counts


def _decided(incident: Incident, since: datetime, until: datetime) -> Counter[str]:
    """What operators decided later about its dead letters. A namespace may state as the time of a dead letter when it
    was enqueued, or when it became one: both are within these whole minutes.
    """
    which = {"job__pair__name": incident.pair, "job__path__contains": OF_QUEUES, "entity": incident.entity}
    within = {**which, "enqueued_at__gte": since, "enqueued_at__lt": until}
    resubmitted = ResubmittedMessage.objects.filter(**within).count()
    return Counter(resubmitted=resubmitted, discarded=DiscardedMessage.objects.filter(**within).count())
