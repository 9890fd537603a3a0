"""Pairs, entities, backlog and syphons, from the database."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, Max, Min, Q, QuerySet, Sum, Value
from prometheus_client import Metric

from dashboard.fleet.state import counters
from dashboard.metrics.families import Sample, counter, each, gauge, moment
from dashboard.models import BacklogQueue, EntityHealth, Heartbeat, Pair, Readiness, SyphonPause

STATES = ("unknown", "healthy", "failing", "failed_over")
MOST_LISTED = 500
"""The number of entities that are listed individually; others are only counted."""
OVERDUE = timedelta(seconds=30)
IN_FILE = {"is_configured": True}
OF_PAIR_IN_FILE = {"pair__is_configured": True}
"""Nothing looks at a pair that the pairs file no longer contains: its last known state is on the pages, not here."""


def metrics(now: datetime) -> Iterator[Metric]:
    """Entities, backlog queues, pings and syphons of each pair, and workers."""
    yield gauge("entities", "Entities of a pair in a state.", _states())
    yield gauge(
        "entity_not_healthy_since_timestamp_seconds",
        f"When an entity started failing or failed over; at most {MOST_LISTED}.",
        _not_healthy(),
    )
    yield gauge(
        "entity_waiting_messages",
        f"Messages for the entity in the backlog, if there are any; at most {MOST_LISTED}.",
        _waiting(),
    )
    yield gauge("backlog_messages", "Messages in a backlog queue.", _backlog())
    yield gauge("backlog_size_bytes", "Size of a backlog queue.", _queues("size_bytes"))
    yield gauge("backlog_size_limit_bytes", "Size limit of a backlog queue.", _queues("max_size_bytes"))
    yield gauge(
        "backlog_oldest_message_timestamp_seconds", "Enqueue time of the oldest message in the backlog.", _oldest()
    )
    yield gauge("backlog_sampled_timestamp_seconds", "When the backlog was last sampled.", _sampled())
    yield counter(counters.EVENTS.name, "Events stored, by kind.", each(counters.EVENTS.totals(), "pair", "kind"))
    pings = ((pair, count) for pair, _, count in counters.PINGS.totals())
    yield counter(counters.PINGS.name, "Pings of failed-over entities.", each(pings, "pair"))
    yield gauge("pings_overdue", "Failed-over entities whose ping is overdue.", _overdue(now))
    yield gauge("syphon_paused", "1 while an operator has paused it.", _pauses())
    about = "Messages drained or removed from backlog queues, all outcomes."
    yield counter(counters.HOME.name, about, each(counters.HOME.totals(), "pair", "queue"))
    yield gauge("syphon_missing_messages", "Messages unaccounted for in ledgers closed within a day.", _missing(now))
    yield gauge("readiness_score", "The lowest readiness of an entity, 0 to 100.", _readiness())
    yield gauge("worker_heartbeat_age_seconds", "Seconds since the last heartbeat of a worker.", _ages(now))
    if settings.SIMULATED_UNTIL:
        about = "The end of the simulated history, which counters include. In the demo only."
        yield gauge("simulated_until_timestamp_seconds", about, [({}, moment(settings.SIMULATED_UNTIL))])


def _states() -> Iterator[Sample]:
    counted = EntityHealth.objects.present().order_by().values_list("pair__name", "state").annotate(count=Count("pk"))
    found = {(pair, state): count for pair, state, count in counted}
    for pair in Pair.objects.filter(**IN_FILE).values_list("name", flat=True):
        for state in STATES:
            yield {"pair": pair, "state": state}, found.get((pair, state), 0)


def _not_healthy() -> Iterator[Sample]:
    rows = EntityHealth.objects.filter(rank__lte=1, **OF_PAIR_IN_FILE).order_by("rank", "pair", "path")
    columns = ("pair__name", "path", "state", "held_by", "since")
    for pair, path, state, held_by, since in rows.values_list(*columns)[:MOST_LISTED]:
        held = "true" if held_by else "false"
        yield {"pair": pair, "entity": path, "state": state, "held": held}, moment(since)


def _waiting() -> Iterator[Sample]:
    rows = EntityHealth.objects.filter(waiting__gt=0, **OF_PAIR_IN_FILE).order_by("-waiting", "path")
    return each(rows.values_list("pair__name", "path", "waiting")[:MOST_LISTED], "pair", "entity")


def _backlog() -> Iterator[Sample]:
    columns = ("active", "scheduled", "dead_lettered")
    rows = _present_queues().values_list("pair__name", "path", *columns)
    for pair, path, *counts in rows:
        for state, count in zip(columns, counts, strict=True):
            yield {"pair": pair, "queue": path, "state": state}, count


def _present_queues() -> QuerySet[BacklogQueue]:
    return BacklogQueue.objects.filter(is_gone=False, **OF_PAIR_IN_FILE).order_by()


def _queues(column: str) -> Iterator[Sample]:
    return each(_present_queues().values_list("pair__name", "path", column), "pair", "queue")


def _oldest() -> Iterator[Sample]:
    rows = EntityHealth.objects.filter(oldest_waiting_at__isnull=False, **OF_PAIR_IN_FILE).order_by()
    return each(rows.values_list("pair__name").annotate(at=Min("oldest_waiting_at")), "pair")


def _sampled() -> Iterator[Sample]:
    rows = BacklogQueue.objects.filter(**OF_PAIR_IN_FILE).order_by()
    return each(rows.values_list("pair__name").annotate(at=Max("seen_at")), "pair")


def _overdue(now: datetime) -> Iterator[Sample]:
    late = Q(entities__state="failed_over", entities__next_ping_at__lt=now - OVERDUE)
    rows = Pair.objects.filter(**IN_FILE).order_by()
    return each(rows.values_list("name").annotate(count=Count("entities", filter=late)), "pair")


def _pauses() -> Iterator[Sample]:
    rows = SyphonPause.objects.filter(**OF_PAIR_IN_FILE)
    return each(rows.values_list("pair__name", "queue", Value(1)), "pair", "queue")


def _missing(now: datetime) -> Iterator[Sample]:
    """The number per pair; 0 if all messages are accounted for."""
    recent = Q(ledgers__missing__gt=0, ledgers__ended_at__gt=now - timedelta(days=1))
    rows = Pair.objects.filter(**IN_FILE).order_by()
    return each(rows.values_list("name").annotate(count=Sum("ledgers__missing", filter=recent, default=0)), "pair")


def _readiness() -> Iterator[Sample]:
    rows = Readiness.objects.filter(**OF_PAIR_IN_FILE).order_by()
    return each(rows.values_list("pair__name").annotate(lowest=Min("score")), "pair")


def _ages(now: datetime) -> Iterator[Sample]:
    for beat in Heartbeat.objects.all():
        yield {"process": beat.process, "role": beat.role}, (now - beat.seen_at).total_seconds()
