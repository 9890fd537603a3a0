"""docs/installation.md and docs/deployment.md line by line, with PostgreSQL and Redis, in empty environments."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documented.blocks import Block, block
from tests.documented.stage import ANSWERS, Stage, stage, tell_of_a_failover
from tests.documented.terminal import Terminal, checkout, empty_environment, terminal, tried, until_that
from tests.postgres import programs

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(programs() is None, reason="PostgreSQL is not installed here"),
]
SERVES = ("paired-namespaces web", "paired-namespaces worker", "paired-namespaces beat", "uvicorn ", " -A workers ")


@pytest.fixture
def here(room: Path) -> Iterator[Stage]:
    with stage(room / "stage") as found:
        yield found


def serves(command: str) -> bool:
    """Whether a command is a process that runs until it is ended."""
    return any(text in command for text in SERVES)


def follow(here: Stage, shell: Terminal, page: Block) -> None:
    """Each command of a block: questions are answered, and processes go on running."""
    for command in tried(page):
        if serves(command):
            shell.serve(command)
        elif command.endswith(" createsuperuser"):
            ended = shell.answer(command, ANSWERS)
            assert ended.status == 0, ended.text
            assert "Superuser created successfully" in ended.text
        else:
            shell.succeed(command)
    until_that(here.is_ready, "all is ready")


def test_the_installation_page_leads_to_a_control_plane_that_sees_a_failover(here: Stage, room: Path) -> None:
    tree = checkout(room / "checkout")
    (tree / ".venv").symlink_to(sys.prefix)  # `make setup` has made it
    variables = empty_environment(room / "environment")
    with terminal(tree, {}, variables) as builder:
        builder.follow(block("docs/installation.md", 1))
        variables = {**builder.variables, **here.variables}
    with terminal(room / "empty", here.instead, variables) as shell:
        shell.follow(block("docs/quickstart.md", 1))
        shell.follow(block("docs/installation.md", 2))
        shutil.copy(here.variables["PAIRS_FILE"], shell.folder)

        follow(here, shell, block("docs/installation.md", 3))

        tell_of_a_failover(here, shell, "python", "paired-namespaces pairing entities")


def test_the_control_plane_runs_from_a_checkout_as_described(here: Stage, room: Path) -> None:
    tree = checkout(room / "checkout")
    with terminal(tree, here.instead, here.variables) as shell:
        follow(here, shell, block("docs/deployment.md", 1))
        tell_of_a_failover(here, shell, ".venv/bin/python", ".venv/bin/python manage.py pairing entities")


def test_one_host_is_set_up_as_described_up_to_the_service_manager(here: Stage, dist: Path, room: Path) -> None:
    tree = checkout(room / "checkout")
    shutil.copytree(dist, tree / "dist")
    for folder in ("etc/systemd/system", "opt"):
        (room / folder).mkdir(parents=True)
    places = {name: str(room / name.strip("/")) for name in ("/opt/paired-namespaces", "/etc/")}
    places["/etc/"] += "/"
    with terminal(tree, places, here.variables) as shell:
        shell.follow(block("docs/deployment.md", 2))
        shell.follow(block("docs/deployment.md", 3))
        program = "/opt/paired-namespaces/bin/paired-namespaces"  # as the units spell it; it is in the room here
        shell.succeed(f"{program} migrate -v0")
        assert "contoso: new" in shell.succeed(f"{program} sync_pairs")
    assert (room / "etc/paired-namespaces/secrets").stat().st_mode & 0o777 == 0o700
    units = {path.name for path in (room / "etc/systemd/system").iterdir()}
    assert {"paired-namespaces-web.service", "paired-namespaces.target", "paired-namespaces-.service.d"} <= units
    assert (room / "etc/paired-namespaces/paired-namespaces.env").is_file()
    assert (room / "etc/sysusers.d/paired-namespaces.conf").is_file()
