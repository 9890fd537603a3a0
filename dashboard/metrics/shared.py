"""From Redis: leases, live processes, unread reports, and delays of tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from prometheus_client import Metric

from dashboard.metrics.families import Sample, counter, gauge
from dashboard.models import Pair
from dashboard.site.redis import RedisError, connection, shared_state
from pairing.fleet.presence import Presences
from pairing.stored_json import hash_of, readable

STREAMS = ("pairing:events", "pairing:usage")
TASKS = "workers:tasks"
"""Hash in Redis: task → JSON with starts, failures, delay_s (all of them together), longest_s and at."""


GAUGES_AND_COUNTERS = {
    "lease_held": "1 for each held lease; the lease of a syphon has the name of its queue.",
    "processes": "Live processes of the fleet, by whether they send.",
    "stream_entries": "Reports of the fleet that collectors have not read yet.",
    "stream_oldest_entry_timestamp_seconds": "When the oldest unread report was sent.",
    "task_starts_total": "Tasks started by workers.",
    "task_failures_total": "Tasks that ended with an error.",
    "task_start_delay_seconds_total": "Time between the request for a task and its start, summed over all tasks.",
    "task_start_delay_longest_seconds": "The longest such delay of the last minute.",
    "task_last_start_timestamp_seconds": "When a task last started.",
}
Samples = Mapping[str, Sequence[Sample]]
"""By the name of the metric."""


def metrics(now: datetime) -> Iterator[Metric]:
    """The metrics; if Redis does not respond, the same metrics without samples, so that their names remain."""
    samples: Samples = {}
    is_up = True
    try:
        samples = {**_pairs(), **_streams(), **_tasks()}
    except RedisError:
        is_up = False
    yield gauge("redis_up", "1 if Redis responds.", [({}, is_up)])
    for name, about in GAUGES_AND_COUNTERS.items():
        family = counter if name.endswith("_total") else gauge
        yield family(name, about, samples.get(name, ()))


def _pairs() -> Samples:
    leases: list[Sample] = []
    processes: list[Sample] = []
    for pair in Pair.objects.values_list("name", flat=True):
        shared = shared_state(pair)
        leases += [({"pair": pair, "lease": name}, 1) for name in sorted(shared.leases())]
        living = Presences(shared).living().values()
        sending = sum(one.sends for one in living)
        processes.append(({"pair": pair, "sends": "true"}, sending))
        processes.append(({"pair": pair, "sends": "false"}, len(living) - sending))
    return {"lease_held": leases, "processes": processes}


def _streams() -> Samples:
    lengths: list[Sample] = []
    oldest: list[Sample] = []
    for stream in STREAMS:
        first = cast("list[Any]", connection().xrange(stream, count=1))
        lengths.append(({"stream": stream}, connection().xlen(stream)))
        if first:
            oldest.append(({"stream": stream}, int(str(first[0][0]).partition("-")[0]) / 1000))
    return {"stream_entries": lengths, "stream_oldest_entry_timestamp_seconds": oldest}


COLUMNS = {
    "task_starts_total": "starts",
    "task_failures_total": "failures",
    "task_start_delay_seconds_total": "delay_s",
    "task_start_delay_longest_seconds": "longest_s",
    "task_last_start_timestamp_seconds": "at",
}
"""The metrics of TASKS, by the name of the number there."""


def _tasks() -> Samples:
    numbers = readable(TASKS, dict(sorted(hash_of(connection(), TASKS).items())), _numbers)
    return {
        name: [({"task": task}, found.get(column, 0)) for task, found in numbers.items()]
        for name, column in COLUMNS.items()
    }


def _numbers(text: str) -> Mapping[str, float]:
    fields = json.loads(text)
    return {column: float(fields[column]) for column in COLUMNS.values() if column in fields}
