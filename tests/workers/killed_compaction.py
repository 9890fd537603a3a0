"""`python -m tests.workers.killed_compaction FOLDER TIME STEPS`: the compaction of FOLDER at TIME, killed at a step."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from types import FrameType
from typing import Any

from workers import compaction


@contextmanager
def power_for(steps: int, fail: Callable[[], None]) -> Iterator[list[int]]:
    """Calls `fail` when the compaction comes to its step of that number; the list tells how many there were."""
    seen = [0]

    def each(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != compaction.__file__:
            return None
        if event == "line":
            seen[0] += 1
            if seen[0] > steps:
                fail()
        return each

    before = sys.gettrace()
    sys.settrace(each)
    try:
        yield seen
    finally:
        sys.settrace(before)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    folder, now, steps = sys.argv[1:]
    with power_for(int(steps), die):
        compaction.compact(folder, datetime.fromisoformat(now))
