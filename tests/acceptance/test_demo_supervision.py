"""Killing the demo leaves nothing behind, and what dies in it comes back (docs/operations.md)."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from dashboard.demo import guardian
from dashboard.demo.guardian import Guardian
from dashboard.demo.processes import DemoError, Program
from dashboard.demo.supervisor import Supervisor
from tests.pace import eventually

SLEEPER = (sys.executable, "-c", "import time; time.sleep(600)")
DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
STUBBORN = (sys.executable, "-c", DEAF)
FAREWELL_S = 15  # what the contract grants


@pytest.fixture
def marker() -> Iterator[str]:
    marker = f"{guardian.DEMO}=test-{os.getpid()}-{time.monotonic_ns()}"
    yield marker
    for pid in guardian.survivors(marker, set()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def supervisor(marker: str, tmp_path: Path) -> Iterator[Supervisor]:
    watch = Guardian(marker)
    supervisor = Supervisor(watch, tmp_path)
    yield supervisor
    supervisor.stop()
    watch.close()


def program(marker: str, argv: tuple[str, ...] = SLEEPER, **what: bool) -> Program:
    name, value = marker.split("=")
    return Program("sleeper", argv, {**os.environ, name: value}, **what)


def test_what_dies_is_started_again(supervisor: Supervisor, marker: str) -> None:
    first = supervisor.start(program(marker, restart=True))
    first.signal(signal.SIGKILL)

    def came_back() -> bool:
        supervisor.check()
        return any(pid != first.pid for pid in guardian.survivors(marker, set()))

    eventually(came_back)


def test_the_end_of_an_essential_program_is_reported_with_its_last_words(supervisor: Supervisor, marker: str) -> None:
    supervisor.start(program(marker, (sys.executable, "-c", "raise SystemExit('no room at the inn')"), essential=True))
    with pytest.raises(DemoError, match="no room at the inn"):
        supervisor.wait_until(lambda: False, 20, "it went on")


def test_stopping_ends_a_program_that_ignores_the_request(supervisor: Supervisor, marker: str) -> None:
    child = supervisor.start(program(marker, STUBBORN), capture=True)
    assert child.stdout.readline() == b"up\n"
    supervisor.stop()
    assert not set(guardian.survivors(marker, {child.pid}))


def test_a_guardian_that_was_killed_is_replaced(supervisor: Supervisor, marker: str) -> None:
    supervisor.start(program(marker))
    killed = guardians(marker)
    for pid in killed:
        os.kill(pid, signal.SIGKILL)

    def another_watches() -> bool:
        supervisor.check()
        return bool(guardians(marker) - killed)

    assert len(killed) == 1
    eventually(another_watches)


def guardians(marker: str) -> set[int]:
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().decode().split("\0")
            if marker in words and guardian.__file__ in words:
                found.add(int(entry.name))
    return found


@pytest.mark.acceptance
def test_killing_the_set_up_leaves_no_process_behind() -> None:
    script = """
import os, subprocess, sys
from dashboard.demo import guardian
guardian.start()
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(os.environ[guardian.SET_UP], flush=True)
os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)"])
"""
    set_up = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert set_up.stdout is not None
    marker = f"{guardian.SET_UP}={set_up.stdout.readline().decode().strip()}"
    eventually(lambda: len(set(guardian.survivors(marker, set()))) == 2)
    set_up.kill()
    set_up.stdout.close()  # not waited for: a zombie is as good as gone
    eventually(lambda: not set(guardian.survivors(marker, set())), FAREWELL_S)
    set_up.wait()
