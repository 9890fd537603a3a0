"""The runtime of blocking clients: every call blocks, and workers are threads."""

import threading
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from pairing.backlog.administration import listed
from pairing.clock import joined
from pairing.drive import Operation, run

R = TypeVar("R")
P = ParamSpec("P")


class Threads:
    """Execution by threads."""

    event = staticmethod(threading.Event)
    lock = staticmethod(threading.Lock)
    listed = staticmethod(listed)
    run = staticmethod(run)

    def sleep(self, seconds: float) -> None:
        """Wait for this time."""
        time.sleep(seconds)

    def rest(self, event: threading.Event, seconds: float) -> bool:
        """Wait for this time, or until the event is set."""
        return event.wait(seconds)

    def block(self, function: Callable[P, R], *arguments: P.args, **keywords: P.kwargs) -> R:
        """Call a function that may block on Redis."""
        return function(*arguments, **keywords)

    def spawn(self, operation: Operation[Any], name: str) -> threading.Thread:
        """Run an operation on a thread; RuntimeError where none can be started now."""
        thread = threading.Thread(target=run, args=(operation,), name=f"pairing-{name}", daemon=True)
        thread.start()
        return thread

    def wait(self, workers: list[threading.Thread], seconds: float | None) -> list[threading.Thread]:
        """Wait until they have ended, or for this time; returns those that are still running."""
        until = None if seconds is None else time.monotonic() + seconds
        for thread in workers:
            joined(thread, None if until is None else until - time.monotonic())
        return [thread for thread in workers if thread.is_alive()]

    def cancel(self, workers: list[threading.Thread]) -> None:
        """Threads are daemons, and notice the end of their client themselves."""
