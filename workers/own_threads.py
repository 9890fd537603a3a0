"""Threads that a worker starts beside its tasks, and that may use the database.

Celery closes the connection of a thread after each task. That of a thread which ends stays open until the garbage
collector finds it: in a long outage, each ping would leave one behind.
"""

import threading
from collections.abc import Callable

import structlog
from django.db import connections

from dashboard.site.database import AWAY
from workers.ticks import line_of

log = structlog.get_logger(__name__)


def start(name: str, body: Callable[[str], object], pair: str) -> threading.Thread:
    """Start a thread that calls the body for the pair, and closes its connections to the database in the end.

    An outage of the database ends it with one line in the log.
    """

    def run() -> None:
        try:
            body(pair)
        except AWAY as error:
            log.warning("the database does not answer", thread=name, pair=pair, problem=line_of(error))
        finally:
            connections.close_all()

    thread = threading.Thread(target=run, name=f"{name}-{pair}", daemon=True)
    thread.start()
    return thread
