"""Tasks that loop: one per name and process, for a slice of time, ended immediately when the worker shuts down."""

import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from celery.signals import worker_shutting_down
from django.db import connections

from dashboard.site.database import AWAY
from workers.worker import line_of

log = structlog.get_logger(__name__)
PLACES = {"errands": 6}  # limit of a worker's threads: many drains and dead-letter jobs must not delay pings
_running: dict[str, threading.Event] = {}
_taken: Counter[str] = Counter()
_lock = threading.Lock()
_shutting_down = threading.Event()

PROCESS = f"{socket.gethostname()}:{os.getpid()}"


@worker_shutting_down.connect
def stop_all(**_: Any) -> None:
    """End all slices of this process, and prevent new ones."""
    _shutting_down.set()
    with _lock:
        for stop in _running.values():
            stop.set()


@contextmanager
def slice_of(name: str, limit_s: float = threading.TIMEOUT_MAX, *, room: str = "") -> Iterator[threading.Event | None]:
    """An event that is set when the slice is over; None if a slice of this name is running in this process.

    Also None if all PLACES of the room are taken.
    """
    stop = threading.Event()
    with _lock:
        taken = name in _running or _shutting_down.is_set() or (room in PLACES and _taken[room] >= PLACES[room])
        if not taken:
            _running[name] = stop
            _taken[room] += 1
    if taken:
        yield None
        return
    timer = threading.Timer(limit_s, stop.set)
    timer.daemon = True
    timer.start()
    try:
        yield stop
    finally:
        timer.cancel()
        with _lock:
            del _running[name]
            _taken[room] -= 1


def one_at_a_time(name: str, limit_s: float) -> Callable[[Callable[[threading.Event], None]], Callable[[], None]]:
    """Decorator of tasks: passes the slice's stop event; skipped while the previous slice is running."""

    def decorate(body: Callable[[threading.Event], None]) -> Callable[[], None]:
        def task() -> None:
            with slice_of(name, limit_s) as stop:
                if stop is not None:
                    body(stop)

        task.__name__, task.__doc__, task.__module__ = body.__name__, body.__doc__, body.__module__
        return task

    return decorate


def start_thread(name: str, body: Callable[[str], object], pair: str) -> threading.Thread:
    """Start a thread beside the tasks that calls the body for the pair, and closes its connections to the database.

    Celery does that after each task. The connection of a thread that ends would stay open until it is collected.

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
