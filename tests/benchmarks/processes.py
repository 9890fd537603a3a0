"""Processes of a benchmark: how long they take, with the CPU time and memory of all that they start."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from threading import Event, Thread

SMALL = "BENCH_SMALL"
"""The environment variable that makes every benchmark small: the nightly run shows that each of them starts."""


def size(full: int, small: int) -> int:
    """How many of something this run measures."""
    return small if os.environ.get(SMALL) else full


class Timed:
    """A process that ended well: how long it took, the memory and CPU time of it and its children, its last line."""

    def __init__(self, seconds: float, watched: Watched, said: str) -> None:
        self.seconds, self.said = round(seconds, 1), said
        self.peak_mb, self.cpu_s = sum(watched.peaks.values()) // 1024, round(sum(watched.cpu.values()), 1)


def printed(what: str, timed: Timed) -> Timed:
    """At once, so that an hour's figures are not lost with its last one."""
    print(f"{what}: {timed.seconds} s, {timed.cpu_s} s of CPU time, {timed.peak_mb} MB", file=sys.stderr, flush=True)
    return timed


class Watched:
    """The peak resident memory (kB) and CPU time (s) of a process and its descendants, by process id."""

    def __init__(self) -> None:
        self.peaks: dict[int, int] = {}
        self.cpu: dict[int, float] = {}

    def since(self, before: Watched) -> Watched:
        """The same memory, with the CPU time that is new."""
        later = Watched()
        later.peaks = self.peaks
        later.cpu = {pid: seconds - before.cpu.get(pid, 0.0) for pid, seconds in self.cpu.items()}
        return later

    def look(self, pid: int) -> None:
        for child in _family(pid):
            self.peaks[child] = max(self.peaks.get(child, 0), _peak_kb(child))
            self.cpu[child] = max(self.cpu.get(child, 0.0), _cpu_s(child))


def timed(command: list[str], **environment: str) -> Timed:
    begun = time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **environment}
    ) as process:
        over, watched = Event(), Watched()
        watch = Thread(target=_watch, args=(process.pid, over, watched))
        watch.start()
        said = process.communicate()[0].strip().splitlines()
        over.set()
        watch.join()
    assert process.returncode == 0, said[-1:] or command
    return Timed(time.monotonic() - begun, watched, said[-1] if said else "")


def _watch(pid: int, over: Event, watched: Watched) -> None:
    while not over.wait(0.25):
        watched.look(pid)


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(descendant for child in children for descendant in _family(int(child)))]


def _peak_kb(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status if line.startswith("VmHWM")), 0)
