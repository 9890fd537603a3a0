"""The control plane and its workers on a real PostgreSQL: the same tests again, in a run of their own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres import cluster, programs

ROOT = Path(__file__).resolve().parents[2]
RUNS = {
    "what the database refuses and takes": ["tests/dashboard/test_database.py", "tests/dashboard/test_projection.py"],
    "pages and charts": [
        "tests/dashboard/test_pages.py",
        "tests/dashboard/test_ten_thousand.py",
        "tests/dashboard/test_incidents.py",
        "tests/dashboard/test_groups.py",
        "tests/dashboard/test_ledgers.py",
    ],
    "verbs, rights and forgetting": [
        "tests/dashboard/test_control.py",
        "tests/dashboard/test_several.py",
        "tests/dashboard/test_access.py",
        "tests/dashboard/test_pruning.py",
    ],
    "collectors and pauses": ["tests/workers/test_collectors.py", "tests/workers/test_pauses.py"],
}


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


@pytest.mark.parametrize("files", RUNS.values(), ids=RUNS)
def test_on_postgresql(database_url, files):
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment = {**ours, "DATABASE_URL": database_url}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "--create-db", "-p", "no:cacheprovider", *files]

    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_it_was_postgresql(database_url):
    ask = "from django.db import connection as c; print(c.vendor)"
    environment = {**os.environ, "DATABASE_URL": database_url}
    command = [sys.executable, "manage.py", "shell", "-v0", "-c", ask]

    assert subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True).stdout == "postgresql\n"
