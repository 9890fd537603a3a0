"""What fails in the crowd is looked at once more, alone (`.ci/run`), and what fails alone too stays a failure."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools.second_look import MOST, main, refusal

PYTEST = [sys.executable, "-m", "pytest", "-q", "-c", "pytest.ini", "-p", "no:django"]
KEEPS_ITS_STATUS = """
from tests.conftest import pytest_sessionfinish
"""
FAILS_ONCE = """
from pathlib import Path

def test_that_passes(): pass

def test_that_fails_in_a_crowd():
    seen = Path("seen")
    was_seen = seen.exists()
    seen.touch()
    assert was_seen
"""
FAILS_ALWAYS = """
def test_that_passes(): pass

def test_that_is_broken(): assert not "so"
"""
BREAKS_OFF = """
import os

def test_that_fails(): assert not "so"

def test_that_ends_the_run(): raise KeyboardInterrupt
"""


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """Writes a suite of one file and runs it once: a folder."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parent.parent))

    def make(tests):
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        (tmp_path / "conftest.py").write_text(KEEPS_ITS_STATUS)
        (tmp_path / "test_it.py").write_text(tests)
        subprocess.run(PYTEST, cwd=tmp_path, check=False, capture_output=True)
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("tests", "status", "verdict"),
    [(FAILS_ONCE, 0, "can't bear a busy machine"), (FAILS_ALWAYS, 1, "broken:")],
    ids=["in the crowd only", "alone too"],
)
def test_a_second_look_tells_what_is_broken_from_what_cannot_bear_a_crowd(suite, capfd, tests, status, verdict):
    assert main(suite(tests), PYTEST) == status
    told = capfd.readouterr().out
    assert verdict in told


def test_a_run_that_broke_off_gets_no_second_look(suite, capfd):
    assert main(suite(BREAKS_OFF), PYTEST) == 1
    assert "did not run to their end" in capfd.readouterr().err


def test_no_run_at_all_gets_no_second_look(tmp_path):
    assert main(tmp_path, PYTEST) == 1


def test_many_failures_get_no_second_look():
    assert refusal(1, ["a test"] * MOST) is None
    assert refusal(1, ["a test"] * (MOST + 1)) == f"{MOST + 1} tests failed"
    assert refusal(1, []) == "0 tests failed"


def test_how_a_run_ended_is_kept_for_the_second_look(suite):
    kept = suite(FAILS_ALWAYS) / ".pytest_cache" / "v" / "suite" / "exit_status"
    assert json.loads(kept.read_text()) == 1
