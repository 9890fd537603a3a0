"""Whole Celery workers and beat for tests, around a fleet's Redis and local namespaces; real signals, real files."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import redis

from tests import forked, migrated
from tests.acceptance.fleet import ROOT, Namespaces, RedisServer
from tests.ports import free_port

HEARTBEATS = "workers:heartbeat"
PAIRS = """
[pairs.contoso]
primary = { connection_string_env = "FLEET_PRIMARY", namespace = "contoso" }
secondary = { connection_string_env = "FLEET_SECONDARY", namespace = "contoso-dr" }
backlog_queue_count = 2
failover_interval_s = 1
ping_primary_interval_s = 1
entities = ["orders", "payments"]
"""
PREPARING = """
import os, django
os.environ["DJANGO_SETTINGS_MODULE"] = "dashboard.settings"
django.setup()
from django.core.management import call_command
for command in ("migrate", "sync_pairs"):
    call_command(command)
"""
"""Both in one process: a start of Django takes as long as either."""


Worker = forked.Process | subprocess.Popen[bytes]


def await_stopped(pid: int) -> None:
    """Returns when a process that was sent SIGSTOP has stopped."""
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.001)


class AnyRedis(Protocol):
    """Where a control plane finds its Redis, and a client for the test."""

    url: str

    def client(self) -> redis.Redis: ...


class DistantRedis:
    """A Redis behind a network that delays what passes through it, for a control plane; the test's client is near."""

    def __init__(self, server: RedisServer) -> None:
        self.client, port = server.client, free_port()
        self.url = f"redis://127.0.0.1:{port}/0"
        command = [sys.executable, "-m", "tests.campaign.network", f"redis={port}:{server.port}"]
        self._network = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._network.stdout is not None
        assert self._network.stdout.readline() == "ready\n"

    def disturb(self, effect: str, **more: float) -> None:
        assert self._network.stdin is not None
        print(json.dumps({"route": "redis", "effect": effect, **more}), file=self._network.stdin, flush=True)

    def end(self) -> None:
        self._network.kill()
        self._network.communicate()


class ControlPlane:
    """The workers of the pair `contoso`, with a database and usage files of their own."""

    def __init__(self, folder: Path, namespaces: Namespaces, server: AnyRedis, **settings: str) -> None:
        self.folder, self.usage, self.namespaces = folder, folder / "metering", namespaces
        self.workers: dict[str, Worker] = {}
        self._started: dict[str, datetime] = {}
        self._server = server
        (folder / "pairs.toml").write_text(PAIRS)
        primary, secondary = namespaces.strings
        self._environment = os.environ | {
            "STATE_DIR": str(folder),
            "DATABASE_URL": f"sqlite:///{folder}/db.sqlite3",
            "REDIS_URL": server.url,
            "PAIRS_FILE": str(folder / "pairs.toml"),
            "USAGE_DIR": str(self.usage),
            "DJANGO_SETTINGS_MODULE": "tests.dashboard.served_settings",
            "FLEET_PRIMARY": primary,
            "FLEET_SECONDARY": secondary,
            **settings,
        }
        self._log = (folder / "workers.log").open("ab")
        migrated.copy(folder / "db.sqlite3")
        self._environment["PYTHONPATH"] = str(ROOT)
        self.run("-c", PREPARING, check=True)

    def start(self, *names: str) -> None:
        """Starts workers of these names; those that begin with `beat` wake them."""
        for name in names:
            self._started[name] = datetime.now(UTC)
            self.workers[name] = self._started_as(self.command(name))

    def _started_as(self, words: list[str]) -> Worker:
        log = self._log.fileno()
        return forked.start(words, self._environment, log, log, own_session=True)

    def command(self, name: str) -> list[str]:
        """What a process of this name runs."""
        own = ["beat"] if name.startswith("beat") else ["worker", "--hostname", f"{name}@%h"]
        return ["-m", "celery", "-A", "workers", *own, "--loglevel", "WARNING"]

    def run(self, *arguments: str, check: bool = False) -> subprocess.CompletedProcess[str]:
        """Runs Python with the environment of the workers, in their folder, and returns what it printed."""
        return forked.run(arguments, self._environment, check=check)

    def stop(self, name: str) -> None:
        """SIGTERM, and returns when it has ended by itself."""
        self.signal(name, signal.SIGTERM)
        self.workers.pop(name).wait(120)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Sends a signal to a worker, and does not wait for what it does."""
        self.workers[name].send_signal(number)

    def freeze_idle(self, name: str) -> None:
        """Stops a worker, but not in the middle of a transaction: SQLite has one writer, and all would wait for it."""
        while True:
            self.signal(name, signal.SIGSTOP)
            await_stopped(self.workers[name].pid)
            if self._can_be_written():
                return
            self.signal(name, signal.SIGCONT)
            self._can_be_written()  # once it has ended its transaction

    def _can_be_written(self) -> bool:
        with closing(sqlite3.connect(self.folder / "db.sqlite3", timeout=2)) as database:
            try:
                database.execute("begin immediate")
            except sqlite3.OperationalError:
                return False
            return True

    def kill(self, name: str) -> None:
        """SIGKILL."""
        worker = self.workers.pop(name)
        worker.kill()
        worker.wait(10)

    def flood(self, tasks: dict[str, tuple[object, ...]], count: int) -> None:
        """Puts so many of each task, with these arguments, into their queues, for whoever takes them."""
        program = (
            "import json, sys\nfrom workers.celery import app\napp.loader.import_default_modules()\n"
            "for name, arguments in json.loads(sys.argv[1]).items():\n"
            "    for _ in range(int(sys.argv[2])): app.tasks[name].apply_async(arguments, ignore_result=True)\n"
        )
        self.run("-c", program, json.dumps(tasks), str(count), check=True)

    def is_at_work(self, name: str) -> bool:
        """Whether a worker was heard of since it was started."""
        return name in self.at_work(self._started[name])

    def at_work(self, since: datetime) -> set[str]:
        """The workers that were heard of after that; none while Redis is away."""
        with suppress(redis.RedisError), self._server.client() as client:
            reported = {str(worker): json.loads(text)["time"] for worker, text in client.hgetall(HEARTBEATS).items()}
            return {one.partition("@")[0] for one, at in reported.items() if datetime.fromisoformat(at) > since}
        return set()

    def exits(self) -> dict[str, int]:
        """The processes that have ended, with their exit status."""
        ended = {name: process.poll() for name, process in self.workers.items()}
        return {name: status for name, status in ended.items() if status is not None}

    def end(self) -> None:
        for name in list(self.workers):
            self.kill(name)
        self._log.close()

    def rows(self, query: str, *values: object) -> list[Any]:
        """What the database answers."""
        with closing(sqlite3.connect(self.folder / "db.sqlite3", timeout=30)) as database:
            return database.execute(query, values).fetchall()


@contextmanager
def running_plane(folder: Path, server: AnyRedis, *names: str, **settings: str) -> Iterator[ControlPlane]:
    """Two namespaces and processes of these names until the block ends; then, what they have logged is printed."""
    namespaces = Namespaces("contoso", "orders", "payments")
    plane = ControlPlane(folder, namespaces, server, **settings)
    try:
        plane.start(*names)
        yield plane
    finally:
        plane.end()
        namespaces.end()
        print((folder / "workers.log").read_text()[-20_000:])
