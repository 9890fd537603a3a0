"""The process that outlives the demo (or the set-up) and ends the remaining processes: `guardian.py NAME=VALUE [PID]`.

All processes to be ended have NAME=VALUE in their environment. The demo also holds the write end of a pipe to the
guardian, and reports by lines `+pid` and `-pid` which sessions it has started and which have ended: redis-server
overwrites its environment, and a process with another environment still has its session. When the pipe is closed,
however the demo ended, and process PID, if given, is gone, all of them get SIGTERM and a few seconds later SIGKILL.

The set-up runs this file before anything is installed, so it uses only the standard library and older Python syntax.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

SET_UP = "PAIRED_NAMESPACES_SETUP"
DEMO = "PAIRED_NAMESPACES_DEMO"
_PROCESSES = Path("/proc")
_GRACE_S = 4.0
_LIMIT_S = 10.0
_POLL_S = 0.2


def start(python: str = sys.executable) -> None:
    """No process that this process starts from now on, also after an exec, outlives it. Does nothing without /proc."""
    if not _PROCESSES.joinpath("self", "stat").exists():
        return
    os.environ[SET_UP] = secrets.token_hex(8)
    _launch(python, f"{SET_UP}={os.environ[SET_UP]}", str(os.getpid()), stdin=subprocess.DEVNULL)


def _launch(python: str, *arguments: str, stdin: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        (python, "-I", __file__, *arguments),
        stdin=stdin,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name not in (SET_UP, DEMO)},  # not its own guardian
        cwd="/",
        start_new_session=True,
        bufsize=0,
    )


class Guardian:
    """The demo's side: starts the guardian and reports children to it."""

    def __init__(self, marker: str) -> None:
        self._marker = marker
        self._sessions: set[int] = set()
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return _launch(sys.executable, self._marker, stdin=subprocess.PIPE)

    def watch(self, pid: int) -> None:
        """From now on the session `pid` does not outlive the demo."""
        self._sessions.add(pid)
        self._tell(f"+{pid}\n")

    def forget(self, pid: int) -> None:
        """The session has ended; its id may be reused by other processes."""
        self._sessions.discard(pid)
        self._tell(f"-{pid}\n")

    def check(self) -> None:
        """Replaces a guardian that has died."""
        if self._process.poll() is not None:
            self._process = self._start()
            for pid in self._sessions:
                self._tell(f"+{pid}\n")

    def close(self) -> None:
        """Lets the guardian end the remaining processes; returns when it has."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LIMIT_S + 1)

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # check() starts another one and reports all children again
            self._process.stdin.write(line.encode())


def survivors(marker: str, sessions: set[int]) -> Iterator[int]:
    """The live processes of these sessions, or with the marker in their environment; never the caller itself."""
    for entry in _PROCESSES.iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError, ValueError):
                alive, session = _stat(entry)
                if alive and (session in sessions or marker.encode() in (entry / "environ").read_bytes().split(b"\0")):
                    yield int(entry.name)


def _stat(process: Path) -> tuple[bool, int]:
    """Whether the process is alive, and its session; a zombie counts as ended."""
    state, _, _, session = (process / "stat").read_text().rpartition(")")[2].split()[:4]
    return state not in "ZX", int(session)


def sweep(marker: str, sessions: set[int]) -> None:
    """Ends all of them: SIGTERM first, SIGKILL after the grace; returns when none is left or at the limit."""
    begin = time.monotonic()
    asked: set[int] = set()
    for left in iter(lambda: set(survivors(marker, sessions)), set()):
        waited = time.monotonic() - begin
        if waited > _LIMIT_S:
            return
        for pid in left if waited > _GRACE_S else left - asked:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL if waited > _GRACE_S else signal.SIGTERM)
        asked |= left
        time.sleep(_POLL_S)


def await_end(pid: int) -> None:
    """Returns when the process is gone, reaped or not."""
    process = _PROCESSES / str(pid)
    with contextlib.suppress(OSError, ValueError):
        born = (process / "stat").read_text().rpartition(")")[2].split()[19]
        while _stat(process)[0] and (process / "stat").read_text().rpartition(")")[2].split()[19] == born:
            time.sleep(_POLL_S)


def main(marker: str, pid: str = "") -> None:
    """Reads until the demo is gone, then ends the remaining processes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # ends by itself after the demo
    sessions: set[int] = set()
    for line in sys.stdin:
        (sessions.add if line[0] == "+" else sessions.discard)(int(line[1:]))
    if pid:
        await_end(int(pid))
    sweep(marker, sessions)


if __name__ == "__main__":
    main(*sys.argv[1:])
