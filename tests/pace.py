"""How much time something took that was its own: what a busy machine withheld is taken off.

A promise such as "sending ends within its timeout" is about the code, not about the machine. Linux accounts for each
thread how long it was ready to run and had no processor; this is taken off the elapsed time, for this process and all
it started. On a quiet machine nothing is taken off, and the bound is as sharp as a plain one.
"""

import os
import threading
import time
from typing import Self

GUARD = 5
"""Waiting for a condition ends after this many times what a quiet machine grants: only what hangs reaches it."""
_PROBE_S = 0.02
_EVERY_S = 0.1
"""Threads that end take their account with them: so often it is read."""


class Stopwatch:
    """`with Stopwatch() as watch: …`; then `watch.took` in seconds."""

    def __enter__(self) -> Self:
        self._before, self._latest = waits(), dict[str, float]()
        self._ended = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._began = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self.elapsed = time.monotonic() - self._began
        self._ended.set()
        self._reader.join()
        self._latest |= waits()
        self.withheld = sum(waited - self._before.get(task, 0.0) for task, waited in self._latest.items())
        self.took = max(self.elapsed - self.withheld, 0.0)

    def _read(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self._latest |= waits()


def waits() -> dict[str, float]:
    """Seconds that each thread of this process and of its descendants was ready to run and did not."""
    found, family = {}, [os.getpid()]
    while family:
        process = family.pop()
        for thread in _threads(process):
            folder = f"/proc/{process}/task/{thread}"
            try:
                found[f"{process}/{thread}"] = int(_read(f"{folder}/schedstat").split()[1]) / 1e9
                family += map(int, _read(f"{folder}/children").split())
            except (OSError, IndexError):
                continue  # it has ended, or this kernel keeps no account
    return found


def _threads(process: int) -> list[str]:
    """The threads of a process; none if it has ended meanwhile."""
    try:
        return os.listdir(f"/proc/{process}/task")
    except OSError:
        return []


def _read(name: str) -> bytes:
    """A file of /proc, which is read at each look, for hundreds of threads: without the layers of `open`."""
    file = os.open(name, os.O_RDONLY)
    try:
        return os.read(file, 4096)
    finally:
        os.close(file)


def slowed(seconds: float) -> float:
    """A time-out that is at least twice what a quiet machine needs, and longer where this one is slower now."""
    began, until = time.monotonic(), time.thread_time() + _PROBE_S
    while time.thread_time() < until:
        pass
    return seconds * max((time.monotonic() - began) / _PROBE_S / 2, 1.0)
