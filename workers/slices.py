"""Tasks that loop: one of a kind per process, for a slice of time, ended at once when the worker shuts down."""

import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from celery.signals import worker_shutting_down

PLACES = {"errands": 6}  # of a worker's threads: drains and dead letters may be many, and pings must not wait for them
_running: dict[str, threading.Event] = {}
_taken: Counter[str] = Counter()
_lock = threading.Lock()
_shutting_down = threading.Event()

PROCESS = f"{socket.gethostname()}:{os.getpid()}"


@worker_shutting_down.connect
def stop_all(**_: Any) -> None:
    """Ends every slice of this process, and lets no new one begin."""
    _shutting_down.set()
    with _lock:
        for stop in _running.values():
            stop.set()


@contextmanager
def slice_of(name: str, limit_s: float = threading.TIMEOUT_MAX, *, room: str = "") -> Iterator[threading.Event | None]:
    """An event that is set when the slice is over; None where this process is in one of that name already.

    A room has PLACES: where all are taken it is None as well.
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
    """For tasks: the body gets the slice's stop event, and is skipped where this process is still in the last one."""

    def decorate(body: Callable[[threading.Event], None]) -> Callable[[], None]:
        def task() -> None:
            with slice_of(name, limit_s) as stop:
                if stop is not None:
                    body(stop)

        task.__name__, task.__doc__, task.__module__ = body.__name__, body.__doc__, body.__module__
        return task

    return decorate
