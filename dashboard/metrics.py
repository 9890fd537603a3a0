"""The control plane's numbers in the text format of Prometheus."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from django.db.models import Count

from dashboard.models import BacklogQueue, EntityHealth, FailoverEvent, Heartbeat, SyphonPause

STATES = ("unknown", "healthy", "failing", "failed_over")
Sample = tuple[dict[str, str], float]


def exposition(now: datetime) -> str:
    """All metrics at this moment."""
    return "".join(_lines(now))


def _lines(now: datetime) -> Iterator[str]:
    yield from _metric("entity_state", "1 for the state an entity is in.", "gauge", _states())
    yield from _metric("entity_waiting_messages", "Messages for the entity in the backlog.", "gauge", _waiting())
    yield from _metric("backlog_messages", "Messages in a backlog queue.", "gauge", _backlog())
    yield from _metric("backlog_size_bytes", "Size of a backlog queue.", "gauge", _sizes())
    yield from _metric("failover_events_total", "Events stored, by kind.", "counter", _events())
    yield from _metric("syphon_paused", "1 while an operator's pause stands.", "gauge", _pauses())
    yield from _metric("worker_heartbeat_age_seconds", "Since a worker was last heard of.", "gauge", _ages(now))


def _metric(name: str, about: str, kind: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP paired_{name} {about}\n# TYPE paired_{name} {kind}\n"
    for labels, value in samples:
        inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"paired_{name}{{{inner}}} {value:g}\n" if inner else f"paired_{name} {value:g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _states() -> Iterator[Sample]:
    for pair, path, state in EntityHealth.objects.values_list("pair__name", "path", "state"):
        for known in STATES:
            yield {"pair": pair, "entity": path, "state": known}, float(known == state)


def _waiting() -> Iterator[Sample]:
    rows = EntityHealth.objects.filter(waiting__isnull=False).values_list("pair__name", "path", "waiting")
    return (({"pair": pair, "entity": path}, waiting or 0) for pair, path, waiting in rows)


def _backlog() -> Iterator[Sample]:
    for queue in BacklogQueue.objects.filter(is_gone=False).select_related("pair"):
        for state in ("active", "scheduled", "dead_lettered"):
            yield {"pair": queue.pair.name, "queue": queue.path, "state": state}, getattr(queue, state)


def _sizes() -> Iterator[Sample]:
    rows = BacklogQueue.objects.filter(is_gone=False).values_list("pair__name", "path", "size_bytes")
    return (({"pair": pair, "queue": path}, size) for pair, path, size in rows)


def _events() -> Iterator[Sample]:
    rows = FailoverEvent.objects.order_by().values_list("pair", "kind").annotate(count=Count("pk"))
    return (({"pair": pair, "kind": kind}, count) for pair, kind, count in rows)


def _pauses() -> Iterator[Sample]:
    rows = SyphonPause.objects.values_list("pair__name", "queue")
    return (({"pair": pair, "queue": queue}, 1) for pair, queue in rows)


def _ages(now: datetime) -> Iterator[Sample]:
    for beat in Heartbeat.objects.all():
        yield {"process": beat.process, "role": beat.role}, (now - beat.seen_at).total_seconds()
