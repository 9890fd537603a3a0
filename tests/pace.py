"""How much time something took that was its own: what a busy machine withheld is taken off.

A promise such as "sending ends within its timeout" is about the code, not about the machine. Linux accounts for each
thread how long it was ready to run and had no processor. What is measured passes from one thread to the next, so many
threads that wait at once withhold the time of one; and a thread that computed all the while without waiting for anybody
had no part in it. On a quiet machine nothing is taken off, and the bound is as sharp as a plain one.
"""

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple, Self

GUARD = 5
"""Waiting for a condition ends after this many times what a quiet machine grants: only what hangs reaches it."""
_PROBE_S = 0.02
_EVERY_S = 0.1
"""So often the accounts are read. In between, the longest wait of one thread counts, and no sum of several."""
_ENDED = (OSError, IndexError)
"""What reading the account of a thread raises that has ended, or of a kernel that keeps none."""


class Look(NamedTuple):
    """How long each thread waited since the look before, in seconds; `at` is by the monotonic clock."""

    at: float
    waited: dict[str, float]


class Stopwatch:
    """`with Stopwatch() as watch: …`; then `watch.took` in seconds, which is `watch.elapsed` less `watch.withheld`."""

    def __enter__(self) -> Self:
        self._ended, self._looks = threading.Event(), list[Look]()
        self._reader = threading.Thread(target=self._read, daemon=True)
        own = _folder(os.getpid(), threading.get_native_id())
        self._busy = {thread: sleeps(thread) for thread in threads() if thread != own and is_ready(thread)}
        self._waits = waits()
        self._began = time.monotonic()
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        ended = time.monotonic()
        self._ended.set()
        self._reader.join()
        self._look()
        strangers = {thread for thread, slept in self._busy.items() if slept is not None and sleeps(thread) == slept}
        strangers.add(_folder(os.getpid(), self._reader.native_id))
        self.elapsed = ended - self._began
        self.withheld = withheld(self._looks, self._began, ended, strangers)
        self.took = self.elapsed - self.withheld

    def _read(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self._look()

    def _look(self) -> None:
        now, latest = time.monotonic(), waits()
        changed = {thread: waited - self._waits.get(thread, 0.0) for thread, waited in latest.items()}
        self._looks.append(Look(now, {thread: more for thread, more in changed.items() if more}))
        self._waits |= latest


def withheld(looks: Iterable[Look], began: float, ended: float, strangers: Collection[str] = ()) -> float:
    """Seconds that one chain of threads can have lost: each moment counts once, however many threads waited in it.

    A wait is in the account when it is over, and may have begun before the look that precedes it. `strangers` have no
    part in what is measured.
    """
    lost, free = 0.0, ended
    for look in sorted(looks, reverse=True):
        longest = max((waited for thread, waited in look.waited.items() if thread not in strangers), default=0.0)
        since = max(look.at - longest, began)
        lost += max(min(free, look.at) - since, 0.0)
        free = min(free, since)
    return lost


def threads() -> Iterator[str]:
    """The folder in /proc of each thread of this process and of its descendants."""
    family = [os.getpid()]
    while family:
        process = family.pop()
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{process}/task"):
                folder = _folder(process, thread)
                yield folder
                with suppress(OSError):
                    family += map(int, _file(f"{folder}/children").split())


def waits() -> dict[str, float]:
    """Seconds that each of these threads was ready to run and did not."""
    found = {}
    for thread in threads():
        with suppress(*_ENDED):
            found[thread] = int(_file(f"{thread}/schedstat").split()[1]) / 1e9
    return found


def is_ready(thread: str) -> bool:
    """Whether it runs or waits for a processor now."""
    with suppress(*_ENDED):
        return _file(f"{thread}/stat").rpartition(b")")[2].split()[0] == b"R"
    return False


def sleeps(thread: str) -> int | None:
    """How often it has waited for something other than a processor; None if it has ended."""
    with suppress(*_ENDED):
        return int(_file(f"{thread}/status").partition(b"\nvoluntary_ctxt_switches:")[2].split()[0])
    return None


def _folder(process: int, thread: str | int | None) -> str:
    return f"/proc/{process}/task/{thread}"


def _file(name: str) -> bytes:
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


def eventually(
    holds: Callable[[], Any], within_s: float = 120, or_show: Callable[[], object] = str, every_s: float = 0.02
) -> Any:
    """What it gives once that is true; fails where it is not in time. What takes long is asked less often."""
    deadline, pause = time.monotonic() + within_s, threading.Event()
    while not (found := holds()):
        assert time.monotonic() < deadline, f"not in time: {or_show()}"
        pause.wait(every_s)
    return found
