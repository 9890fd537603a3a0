"""docs/day-two.md: a backup while everything runs, the loss of all files and rows, and the restore."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.dashboard.costs.test_costs_command import write_usage
from tests.documented.blocks import ROOT, block
from tests.documented.stage import ANSWERS, USER, Stage, stage
from tests.documented.terminal import Terminal, terminal, until_that
from tests.postgres import programs

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.skipif(programs() is None, reason="PostgreSQL is not installed here"),
]
PAGE = "docs/day-two.md"
MANAGE = ".venv/bin/python manage.py"
REASON = "before the backup"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path / "stage") as found:
        yield found


@contextmanager
def control_plane(here: Stage, folder: Path, database: str) -> Iterator[Terminal]:
    """Web, worker and beat of a checkout in this folder, on this database; not migrated."""
    folder.mkdir(exist_ok=True)
    for name, there in {".venv": Path(sys.prefix), "manage.py": ROOT / "manage.py"}.items():
        if not (folder / name).exists():
            (folder / name).symlink_to(there)
    variables = {
        **here.variables,
        "DATABASE_URL": database,
        "STATE_DIR": str(folder / ".state"),
        "PYTHONPATH": str(ROOT),
        "PATH": f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }
    with terminal(folder, here.instead, variables) as shell:
        yield shell


def start(here: Stage, shell: Terminal) -> None:
    for process in (f"web --port {here.port}", "worker", "beat"):
        shell.serve(f"{MANAGE} {process}")
    until_that(here.is_ready, "all is ready")


@pytest.mark.parametrize("kind", ["postgres", "sqlite"])
def test_everything_that_was_kept_is_there_after_a_restore(kind: str, here: Stage, tmp_path: Path) -> None:
    if kind == "sqlite" and shutil.which("sqlite3") is None:
        pytest.skip("there is no sqlite3 here")
    folder = tmp_path / "checkout"
    first = here.variables["DATABASE_URL"] if kind == "postgres" else f"sqlite:///{folder}/.state/control-plane.sqlite3"
    postgres_dump, sqlite_backup, usage = (block(PAGE, number) for number in (1, 2, 3))
    postgres_restore, sqlite_restore = block(PAGE, 4), block(PAGE, 5)

    with control_plane(here, folder, first) as shell:
        shell.succeed(f"{MANAGE} migrate -v0")
        shell.succeed(f"{MANAGE} sync_pairs")
        assert shell.answer(f"{MANAGE} createsuperuser", ANSWERS).status == 0
        start(here, shell)
        shell.succeed(f'{MANAGE} pairing fail-over contoso orders --user {USER} --reason "{REASON}"')
        until_that(lambda: REASON in events(here), "the event is stored")
        write_usage(folder / ".state/metering")
        shell.follow(postgres_dump if kind == "postgres" else sqlite_backup)
        shell.follow(usage)

    shutil.rmtree(folder / ".state")
    (folder / ".state").mkdir()
    second = empty_database(first) if kind == "postgres" else first
    with control_plane(here, folder, second) as shell:
        restore(shell, kind, postgres_restore.commands, sqlite_restore.commands)
        start(here, shell)
        with here.signed_in() as browser:
            assert REASON in browser.get("/audit/").text
        assert REASON in events(here)
        assert list((folder / ".state/metering/usage/date=2026-10-01").glob("*.parquet"))
        assert " 0 problem" in shell.succeed(f"{MANAGE} check --environment")


def restore(shell: Terminal, kind: str, of_postgres: list[str], of_sqlite: list[str]) -> None:
    """As the page says: with SQLite a copy in the place of pg_restore; the usage files in both cases."""
    (dump, *then), (copy, files) = of_postgres, of_sqlite
    for command in (dump if kind == "postgres" else copy, *then, files):
        shell.succeed(command)


def events(here: Stage) -> str:
    with here.signed_in() as browser:
        return browser.get("/events/").text


def empty_database(url: str) -> str:
    """Another one on the same server: the old one is gone."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create database restored")
    return url.rpartition("/")[0] + "/restored"
