"""Threads that end with their client."""

import threading
import time


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
