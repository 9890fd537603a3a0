"""The pool of a worker's tasks: threads, all of them there from its start.

Threads, because looping tasks then receive worker_shutting_down immediately. From the start, because Celery's pool
starts a thread only when more tasks run at one time than ever before: the number of threads of a worker, with their
connections, would rise for hours, and in the busiest moment of an outage.
"""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

from celery.concurrency.thread import TaskPool


class Threads(TaskPool):
    """Celery's pool of threads, full when it starts."""

    executor: ThreadPoolExecutor
    """Celery's, which its types leave out."""

    def on_start(self) -> None:
        """A thread is started for each of these calls, since none of the others is idle meanwhile."""
        all_started = Event()
        for _ in range(self.limit):
            self.executor.submit(all_started.wait)
        all_started.set()
