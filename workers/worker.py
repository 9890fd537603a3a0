"""What a worker is made of: what it checks first, its pool of threads, its tasks, and its export of traces."""

import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import structlog
from celery import Task
from celery.concurrency.thread import TaskPool
from celery.loaders.app import AppLoader
from celery.signals import celeryd_init, worker_init, worker_shutdown
from django.core.exceptions import ImproperlyConfigured
from kombu.exceptions import OperationalError as BrokerError

from dashboard.fleet.pairs.pairs_file import load_pairs, require_connection_strings
from dashboard.site.database import AWAY
from dashboard.site.redis import RedisError
from pairing.telemetry import exporting
from workers.broker import QUEUES

log = structlog.get_logger(__name__)
NAME = "paired-namespaces-workers"


class Loader(AppLoader):
    """Ends a worker with one sentence if PAIRS_FILE or a connection string cannot be read; others are not asked.

    This is done before Celery loads all tasks and Django all pages, which takes seconds of processor time.
    """

    def init_worker(self) -> None:
        """Called by a worker before anything else; by beat never."""
        try:
            require_connection_strings(load_pairs().values())
        except ImproperlyConfigured as error:
            sys.exit(f"error: {error}")
        super().init_worker()


@celeryd_init.connect
def require_known_queues(options: Mapping[str, Any], **_: object) -> None:
    """Prevent the start of a worker for a queue that nobody fills: Celery would make it."""
    named = [*(options.get("queues") or ()), *(options.get("exclude_queues") or ())]
    if unknown := [name for name in named if name not in QUEUES]:
        sys.exit(f"error: There is no queue {unknown[0]!r}: workers serve {', '.join(QUEUES)}.")


class Threads(TaskPool):
    """Celery's pool of threads, full when it starts.

    Celery starts a thread only when more tasks run at one time than ever before: the threads of a worker, with their
    connections, would increase for hours, and in the busiest moment of an outage.
    """

    executor: ThreadPoolExecutor
    """Celery's, which its types leave out."""

    def on_start(self) -> None:
        """A thread is started for each of these calls, since none of the others is idle meanwhile."""
        all_started = Event()
        for _ in range(self.limit):
            self.executor.submit(all_started.wait)
        all_started.set()


class Tick(Task):  # type: ignore[type-arg]  # generic for type checkers only
    """A periodic task: an outage of Redis or the database is one line in the log, and the next tick tries again."""

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except (RedisError, BrokerError) as error:  # the second one: where a task starts another
            log.warning("Redis does not answer", task=self.name, problem=line_of(error))
        except AWAY as error:
            log.warning("the database does not answer", task=self.name, problem=line_of(error))
        return None


def line_of(error: Exception) -> str:
    """What an error says, on one line."""
    return " ".join(str(error).split())[:500]


@worker_init.connect
def begin(**_: Any) -> None:
    """Called once before the first task."""
    exporting.begin(NAME)


@worker_shutdown.connect
def end(**_: Any) -> None:
    """The last tasks have ended."""
    exporting.end()
