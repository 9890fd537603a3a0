"""A drill whose workers are killed with SIGKILL in every step, around real workers that ping and bring home.

docs/readiness.md.
"""

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from pairing.fleet.shared_state import SharedState
from tests.acceptance.control_plane import ControlPlane
from tests.acceptance.fleet import ROOT, Namespaces, RedisServer
from tests.pace import GUARD

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]
CANARY = "pairing-canary"
STEPS = ("preparing", "sending", "forcing", "diverting", "releasing", "returning", "draining", "counting")


class Stage:
    """Two namespaces, Redis, beat, a worker that pings and brings home, and processes that drill until they die."""

    def __init__(self, folder: Path) -> None:
        self.namespaces, self.server = Namespaces("contoso", "orders", "payments", CANARY), RedisServer(folder)
        self.plane = ControlPlane(folder, self.namespaces, self.server)
        self.plane.start("beat")
        self._log = (folder / "pinging.log").open("ab")
        queues = ["-Q", "pings,syphons,samples,collectors"]
        command = [sys.executable, "-m", "celery", "-A", "workers", "worker", *queues, "--hostname", "pinging@%h"]
        self.pinging = subprocess.Popen(
            command, cwd=ROOT, env=self.environment, stdout=self._log, stderr=self._log, start_new_session=True
        )
        self._drilling = subprocess.Popen(
            [sys.executable, "tests/acceptance/drilling_worker.py"],
            cwd=ROOT,
            env={**os.environ, **self.environment, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    @property
    def environment(self) -> dict[str, str]:
        return self.plane._environment

    def begun(self) -> int:
        reported, code = self._lived("begin")
        assert code == 0
        return int(reported[-1].removeprefix("begun "))

    def carry_on(self, drill: int, step: str = "none", when: str = "never") -> int:
        """A process that carries the drill on; how it ended."""
        return self._lived(f"{drill} {step} {when}")[1]

    def _lived(self, order: str) -> tuple[list[str], int]:
        """What a process said, and how it ended."""
        assert self._drilling.stdin is not None
        assert self._drilling.stdout is not None
        print(order, file=self._drilling.stdin, flush=True)
        said: list[str] = []
        for line in self._drilling.stdout:
            if line.startswith("ended "):
                return said, int(line.removeprefix("ended "))
            said.append(line.rstrip())
        raise AssertionError("the processes that drill have ended")

    def row(self, drill: int) -> dict[str, Any]:
        query = "select step, outcome, detail, report, course, attempts from dashboard_drill where id = ?"
        step, outcome, detail, report, course, attempts = self.plane.rows(query, drill)[0]
        reported = {"step": step, "outcome": outcome, "detail": detail, "attempts": attempts}
        return reported | {"report": json.loads(report), "course": json.loads(course)}

    def abort(self, drill: int) -> None:
        with closing(sqlite3.connect(self.plane.folder / "db.sqlite3", timeout=30)) as database:
            database.execute("update dashboard_drill set abort_wanted_by = 'bob' where id = ?", (drill,))
            database.commit()

    def lapsed(self, drill: int) -> None:
        """The claim of the dead is over."""
        query = "select claimed_until is null or claimed_until < strftime('%Y-%m-%d %H:%M:%f', 'now') "
        until(lambda: self.plane.rows(query + "from dashboard_drill where id = ?", drill)[0][0], 40)

    def state(self) -> str:
        with self.server.client() as client:
            known = SharedState(client, "contoso").health_of(CANARY)
        return known.state if known else "healthy"

    def left(self) -> int:
        """Messages in the canary."""
        return int(self.namespaces.stats(CANARY)["active"])

    def end(self) -> None:
        self._drilling.communicate(timeout=130)
        self.pinging.kill()
        self.pinging.wait(10)
        self.plane.end()
        self.server.kill()
        self.namespaces.end()
        self._log.close()


def until(condition: Callable[[], object], limit_s: float) -> None:
    deadline = time.monotonic() + GUARD * limit_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("drill")
    stage = Stage(folder)
    try:
        yield stage
    finally:
        stage.end()
        for name in ("pinging.log", "workers.log"):
            with suppress(FileNotFoundError):
                print((folder / name).read_text()[-8_000:])


@pytest.mark.parametrize("when", ["before", pytest.param("after", marks=pytest.mark.nightly)])
def test_a_drill_whose_worker_dies_in_every_step_comes_to_its_end_whole(stage: Stage, when: str) -> None:
    drill, deaths = stage.begun(), 0
    for step in STEPS:
        code = stage.carry_on(drill, step, when)
        stage.lapsed(drill)
        deaths += code == -9
        if code != -9:
            assert stage.row(drill)["step"] == "ended" or code == 0
    while not stage.row(drill)["outcome"]:
        stage.carry_on(drill)
        stage.lapsed(drill)

    row = stage.row(drill)
    assert deaths == len(STEPS)
    assert (row["outcome"], row["attempts"] > deaths) == ("passed", True), row
    reported = row["report"]["messages"]
    assert (reported["received"], reported["lost"]) == (9, [])
    assert set(reported["duplicates"]) <= set(row["course"]["unsure"])
    assert stage.state() == "healthy"
    assert stage.left() == 0


@pytest.mark.nightly
@pytest.mark.parametrize("step", ["forcing", "diverting"])
def test_a_drill_called_off_after_a_death_is_rolled_back(stage: Stage, step: str) -> None:
    drill = stage.begun()
    assert stage.carry_on(drill, step, "after") == -9
    stage.abort(drill)
    stage.lapsed(drill)

    while not stage.row(drill)["outcome"]:
        stage.carry_on(drill)

    row = stage.row(drill)
    assert row["outcome"] == "aborted", row
    assert row["report"]["messages"]["lost"] == []
    assert stage.state() == "healthy"
    assert stage.left() == 0


@pytest.mark.nightly
def test_a_roll_back_that_is_killed_is_rolled_back_by_the_next(stage: Stage) -> None:
    drill = stage.begun()
    assert stage.carry_on(drill, "diverting", "after") == -9
    stage.abort(drill)
    stage.lapsed(drill)
    assert stage.carry_on(drill, "rolling_back", "before") == -9
    stage.lapsed(drill)
    assert stage.state() == "failed_over"
    assert stage.carry_on(drill, "rolling_back", "after") == -9
    stage.lapsed(drill)

    while not stage.row(drill)["outcome"]:
        stage.carry_on(drill)

    assert stage.row(drill)["outcome"] == "aborted"
    assert stage.state() == "healthy"
    assert stage.left() == 0
