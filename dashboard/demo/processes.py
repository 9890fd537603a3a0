"""One child process of the demo, started in a session of its own, so that it can be stopped with all its descendants.

On Linux the kernel sends it SIGTERM when the demo dies; the guardian ends processes that this does not reach.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from dashboard.site.places import BASE_DIR

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


class DemoError(Exception):
    """The demo cannot start or continue; the text is one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run. `essential`: the demo ends when it does; `restart`: it is restarted instead."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)  # contains keys
    essential: bool = False
    restart: bool = False
    stop_order: int = 0  # lower ones are stopped first


class Child:
    """A running Program, its output in `<logs>/<name>.log`."""

    def __init__(self, program: Program, log: Path, *, capture: bool = False) -> None:
        self.program = program
        self.log = log
        self.started_at = time.monotonic()
        with open_private(log) as output:
            self._process = subprocess.Popen(
                program.argv,
                env=dict(program.environment),
                cwd=BASE_DIR,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if capture else output,
                stderr=output,
                start_new_session=True,
                preexec_fn=_die_with(os.getpid()),
            )

    @property
    def pid(self) -> int:
        """The process id, which is also its session and process group."""
        return self._process.pid

    @property
    def stdout(self) -> IO[bytes]:
        """The output of a captured child."""
        assert self._process.stdout is not None
        return self._process.stdout

    def ended(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole group, including processes that outlived the leader."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def reap(self) -> None:
        """Wait for the end of the leader; called after SIGKILL."""
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def last_line(self) -> str:
        """The last line of its log that is not empty."""
        lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else "no output"


def open_private(path: Path) -> IO[bytes]:
    """Open a file for appending that only its owner can read."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")


def _die_with(parent: int) -> Callable[[], None] | None:
    """Run between fork and exec: asks the kernel for SIGTERM when the demo's process dies."""
    if _libc is None:
        return None
    prctl = _libc.prctl

    def ask_kernel() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # the parent died in between
            os._exit(1)

    return ask_kernel
