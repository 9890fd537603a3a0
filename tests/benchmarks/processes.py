"""What Linux knows of the processes of a benchmark: how long they take, their processor time and their memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SMALL = "BENCH_SMALL"
"""The environment variable that makes every benchmark small: the nightly run shows that each of them starts."""
TICKS = os.sysconf("SC_CLK_TCK")


def size(full: int, small: int) -> int:
    """How many of something this run measures."""
    return small if os.environ.get(SMALL) else full


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(descendant for child in children for descendant in family(int(child)))]


def cpu_s(pid: int, *, with_ended: bool = False) -> float:
    """CPU seconds of a process, and of its children that have ended if they are asked for; 0 once it has ended."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11 : 15 if with_ended else 13])) / TICKS
    return 0.0


def resident_bytes(pid: int | str = "self") -> int:
    """Memory in use."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak_kb(pid: int) -> int:
    """The most memory that a process had in use at one time; 0 once it has ended."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)
    return 0


class Timed:
    """A process that ended well: how long it took, the memory and CPU time of it and its children, its last line."""

    def __init__(self, seconds: float, peaks: dict[int, int], cpu: dict[int, float], said: str) -> None:
        self.seconds, self.said = round(seconds, 1), said
        self.peak_mb, self.cpu_s = sum(peaks.values()) // 1024, round(sum(cpu.values()), 1)


def printed(what: str, timed: Timed) -> Timed:
    """At once, so that an hour's figures are not lost with its last one."""
    print(f"{what}: {timed.seconds} s, {timed.cpu_s} s of CPU time, {timed.peak_mb} MB", file=sys.stderr, flush=True)
    return timed


def timed(command: list[str], **environment: str) -> Timed:
    """A process from its start to its end. Raises AssertionError if it fails."""
    peaks: dict[int, int] = {}
    cpu: dict[int, float] = {}
    over, begun = Event(), time.monotonic()

    def watch(pid: int) -> None:
        while not over.wait(0.25):
            for one in family(pid):
                peaks[one], cpu[one] = max(peaks.get(one, 0), peak_kb(one)), max(cpu.get(one, 0.0), cpu_s(one))

    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **environment}
    ) as process:
        watching = Thread(target=watch, args=(process.pid,))
        watching.start()
        said = process.communicate()[0].strip().splitlines()
        over.set()
        watching.join()
    assert process.returncode == 0, said[-1:] or command
    return Timed(time.monotonic() - begun, peaks, cpu, said[-1] if said else "")


def measured(module: str, *words: str, **environment: str) -> Any:
    """What a benchmark's module prints last, as JSON, in a process of its own."""
    command = [sys.executable, "-m", f"tests.benchmarks.{module}", *words]
    environment = {**os.environ, **environment}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])
