"""A private PostgreSQL server, or the one DATABASE_URL names: for the tests that only PostgreSQL can answer."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.conftest import free_port

SEARCHED = Path("/usr/lib/postgresql")
SERVER_ACCOUNTS = ("postgres", "nobody")
SETTINGS = ("unix_socket_directories=", "listen_addresses=127.0.0.1", "log_min_messages=fatal")
HASTY = (*SETTINGS, "fsync=off")


def programs() -> Path | None:
    """The newest folder with `initdb` and `postgres`: of the PATH, or Debian's; None where there is none."""
    on_path = shutil.which("initdb")
    found = [Path(on_path).resolve().parent] if on_path else []
    found += sorted(SEARCHED.glob("*/bin"), key=lambda folder: float(folder.parent.name), reverse=True)
    return next((one for one in found if (one / "initdb").exists() and (one / "postgres").exists()), None)


def account() -> str | None:
    """PostgreSQL refuses to run as root: who it runs as then. None: as we do."""
    if os.geteuid() != 0:
        return None
    return next(name for name in SERVER_ACCOUNTS if _exists(name))


def _exists(name: str) -> bool:
    try:
        return bool(pwd.getpwnam(name))
    except KeyError:
        return False


@contextmanager
def cluster(*, is_durable: bool = False) -> Iterator[str]:
    """The URL of a server that nobody else uses, with nothing in it, gone afterwards. Raises AssertionError.

    It waits for its disk only if it is to be measured.
    """
    binaries, user, port = programs(), account(), free_port()
    assert binaries, "no PostgreSQL"
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    try:
        if user:
            shutil.chown(folder, user)
        data = folder / "data"
        made = subprocess.run(
            [binaries / "initdb", "-D", data, "-U", "tests", "-A", "trust", "-E", "UTF8", "--no-sync"],
            user=user,
            cwd=folder,
            capture_output=True,
            text=True,
        )
        assert made.returncode == 0, made.stderr
        with _serving(binaries, data, port, user, SETTINGS if is_durable else HASTY):
            yield f"postgres://tests@127.0.0.1:{port}/postgres"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _serving(binaries: Path, data: Path, port: int, user: str | None, settings: tuple[str, ...]) -> Iterator[None]:
    options = [part for setting in settings for part in ("-c", setting)]
    command = [binaries / "postgres", "-D", data, "-p", str(port), *options]
    with (data.parent / "log").open("w+") as log:
        server = subprocess.Popen(command, user=user, cwd=data, stdout=log, stderr=log)
        try:
            _await_answer(server, port)
            yield
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)


def _await_answer(server: subprocess.Popen[bytes], port: int) -> None:
    """Until it takes connections. Raises OperationalError where it ends, or does not begin within 30 seconds."""
    until = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(f"postgres://tests@127.0.0.1:{port}/postgres", connect_timeout=5).close()
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > until:
                raise
            time.sleep(0.05)  # between two looks; the condition is that it answers
        else:
            return
