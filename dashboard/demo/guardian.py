"""Ends everything a run has started, however the run itself ended.

A supervisor that is killed with SIGKILL cannot clean up after itself. So it starts a guardian, in a session of its own
where no Ctrl-C reaches it, and holds the writing end of a pipe whose reading end is the guardian's standard input. When
the supervisor is gone, by whatever cause, the pipe closes; the guardian then ends every process whose environment
carries the run's marker: first SIGTERM, then SIGKILL. Environments are inherited, so grandchildren are found as well.

Standard library only and no imports from this project: the set-up script runs it before anything is installed.
Processes are found through /proc; where there is none (macOS) the guardian has nothing to look at and just ends.
"""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

MARKER = "PAIRING_RUN_MARKER"
GRACE_S = 6.0
POLL_S = 0.1


def start(python: str = sys.executable) -> str:
    """Start a guardian over this process and everything it starts from now on; returns the marker.

    Also sets the marker in this process's environment, from where children inherit it. This process itself carries it
    only after an exec, so the guardian never ends its own starter by name, only what was started.
    """
    marker = uuid.uuid4().hex
    reading, writing = os.pipe()
    # The end of the pipe must live as long as this process, an exec included; children close it (close_fds).
    os.set_inheritable(writing, True)
    unmarked = {name: value for name, value in os.environ.items() if name != MARKER}
    subprocess.Popen([python, __file__, marker], stdin=reading, start_new_session=True, env=unmarked)
    os.close(reading)
    os.environ[MARKER] = marker
    return marker


def marked(marker: str) -> list[int]:
    """Process ids whose environment carries the marker (those we may look at)."""
    needle = f"{MARKER}={marker}".encode()
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if needle in (directory / "environ").read_bytes().split(b"\0"):
                found.append(int(directory.name))
        except OSError:
            continue  # gone already, or another user's
    return found


def send(processes: list[int], number: signal.Signals) -> None:
    for process in processes:
        try:
            os.kill(process, number)
        except OSError:
            continue


def end(marker: str, grace_s: float = GRACE_S) -> None:
    """End all marked processes; returns when none is left."""
    send(marked(marker), signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while left := marked(marker):
        if time.monotonic() > deadline:
            send(left, signal.SIGKILL)
        time.sleep(POLL_S)


def watch(marker: str) -> None:
    """Wait until the starter is gone, then end what it left behind."""
    while sys.stdin.buffer.read(4096):
        pass
    end(marker)


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    watch(sys.argv[1])
