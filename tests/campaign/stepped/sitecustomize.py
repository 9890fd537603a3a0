"""`time.sleep` for processes under libfaketime, which each interpreter imports that has this folder on its path.

With FAKETIME_DONT_FAKE_MONOTONIC, libfaketime 0.9.10 steps the deadline that `time.sleep` gives to `clock_nanosleep`
although that is one of the monotonic clock, and every call raises OSError (EINVAL). Waiting for locks, sockets and
`select` is not affected.
"""

import select
import time


def sleep(seconds: float, /) -> None:
    """What `time.sleep` does. Raises ValueError for a negative number."""
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    select.select([], [], [], seconds)


time.sleep = sleep
