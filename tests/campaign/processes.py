"""The processes of a campaign: started, killed, frozen and started again by name; none outlives the campaign."""

import contextlib
import os
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path

from dashboard.demo.guardian import Guardian
from dashboard.demo.processes import Child, Program
from tests.campaign import clocks
from tests.campaign.journal import Journal, now
from tests.campaign.receiver import STUCK

GRACE_S = 15.0
PAUSE_S = 1.0
"""How long a process that ended by itself is left alone before it is started again."""


@dataclass(slots=True)
class Running:
    """One process by name; `child` is None while it is down."""

    program: Program
    child: Child | None = None
    due: float | None = None
    """When it is started again."""
    is_frozen: bool = False
    how: str = ""
    """How it is being ended: `killed`, `asked`, or empty for by itself."""


class Processes:
    """Main thread only: the kernel binds a child to the thread that started it."""

    def __init__(self, folder: Path, marker: str) -> None:
        self._logs = folder / "logs"
        self._logs.mkdir(parents=True, exist_ok=True)
        self._guardian = Guardian(marker)
        self._lives = Journal(folder / "lives.jsonl")
        self._running: dict[str, Running] = {}
        self.kills = 0

    def start(self, program: Program, *, capture: bool = False) -> Child:
        """Start a process and keep it running until it is ended."""
        running = self._running.setdefault(program.name, Running(program))
        running.program = program
        return self._spawn(running, capture=capture)

    def _spawn(self, running: Running, *, capture: bool = False) -> Child:
        name = running.program.name
        child = Child(clocks.as_started(running.program), self._logs / f"{name}.log", capture=capture)
        self._guardian.watch(child.pid)
        running.child, running.due, running.how, running.is_frozen = child, None, "", False
        self._lives.write({"kind": "began", "process": name, "pid": child.pid, "at": now()})
        return child

    def names(self) -> list[str]:
        return list(self._running)

    def is_up(self, name: str) -> bool:
        """Whether it runs, and is not frozen."""
        running = self._running.get(name)
        return running is not None and running.child is not None and not running.is_frozen

    def kill(self, name: str, down_s: float) -> bool:
        """SIGKILL, and started again that much later; False if it is down already."""
        running = self._running[name]
        if running.child is None:
            return False
        running.how = "killed"
        running.child.signal(signal.SIGKILL)
        self._bury(running)
        running.due = time.monotonic() + down_s
        self.kills += 1
        return True

    def freeze(self, name: str) -> bool:
        running = self._running[name]
        if running.child is None or running.is_frozen:
            return False
        running.child.signal(signal.SIGSTOP)
        running.is_frozen = True
        return True

    def thaw(self, name: str) -> None:
        running = self._running[name]
        if running.child is not None and running.is_frozen:
            running.child.signal(signal.SIGCONT)
        running.is_frozen = False

    def ask(self, name: str) -> None:
        """SIGTERM; `check` sees when it has ended."""
        running = self._running[name]
        if running.child is not None:
            self.thaw(name)
            running.how = "asked"
            with contextlib.suppress(ProcessLookupError):  # itself, not the program that a sender waits for
                os.kill(running.child.pid, signal.SIGTERM)

    def replace(self, name: str, **environment: str) -> None:
        """Ask it to end, and start it with these variables once it has."""
        running = self._running[name]
        program = running.program
        running.program = replace(program, environment={**program.environment, **environment})
        running.due = time.monotonic()
        self.ask(name)

    def check(self) -> None:
        """Note what has ended by itself, and start what is due."""
        self._guardian.check()
        for running in self._running.values():
            if running.child is not None and running.child.ended() is not None:
                by_itself = not running.how
                self._bury(running)
                if by_itself:
                    running.due = time.monotonic() + PAUSE_S
            if running.child is None and running.due is not None and time.monotonic() >= running.due:
                self._spawn(running)

    def _bury(self, running: Running) -> None:
        child = running.child
        assert child is not None
        child.signal(signal.SIGKILL)  # what it had started
        child.reap()
        code = child.ended()
        how = running.how or ("stuck" if code == STUCK else "ended")
        self._lives.write(
            {"kind": "over", "process": running.program.name, "pid": child.pid, "at": now(), "how": how, "code": code}
        )
        self._guardian.forget(child.pid)
        running.child, running.is_frozen = None, False

    def end(self, *names: str, grace_s: float = GRACE_S) -> list[str]:
        """Ask them all, and kill those that do not end in time; returns their names."""
        running = [self._running[name] for name in names if name in self._running]
        for one in running:
            one.due = None
            self.ask(one.program.name)
        until = time.monotonic() + grace_s
        while any(one.child and one.child.ended() is None for one in running) and time.monotonic() < until:
            time.sleep(0.05)  # between two looks; the condition is that all have ended
        late = [one for one in running if one.child and one.child.ended() is None]
        for one in late:
            one.how = "overdue"
        for one in running:
            if one.child is not None:
                self._bury(one)
            one.due = None
        return [one.program.name for one in late]

    def close(self) -> None:
        """Ends whatever still runs, at once."""
        for running in self._running.values():
            running.due = None
            if running.child is not None:
                if running.child.ended() is None:  # also one that was asked a moment ago
                    running.how = "killed"
                with contextlib.suppress(OSError):
                    self._bury(running)
        self._guardian.close()
        self._lives.close()
