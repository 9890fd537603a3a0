"""What only Redis knows: leases, living processes, reports on their way, and how late tasks start."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, cast

from dashboard.metrics.text import Metric, Sample
from dashboard.models import Pair
from dashboard.site.redis import RedisError, connection, shared_state
from pairing.fleet.presence import Presences

STREAMS = ("pairing:events", "pairing:usage")
TASKS = "workers:tasks"
"""Hash in Redis: task → JSON with starts, failures, delay_s (all of them together), longest_s and at."""


def metrics(now: datetime) -> Iterator[Metric]:
    """What Redis tells; where it is away, that it is."""
    try:
        found = [*_pairs(), *_streams(), *_tasks()]
    except RedisError:
        found = []
        is_up = 0.0
    else:
        is_up = 1.0
    yield Metric("redis_up", "1 where Redis answers.", "gauge", [({}, is_up)])
    yield from found or _nothing()


def _pairs() -> Iterator[Metric]:
    leases: list[Sample] = []
    processes: list[Sample] = []
    for pair in Pair.objects.values_list("name", flat=True):
        shared = shared_state(pair)
        leases += [({"pair": pair, "lease": name}, 1) for name in sorted(shared.leases())]
        living = Presences(shared).living().values()
        sending = sum(one.sends for one in living)
        processes.append(({"pair": pair, "sends": "true"}, sending))
        processes.append(({"pair": pair, "sends": "false"}, len(living) - sending))
    yield Metric("lease_held", LEASE, "gauge", leases)
    yield Metric("processes", PROCESSES, "gauge", processes)


LEASE = "1 for a lease somebody holds: a syphon's is named like its queue."
PROCESSES = "Living processes of the fleet, by whether they send."
ENTRIES = "Reports of the fleet that the collectors have still to take."
OLDEST = "When the oldest of those was told."
STARTS = "Tasks that workers began."
FAILURES = "Tasks that ended with an error."
DELAY = "Time between the wish for a task and its start, of all tasks together."
LONGEST = "The longest such delay of the last minute."
LAST = "When a task last began."


def _streams() -> Iterator[Metric]:
    lengths: list[Sample] = []
    oldest: list[Sample] = []
    for stream in STREAMS:
        first = cast("list[Any]", connection().xrange(stream, count=1))
        lengths.append(({"stream": stream}, connection().xlen(stream)))
        if first:
            oldest.append(({"stream": stream}, int(str(first[0][0]).partition("-")[0]) / 1000))
    yield Metric("stream_entries", ENTRIES, "gauge", lengths)
    yield Metric("stream_oldest_entry_timestamp_seconds", OLDEST, "gauge", oldest)


def _tasks() -> Iterator[Metric]:
    told = cast("dict[str, str]", connection().hgetall(TASKS))
    known = {task: _numbers(text) for task, text in sorted(told.items())}

    def samples(name: str) -> list[Sample]:
        return [({"task": task}, numbers.get(name, 0)) for task, numbers in known.items()]

    yield Metric("task_starts_total", STARTS, "counter", samples("starts"))
    yield Metric("task_failures_total", FAILURES, "counter", samples("failures"))
    yield Metric("task_start_delay_seconds_total", DELAY, "counter", samples("delay_s"))
    yield Metric("task_start_delay_longest_seconds", LONGEST, "gauge", samples("longest_s"))
    yield Metric("task_last_start_timestamp_seconds", LAST, "gauge", samples("at"))


def _numbers(text: str) -> Mapping[str, float]:
    try:
        told = json.loads(text)
        return {str(name): float(value) for name, value in told.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _nothing() -> Iterator[Metric]:
    """The same metrics without a sample: a name that comes and goes is told all the same."""
    for name, about, kind in (
        ("lease_held", LEASE, "gauge"),
        ("processes", PROCESSES, "gauge"),
        ("stream_entries", ENTRIES, "gauge"),
        ("stream_oldest_entry_timestamp_seconds", OLDEST, "gauge"),
        ("task_starts_total", STARTS, "counter"),
        ("task_failures_total", FAILURES, "counter"),
        ("task_start_delay_seconds_total", DELAY, "counter"),
        ("task_start_delay_longest_seconds", LONGEST, "gauge"),
        ("task_last_start_timestamp_seconds", LAST, "gauge"),
    ):
        yield Metric(name, about, cast("Any", kind), [])
