"""The control plane as docs/deployment.md describes it, for tests that kill any of its processes; without a supervisor.

Two web processes, three workers that share the queues, two beats, PostgreSQL, and a Redis that keeps its data.
"""

import http.client
import subprocess
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

from tests import postgres
from tests.acceptance.control_plane import ControlPlane
from tests.acceptance.fleet import ROOT, Namespaces, RedisServer
from tests.conftest import start_redis
from tests.ports import free_port

KINDS = {
    "web": ("web-1", "web-2"),
    "workers": ("worker-1", "worker-2"),
    "collectors": ("collector",),
    "beat": ("beat-1", "beat-2"),
}
"""The processes by what they do; Redis and PostgreSQL are servers of their own."""
QUEUES = {
    "worker-1": "pings,syphons",
    "worker-2": "pings,syphons",
    "collector": "collectors,samples,backlog,pipeline,alerts",
}
"""The example of docs/deployment.md."""
SIGNING_IN = """
from django.contrib.auth.models import User
from django.test import Client
client = Client()
client.force_login(User.objects.create_superuser("ada"))
print(client.cookies["sessionid"].value)
"""
ANSWER_S = 30.0


class DurableRedis(RedisServer):
    """A redis-server as docs/production.md configures it: what it has answered survives a kill."""

    def start(self) -> None:
        kept = ("--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "noeviction")
        self.process = start_redis(self.folder, self.port, *kept)


class Deployment(ControlPlane):
    """All processes of one control plane, by name."""

    def __init__(self, folder: Path, namespaces: Namespaces, server: RedisServer, database: postgres.Server) -> None:
        self.redis, self.database = server, database
        self.ports = {name: free_port() for name in KINDS["web"]}
        super().__init__(folder, namespaces, server, DATABASE_URL=database.url, HTTPS="0", ALLOWED_HOSTS="127.0.0.1")
        self.session = self.manage("shell", "-v0", "-c", SIGNING_IN).stdout.strip()

    def command(self, name: str) -> list[str]:
        """As docs/production.md has it."""
        if name in self.ports:
            address = ["--host", "127.0.0.1", "--port", str(self.ports[name])]
            options = ["--timeout-graceful-shutdown", "3", "--log-level", "warning"]
            return ["-m", "uvicorn", "dashboard.asgi:application", *address, *options]
        queues = ["-Q", QUEUES[name]] if name in QUEUES else []
        return [*super().command(name), *queues]

    def manage(self, *words: str) -> subprocess.CompletedProcess[str]:
        """What a command of an operator on this host prints."""
        return self.run("manage.py", *words, check=True)

    def shell(self, command: str) -> tuple[int, str]:
        """Status and text of a command of an operator on this host."""
        ran = subprocess.run(
            command, shell=True, cwd=ROOT, env=self._environment, capture_output=True, text=True, timeout=120
        )
        return ran.returncode, ran.stdout + ran.stderr

    def get(self, web: str, path: str) -> tuple[int, str, dict[str, str]]:
        """Status, text and headers of a page, as the person who is signed in gets it; status 0 without an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[web], timeout=ANSWER_S)
        with closing(connection):
            try:
                connection.request("GET", path, headers={"Cookie": f"sessionid={self.session}"})
                answer = connection.getresponse()
                return answer.status, answer.read().decode(), dict(answer.getheaders())
            except (OSError, http.client.HTTPException):
                return 0, "", {}

    def rows(self, query: str, *values: object) -> list[Any]:
        with psycopg.connect(self.database.url, connect_timeout=10) as connection:
            return connection.execute(query, values).fetchall()  # type: ignore[arg-type]

    def end(self) -> None:
        self._thaw_all()
        super().end()

    def strike(self, kinds: Iterable[str], how: str) -> None:
        """Kills all processes of these kinds at once, or freezes Redis or PostgreSQL."""
        for kind in kinds:
            if kind in KINDS:
                for name in KINDS[kind]:
                    self.kill(name)
            else:
                getattr(self._server_of(kind), how)()

    def repair(self, kinds: Iterable[str], how: str) -> None:
        """Starts again what was killed, and nothing else, as systemd would."""
        for kind in kinds:
            if kind in KINDS:
                self.start(*KINDS[kind])
            else:
                getattr(self._server_of(kind), {"kill": "start", "freeze": "thaw"}[how])()

    def _server_of(self, kind: str) -> RedisServer | postgres.Server:
        return {"redis": self.redis, "postgres": self.database}[kind]

    def _thaw_all(self) -> None:
        for server in (self.redis, self.database):
            if server.process.poll() is None:
                server.thaw()
