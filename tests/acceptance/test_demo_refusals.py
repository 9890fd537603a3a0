"""Whatever keeps the demo from starting is one sentence that says what to do, and leaves nothing running."""

import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.demo import guardian
from tests import conftest, forked


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield int(listener.getsockname()[1])


@pytest.fixture
def free_port() -> int:
    return conftest.free_port()


def start_demo(folder: Path, **variables: str) -> str:
    """The one sentence with which the demo refuses to start."""
    environment = os.environ | {"DEMO_DIR": str(folder), "STATE_DIR": str(folder.parent / "outer")} | variables
    outcome = forked.run(("manage.py", "demo"), environment)
    assert outcome.returncode == 1
    assert "Traceback" not in outcome.stderr + outcome.stdout
    assert len(outcome.stderr.strip().splitlines()) == 1
    return outcome.stderr.strip()


def test_a_port_in_use(tmp_path: Path, taken_port: int) -> None:
    sentence = start_demo(tmp_path / "demo", DEMO_PORT=str(taken_port))
    assert f"Port {taken_port} is in use" in sentence
    assert "DEMO_PORT=" in sentence


@pytest.mark.nightly
def test_a_folder_with_somebody_elses_files(tmp_path: Path, free_port: int) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    assert "name an empty folder" in start_demo(tmp_path, DEMO_PORT=str(free_port))
    assert (tmp_path / "thesis.txt").exists()


@pytest.mark.nightly
def test_another_demo_in_the_same_folder(tmp_path: Path, free_port: int) -> None:
    folder = tmp_path / "demo"
    folder.mkdir()
    with (folder / "demo.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "Another demo is running" in start_demo(folder, DEMO_PORT=str(free_port))


@pytest.mark.nightly
def test_no_redis_server(tmp_path: Path, free_port: int) -> None:
    sentence = start_demo(tmp_path / "demo", DEMO_PORT=str(free_port), PATH=str(tmp_path))
    assert "install it (apt install redis-server)" in sentence


def test_a_program_that_cannot_start_takes_the_others_with_it(tmp_path: Path, free_port: int) -> None:
    broken = tmp_path / "bin"
    broken.mkdir()
    (broken / "redis-server").write_text("#!/bin/sh\necho Fatal: out of luck >&2\nexit 3\n")
    (broken / "redis-server").chmod(0o755)
    marker = f"{guardian.SET_UP}=refusal-{os.getpid()}"
    name, value = marker.split("=")
    path = f"{broken}{os.pathsep}{os.environ['PATH']}"
    sentence = start_demo(tmp_path / "demo", DEMO_PORT=str(free_port), PATH=path, **{name: value})
    assert "redis has ended (exit code 3): Fatal: out of luck" in sentence
    assert not list(guardian.survivors(marker, set()))
