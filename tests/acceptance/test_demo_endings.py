"""However the demo is ended, no process of it is left (docs/contract.md, section 1)."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import Stage
from tests.acceptance.demo_client import Demo, eventually

pytestmark = [pytest.mark.acceptance]
FAREWELL_S = 15  # what the contract grants


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    demo = Demo(tmp_path / "demo")
    yield demo
    demo.process.kill()
    demo.process.wait()


def said(demo: Demo, words: str) -> None:
    eventually(lambda: any(words in line for line in demo.said), 90, f"the demo says {words!r}: {demo.said}")


def nothing_is_left(demo: Demo) -> None:
    eventually(lambda: not demo.processes() and demo.redis_is_gone(), FAREWELL_S, f"all end: {demo.processes()}")


@pytest.mark.nightly
def test_ctrl_c_in_the_middle_of_the_start(demo: Demo) -> None:
    said(demo, "namespace contoso-dr answers")
    assert demo.end(signal.SIGINT) == 0
    nothing_is_left(demo)
    assert "Traceback" not in "\n".join(demo.said)


def test_kill_9_while_everything_runs(stage: Stage) -> None:
    demo = stage.demo({})  # that of the stories before, which takes as long to start as many of them
    stage.give_away()
    said(demo, "messages arrive in every queue")
    assert len(demo.processes()) >= 9
    assert demo.end(signal.SIGKILL) == -signal.SIGKILL
    nothing_is_left(demo)


@pytest.mark.nightly
def test_the_end_of_a_namespace_ends_the_demo_which_has_said_where_its_files_are(demo: Demo, tmp_path: Path) -> None:
    said(demo, f"the database is created in {tmp_path / 'demo'}/")
    (namespaces,) = demo.processes("emulator")
    os.kill(namespaces, signal.SIGKILL)
    assert demo.process.wait(60) == 1
    nothing_is_left(demo)
    assert "namespaces has ended" in demo.said[-1]
