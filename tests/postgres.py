"""A private PostgreSQL server, or the one DATABASE_URL names: for the tests that only PostgreSQL can answer."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from tests.ports import free_port

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


class Server:
    """A server that nobody else uses, with a folder of its own; it can be killed, frozen and started again.

    It waits for its disk only if it is to be measured. A kill of its processes loses nothing: the host goes on.
    """

    def __init__(self, *, is_durable: bool = False) -> None:
        binaries, self._user, self.port = programs(), account(), free_port()
        assert binaries, "no PostgreSQL"
        self.url = f"postgres://tests@127.0.0.1:{self.port}/postgres"
        self._binaries = binaries
        self._settings = SETTINGS if is_durable else HASTY
        self._folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        self._frozen: list[int] = []
        try:
            self._make()
        except BaseException:
            self.remove()
            raise

    def _make(self) -> None:
        if self._user:
            shutil.chown(self._folder, self._user)
        command = [self._binaries / "initdb", "-D", self._folder / "data", "-U", "tests", "-A", "trust", "-E", "UTF8"]
        made = subprocess.run(
            [*command, "--no-sync"], user=self._user, cwd=self._folder, capture_output=True, text=True
        )
        assert made.returncode == 0, made.stderr

    def start(self) -> None:
        """Returns once it takes connections. Raises OperationalError where it ends, or does not begin in 30 seconds."""
        options = [part for setting in self._settings for part in ("-c", setting)]
        command = [self._binaries / "postgres", "-D", self._folder / "data", "-p", str(self.port), *options]
        with (self._folder / "log").open("a+") as log:
            self.process = subprocess.Popen(command, user=self._user, cwd=self._folder, stdout=log, stderr=log)
        _await_answer(self.process, self.port)

    def kill(self) -> None:
        """SIGKILL to the server and to the process of each connection, as if its host had gone."""
        family = [self.process.pid, *_children(self.process.pid)]
        _signal(family, signal.SIGKILL)
        self.process.wait(60)
        while any(Path(f"/proc/{pid}").exists() for pid in family):  # the shared memory is theirs
            time.sleep(0.02)  # between two looks

    def freeze(self) -> None:
        """Connections stay open and nothing answers."""
        self.process.send_signal(signal.SIGSTOP)  # first: it starts no more of the others
        self._frozen = _children(self.process.pid)
        _signal(self._frozen, signal.SIGSTOP)

    def thaw(self) -> None:
        _signal([*self._frozen, self.process.pid], signal.SIGCONT)
        self._frozen = []

    def end(self) -> None:
        """It ends at once, and its folder is gone."""
        if self.process.poll() is None:
            self.thaw()
            self.process.send_signal(signal.SIGINT)
            self.process.wait(60)
        self.remove()

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _children(process: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            if int(entry.read_text().rpartition(")")[2].split()[1]) == process:
                found.append(int(entry.parent.name))
    return found


def _signal(processes: Iterable[int], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


@contextmanager
def cluster(*, is_durable: bool = False) -> Iterator[str]:
    """The URL of a server that nobody else uses, with nothing in it, gone afterwards. Raises AssertionError.

    It waits for its disk only if it is to be measured.
    """
    server = Server(is_durable=is_durable)
    try:
        server.start()
        yield server.url
    finally:
        server.end()


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
