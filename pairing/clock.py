"""The time of the library: monotonic seconds, and the corresponding UTC times."""

import sys
import threading
import time
from datetime import UTC, datetime
from typing import Protocol

_TOLERATED_S = 0.5
INTERPRETER_ENDS = "can't create new thread at interpreter shutdown"
"""The text of Python's own error, from 3.12 on."""


class Clock(Protocol):
    """The clock interface of the library; tests control ``pairing.testing.ManualClock`` by hand."""

    def now(self) -> float:
        """Seconds on a clock that never goes backwards; only differences mean anything."""
        ...

    def utc(self, at: float) -> datetime:
        """The aware UTC time of the moment ``at``."""
        ...

    def at(self, when: datetime) -> float:
        """The moment of an aware time, the inverse of ``utc``."""
        ...


class SystemClock:
    """The machine's clock: decisions follow the steady one, what people read follows the wall's."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()
        self.now = time.monotonic

    def utc(self, at: float) -> datetime:
        """The aware UTC time of the moment ``at``; stable from call to call unless the wall clock was set."""
        return datetime.fromtimestamp(at + self._wall_offset(), UTC)

    def at(self, when: datetime) -> float:
        """The moment of an aware time."""
        return when.timestamp() - self._wall_offset()

    def _wall_offset(self) -> float:
        offset = time.time() - time.monotonic()
        if abs(offset - self._offset) > _TOLERATED_S:  # the wall clock was set, or the machine slept
            self._offset = offset
        return self._offset


def start(thread: threading.Thread) -> None:
    """Start a thread; RuntimeError if none can be started, as when the interpreter ends: Python 3.11 would hang."""
    if sys.is_finalizing():
        raise RuntimeError(INTERPRETER_ENDS)
    thread.start()


def joined(thread: threading.Thread, timeout_s: float | None) -> None:
    """Wait for a thread to end.

    Not for one that was never started, nor for the caller's own: a callback of the application may close the client on
    any of its threads.
    """
    if thread.is_alive() and thread is not threading.current_thread():
        thread.join(None if timeout_s is None else max(timeout_s, 0.0))


def left_until(moment: float) -> float:
    """The seconds until this moment of the monotonic clock; 0 once it is over."""
    return max(moment - time.monotonic(), 0.0)
