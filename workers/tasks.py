"""Delays and failures of tasks: counted in the process, added to Redis with each heartbeat.

Log lines of a task carry its id and name. A killed worker loses the counts of its last two seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import redis
import structlog
from celery.signals import before_task_publish, heartbeat_sent, task_failure, task_postrun, task_prerun

from dashboard.metrics.shared import TASKS
from dashboard.site.redis import RedisError, connection
from pairing.fleet.access import script

SENT_AT = "sent_at"
FRESH_S = 60.0
_ADD = script("workers", "add_task_counts")


@dataclass(slots=True)
class Count:
    """The counts of one task since the last heartbeat."""

    starts: int = 0
    failures: int = 0
    delay_s: float = 0.0
    longest_s: float = 0.0
    at: float = 0.0


_counts: dict[str, Count] = {}
_lock = threading.Lock()


@before_task_publish.connect
def stamp(headers: Any, **_: Any) -> None:
    """Add the time of the request to a task's headers."""
    headers[SENT_AT] = time.time()


@task_prerun.connect
def begin(task_id: str = "", task: Any = None, **_: Any) -> None:
    """Counts a start and its delay, and names the task in the log."""
    structlog.contextvars.bind_contextvars(task_id=task_id, task=task.name)
    delay_s = waited(vars(task.request), time.time())
    count({task.name: Count(starts=1, delay_s=delay_s, longest_s=delay_s, at=time.time())})


@task_postrun.connect
def end(**_: Any) -> None:
    """Clear the task from the log context of the thread."""
    structlog.contextvars.unbind_contextvars("task_id", "task")


@task_failure.connect
def fail(sender: Any = None, **_: Any) -> None:
    """Counts a task that ended with an error."""
    count({sender.name: Count(failures=1)})


def waited(request: Mapping[str, Any], now: float) -> float:
    """Seconds since the task was requested; 0 if unknown, and never negative despite clock skew."""
    return max(0.0, now - float(request.get(SENT_AT, now)))


def count(more: Mapping[str, Count]) -> None:
    """Add these counts to those since the last heartbeat."""
    with _lock:
        for task, one in more.items():
            known = _counts.setdefault(task, Count())
            known.starts += one.starts
            known.failures += one.failures
            known.delay_s += one.delay_s
            known.longest_s = max(known.longest_s, one.longest_s)
            known.at = max(known.at, one.at)


@heartbeat_sent.connect
def report(**_: Any) -> None:
    """Add the counts to those of all workers; if Redis is unavailable, keep them for the next heartbeat."""
    with _lock:
        counts = dict(_counts)
        _counts.clear()
    try:
        add(connection(), counts)
    except RedisError:
        count(counts)


def add(client: redis.Redis, counts: Mapping[str, Count]) -> None:
    """Adds counts to the fleet's. Raises redis errors."""
    if not counts:
        return
    with client.pipeline(transaction=True) as pipe:
        for task, one in counts.items():
            numbers = (one.starts, one.failures, one.delay_s, one.longest_s, one.at or time.time(), FRESH_S)
            cast("Any", pipe).eval(_ADD, 1, TASKS, task, *numbers)
        pipe.execute()
