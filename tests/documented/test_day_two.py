"""docs/day-two.md: a backup while everything runs, the loss of all files and rows, and the restore."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest
import redis

from tests.dashboard.costs.test_costs_command import write_usage
from tests.documented.blocks import ROOT, block
from tests.documented.stage import ANSWERS, APPLICATION, USER, Stage, stage
from tests.documented.terminal import Served, Terminal, terminal, until_that
from tests.postgres import programs

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(programs() is None, reason="PostgreSQL is not installed here"),
]
PAGE = "docs/day-two.md"
MANAGE = ".venv/bin/python manage.py"
REASON = "before the backup"
MONTH = "2026-10"
"""The month of `write_usage`."""


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
    (folder / "database_url").write_text(database, encoding="utf-8")
    variables = {
        **{name: value for name, value in here.variables.items() if name != "DATABASE_URL"},
        "DATABASE_URL_FILE": str(folder / "database_url"),
        "USAGE_DIR": str(folder / "usage"),
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


@dataclass(frozen=True, slots=True)
class Kept:
    """What people see and a restore has to bring back."""

    events: frozenset[str]
    audit: frozenset[str]
    costs: str
    charges: list[str]
    computed: str


def kept(here: Stage, shell: Terminal) -> Kept:
    """The events and the costs of the pages, and the month computed anew from the usage files."""
    shell.succeed(f"{MANAGE} compute_charges --month {MONTH} --output charges.csv")
    with here.signed_in() as browser:
        costs = browser.get("/costs/", params={"month": MONTH}).text
        return Kept(
            events=frozenset(browser.get("/events.csv").text.splitlines()),
            audit=frozenset(browser.get("/audit.csv").text.splitlines()),
            costs=browser.get("/costs.csv", params={"month": MONTH}).text,
            charges=re.findall(r"\d[\d.,]* (?:<small>)?USD", costs),
            computed=(shell.folder / "charges.csv").read_text(encoding="utf-8"),
        )


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["postgres", "sqlite"])
def test_everything_that_was_kept_is_there_after_a_restore(kind: str, here: Stage, tmp_path: Path) -> None:
    """Database, usage files and all that is in Redis are lost, while an application sends."""
    if kind == "sqlite" and shutil.which("sqlite3") is None:
        pytest.skip("there is no sqlite3 here")
    folder = tmp_path / "checkout"
    database = (
        created(here.variables["DATABASE_URL"])
        if kind == "postgres"
        else f"sqlite:///{folder}/.state/control-plane.sqlite3"
    )
    postgres_dump, sqlite_backup, usage = (block(PAGE, number) for number in (1, 2, 3))

    with terminal(tmp_path / "application", {}, {**here.variables, "PYTHONPATH": str(ROOT)}) as elsewhere:
        application = sending(elsewhere)
        with control_plane(here, folder, database) as shell:
            shell.succeed(f"{MANAGE} migrate -v0")
            shell.succeed(f"{MANAGE} sync_pairs")
            assert shell.answer(f"{MANAGE} createsuperuser", ANSWERS).status == 0
            start(here, shell)
            shell.succeed(f'{MANAGE} pairing fail-over contoso orders --user {USER} --reason "{REASON}"')
            until_that(lambda: REASON in events(here), "the event is stored")
            until_that(lambda: here.namespaces.in_backlog() > 5, "messages are sent into the backlog")
            write_usage(folder / "usage")
            before = kept(here, shell)
            shell.follow(postgres_dump if kind == "postgres" else sqlite_backup)
            shell.follow(usage)

        shutil.rmtree(folder / "usage")
        shutil.rmtree(folder / ".state")
        (folder / ".state").mkdir()
        if kind == "postgres":
            created(here.variables["DATABASE_URL"])
        lose_everything_in_redis(here)
        alone = sent(application)

        with control_plane(here, folder, database) as shell:
            restore(shell, kind, block(PAGE, 4).commands, block(PAGE, 5).commands)
            start(here, shell)
            until_that(lambda: "held" in shell.run(f"{MANAGE} pairing entities").text, "the failover is known again")
            after = kept(here, shell)
            assert before.events <= after.events
            assert before.audit <= after.audit
            assert replace(after, events=before.events, audit=before.audit) == before
            assert any(REASON in line for line in before.audit)
            assert before.charges, "the page shows amounts"

            assert sent(application) > alone, "the application was not stopped"
            shell.succeed(f'{MANAGE} pairing mark-healthy contoso orders --user {USER} --reason "restored"')
            application.end()
            until_that(lambda: here.namespaces.stats("orders")["active"] == sent(application), "all is in the primary")
    assert "refused" not in application.text, "every send was accepted, in the primary or in the backlog"


def sending(shell: Terminal) -> Served:
    """An application of the fleet; the control plane need not run."""
    (shell.folder / "application.py").write_text(APPLICATION, encoding="utf-8")
    application = shell.serve(f"{sys.executable} application.py")
    application.until(lambda text: "sent " in text, "the first message")
    return application


def sent(application: Served) -> int:
    return len(re.findall(r"^sent \d+$", application.text, re.MULTILINE))


def restore(shell: Terminal, kind: str, of_postgres: list[str], of_sqlite: list[str]) -> None:
    """As the page says: with SQLite a copy in the place of pg_restore; the usage files in both cases."""
    (dump, *then), (copy, *files) = of_postgres, of_sqlite
    for command in (dump if kind == "postgres" else copy, *then, *files):
        shell.succeed(command)


def events(here: Stage) -> str:
    with here.signed_in() as browser:
        return browser.get("/events/").text


def created(url: str) -> str:
    """An empty database on this server; one of the same name that was there is gone with all that it held."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("drop database if exists control_plane with (force)")
        connection.execute("create database control_plane")
    return url.rpartition("/")[0] + "/control_plane"


def lose_everything_in_redis(here: Stage) -> None:
    with redis.Redis.from_url(here.variables["REDIS_URL"]) as client:
        client.flushall()
