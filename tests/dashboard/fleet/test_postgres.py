"""The control plane and its workers on a real PostgreSQL: the same tests again, in a run of their own."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dashboard.together import ONLY_POSTGRESQL
from tests.postgres import cluster, programs

ROOT = Path(__file__).resolve().parents[3]
WHERE_IT_MATTERS, WHOLE = "postgres", "postgres or postgres_nightly"
"""The markers of the files: what the database refuses, locks and counts; at night, what asks it at all."""


@pytest.fixture(scope="module")
def database_url() -> Iterator[str]:
    """DATABASE_URL where it names a PostgreSQL; else a private cluster."""
    given = os.environ.get("DATABASE_URL", "")
    if given.startswith("postgres"):
        yield given
        return
    if programs() is None:
        problem = "no PostgreSQL found (apt install postgresql, or set DATABASE_URL to a server's)"
        (pytest.fail if os.environ.get("REQUIRE_POSTGRES") == "1" else pytest.skip)(problem)
    with cluster() as url:
        yield url


def files(marked: str) -> list[str]:
    """The files with one of these markers: to collect all others takes seconds."""
    marker = re.compile(rf"pytest\.mark\.({marked.replace(' or ', '|')})\b")
    rooms = (ROOT / "tests" / room for room in ("dashboard", "workers"))
    every = sorted(file for room in rooms for file in room.rglob("test_*.py"))
    return [str(file) for file in every if marker.search(file.read_text(encoding="utf-8"))]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "marked", [WHERE_IT_MATTERS, pytest.param(WHOLE, marks=pytest.mark.nightly)], ids=["where it matters", "whole"]
)
def test_the_same_tests_pass_on_postgresql(database_url, marked):
    """All in one process: to start one and to migrate a database takes longer than most of these files."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment = {**ours, "DATABASE_URL": database_url}
    options = ["-q", "-rs", "--maxfail=5", "-n", "0", "--create-db", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, "-m", marked, *files(marked)]

    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert ONLY_POSTGRESQL not in done.stdout, "it was no PostgreSQL"
