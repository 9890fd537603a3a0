"""Supervises the demo's processes: starts them in order, restarts those that die, stops all in reverse order.

Signals only set a flag that every wait checks, so that no signal interrupts between the start of a child and its
registration.
"""

import signal
import threading
import time
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from types import FrameType

from dashboard.demo.guardian import Guardian
from dashboard.demo.processes import Child, DemoError, Program

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_POLL_S = 0.1
_GRACE_S = 5.0
_FAREWELL_S = 11.0  # for all groups together: the contract allows 15
_STEADY_S = 10.0  # after this uptime, a process is restarted immediately
_MAX_PAUSE_S = 10.0


class Stopped(Exception):
    """The demo was asked to stop."""


class Supervisor:
    """The running programs by name. Main thread only: the kernel binds a child to the thread that started it."""

    def __init__(self, guardian: Guardian, logs: Path) -> None:
        self._guardian = guardian
        self._logs = logs
        self._children: dict[str, Child] = {}
        self._pauses: dict[str, float] = {}
        self._due: dict[str, tuple[float, Program]] = {}
        self._stop = threading.Event()
        self._hurry = False

    def heed_signals(self) -> None:
        """SIGINT, SIGTERM and SIGHUP raise Stopped in the next wait; a second one shortens the grace."""
        for number in _STOP_SIGNALS:
            signal.signal(number, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._hurry = self._stop.is_set()
        self._stop.set()

    def start(self, program: Program, *, capture: bool = False) -> Child:
        """Start and supervise a child."""
        child = Child(program, self._logs / f"{program.name}.log", capture=capture)
        self._guardian.watch(child.pid)
        self._children[program.name] = child
        return child

    def run(self, program: Program, limit_s: float) -> None:
        """Run a program to its end; DemoError with its last output if it fails."""
        self.finish(self.start(program), limit_s)

    def finish(self, child: Child, limit_s: float) -> None:
        """Wait for the end of a child; DemoError with its last output if it fails."""
        try:
            self._await_end(child, limit_s)
        finally:
            self._end([child], _GRACE_S)

    def _await_end(self, child: Child, limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while child.ended() is None:
            if time.monotonic() > deadline:
                raise DemoError(f"{child.program.name} took longer than {limit_s:.0f} s; see {child.log}.")
            self.pause(_POLL_S)
            self.check()
        self.check()  # an essential process that has ended is the cause to report
        if child.ended():
            raise DemoError(child.last_line())

    def wait_until(self, condition: Callable[[], bool], limit_s: float, failure: str) -> None:
        """Return when the condition holds, supervising children meanwhile; DemoError(failure) at the limit."""
        deadline = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > deadline:
                raise DemoError(failure)
            self.check()
            self.pause(_POLL_S)

    def pause(self, seconds: float) -> None:
        """Wait; raises Stopped if the demo is asked to stop."""
        self._stop.wait(seconds)
        if self._stop.is_set():
            raise Stopped

    def check(self) -> None:
        """Check all children: an ended essential one raises DemoError, others are restarted."""
        self._guardian.check()
        for child in list(self._children.values()):
            if (code := child.ended()) is not None:
                self._bury(child, code)
        for name, (due, program) in list(self._due.items()):
            if time.monotonic() >= due:
                del self._due[name]
                self.start(program)

    def _bury(self, child: Child, code: int) -> None:
        self._end([child], 0.0)
        program = child.program
        if program.essential:
            raise DemoError(f"{program.name} has ended (exit code {code}): {child.last_line()} (log: {child.log}).")
        if program.restart:
            pause = self._pause_before(program.name, time.monotonic() - child.started_at)
            self._due[program.name] = (time.monotonic() + pause, program)

    def _pause_before(self, name: str, lived_s: float) -> float:
        self._pauses[name] = 0.0 if lived_s > _STEADY_S else min(_MAX_PAUSE_S, self._pauses.get(name, 0.0) * 2 + 0.5)
        return self._pauses[name]

    def stop(self) -> None:
        """Stop all in the order of their stop_order, each group with its grace; returns when none is left."""
        self._due.clear()
        deadline = time.monotonic() + _FAREWELL_S
        by_order = sorted(self._children.values(), key=lambda child: child.program.stop_order)
        for _, wave in groupby(by_order, key=lambda child: child.program.stop_order):
            self._end(list(wave), min(_GRACE_S, max(0.5, deadline - time.monotonic())))

    def _end(self, wanted: list[Child], grace_s: float) -> None:
        children = [child for child in wanted if self._children.get(child.program.name) is child]
        for child in children:
            child.signal(signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        while any(child.ended() is None for child in children) and time.monotonic() < deadline and not self._hurry:
            time.sleep(_POLL_S / 2)
        for child in children:
            child.signal(signal.SIGKILL)
            child.reap()
            self._guardian.forget(child.pid)
            del self._children[child.program.name]
