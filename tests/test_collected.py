"""A parallel run whose workers are forked once the tests are collected says what one with ordinary workers says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FORKING = """
from tests.collected import collect_once
def pytest_xdist_setupnodes(config):
    collect_once(config)
"""
TESTS = """
import os, warnings
import pytest
IMPORTED_BY = os.getpid()
warnings.warn("as it is imported")
def test_who_has_imported_this():
    print(f"imported by {IMPORTED_BY} of {os.getpid()}")
    assert False
def test_captured(capfd):
    os.write(1, b"printed")
    assert capfd.readouterr().out == "printed"
@pytest.mark.parametrize("number", range(20))
def test_own_folder(tmp_path, number):
    assert os.environ["PYTEST_XDIST_WORKER"] in str(tmp_path)
"""
CRASHING = """
import os
def test_crashes():
    os.kill(os.getpid(), 9)
"""


def _run(folder: Path, forking: str, **files: str) -> str:
    folder.mkdir()
    (folder / "conftest.py").write_text(forking)
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    words = [
        "-m",
        "pytest",
        "-p",
        "xdist",
        "-n",
        "2",
        "-rA",
        "--continue-on-collection-errors",
        "--rootdir",
        str(folder),
    ]
    ran = subprocess.run(
        [sys.executable, *words], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1, ran.stderr
    return ran.stdout


def _said(output: str) -> list[str]:
    """The outcomes, in the order of their names, and how many of each there are. Left out is what differs between two
    runs: how long it took, and which worker ran a test.
    """
    words = re.sub(r"worker 'gw\d+'", "a worker", output)
    lines = [line for line in words.splitlines() if line.startswith(("PASSED", "FAILED", "ERROR"))]
    return [*sorted(lines), output.splitlines()[-1].rpartition(" in ")[0]]


@pytest.mark.slow
def test_outcomes_are_those_of_ordinary_workers(tmp_path):
    files = {"one": TESTS, "broken": "import nothing_of_that_name", "crashing": CRASHING}
    forked, ordinary = (_run(tmp_path / name, text, **files) for name, text in (("a", FORKING), ("b", "")))
    assert _said(forked) == _said(ordinary)
    assert "as it is imported" in forked
    importer, worker = forked.partition("imported by ")[2].split("\n")[0].split(" of ")
    assert importer != worker
