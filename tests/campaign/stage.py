"""Everything a campaign runs on, started in order: Redis, namespaces, the network, control plane, applications."""

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import redis
from azure.servicebus.management import ServiceBusAdministrationClient

from dashboard.demo import guardian
from dashboard.demo.processes import Program
from pairing import emulator_transport
from pairing.fleet.shared_state import SharedState
from tests import migrated, postgres
from tests.campaign import crowd, disks, journal, schedule
from tests.campaign.application import WAYS, journal_of
from tests.campaign.plan import BACKLOG_QUEUES, PAIR, Plan
from tests.campaign.processes import Processes
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
READY_S = 120.0
USER = "campaign"
BACKLOG_LOCK = timedelta(seconds=10)
"""What a killed process had locked comes back after this time, not after a minute: kills would else only wait."""
LOCK = timedelta(seconds=10)
MOST_DELIVERIES = 2000

PAIRS = """\
[pairs.{pair}]
primary = {{ connection_string_env = "CAMPAIGN_PRIMARY", namespace = "{pair}" }}
secondary = {{ connection_string_env = "CAMPAIGN_SECONDARY", namespace = "{pair}-dr" }}
backlog_queue_count = {backlog_queues}
failover_interval_s = 1
ping_primary_interval_s = 1
entities = {entities}
"""
PREPARING = f"""
import django
django.setup()
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.utils import timezone
from dashboard.access import tokens
call_command("migrate", verbosity=0, interactive=False)
call_command("sync_pairs", verbosity=0)
person, _ = User.objects.get_or_create(username="{USER}")
person.groups.set(Group.objects.filter(name="operator"))
print("token", tokens.make(person, "campaign", "operate", 30, timezone.now())[1])
"""
Say = Callable[[str], None]


class StageError(Exception):
    """Something of the campaign did not start; the text says what, and where its log is."""


class Stage:
    """The servers and their addresses, and the processes by name."""

    def __init__(self, plan: Plan, folder: Path, say: Say) -> None:
        self.plan, self.folder, self.say = plan, folder, say
        self.run_id = secrets.token_hex(8)
        self.ports = {name: free_port() for name in ("primary", "secondary", "redis", "web", *schedule.GATEWAYS)}
        self.routes = {route: free_port() for route in schedule.routes(plan)}
        self.key = secrets.token_urlsafe(32)
        self.token = ""
        self.notes: list[str] = []
        """What could not be had here, for the report."""
        self._resources = ExitStack()
        self.disks = disks.Disks(folder / "stores", self._resources)
        os.environ.setdefault(journal.EPOCH, journal.epoch())
        self.processes = Processes(folder, f"{guardian.DEMO}={self.run_id}")
        self.redis_url = f"redis://127.0.0.1:{self.ports['redis']}/0"
        self.client = redis.Redis.from_url(self.redis_url, decode_responses=True, socket_timeout=5)
        self.shared = SharedState(self.client, PAIR)
        self._database_url = ""

    # starting ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """All of it; raises StageError."""
        self.start_redis()
        self.start_namespaces()
        self.start_network()
        self._write_ways()
        self.make_entities()
        self.make_crowd()
        if self.plan.has_control_plane:
            self.start_control_plane()
        for name in schedule.names(self.plan)["gateways"]:
            self.start_gateway(name)
        self.start_applications()

    def start_redis(self) -> None:
        """It keeps every write on its disk, so that a kill of it loses nothing that it has answered."""
        folder = self.folder / "redis"
        folder.mkdir(exist_ok=True)
        program = shutil.which("redis-server")
        if program is None:
            raise StageError("redis-server is missing: run `make campaign`, which brings one")
        argv = (program, "--port", str(self.ports["redis"]), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder))
        self._start("redis", *argv, "--appendonly", "yes", "--appendfsync", "always")
        self.until(self._redis_answers, "Redis answers", log="redis")

    def _redis_answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.RedisError:
            return False

    def start_namespaces(self) -> None:
        key_file = self.write("namespaces.key", self.key)
        for name, namespace in (("primary", PAIR), ("secondary", f"{PAIR}-dr")):
            words = ("--namespace", f"{namespace}:{self.ports[name]}", "--store", str(self.disks.folder(name)))
            argv = (sys.executable, "-m", "emulator", *words, "--key-file", str(key_file))
            self._start(name, *argv)
        for name in ("primary", "secondary"):
            self.until(lambda n=name: self.answers(n), f"the {name} answers", log=name)

    def answers(self, name: str) -> bool:
        """Whether a namespace answers now."""
        try:
            self.ask_namespace(name, "GET", "stats")
        except OSError:
            return False
        return True

    def start_network(self) -> None:
        arguments = [f"{route}={port}:{self.ports[route.partition('-')[2]]}" for route, port in self.routes.items()]
        program = self._program("network", sys.executable, "-m", "tests.campaign.network", *arguments)
        log = (self.folder / "logs" / "network.log").open("ab")
        self._network = subprocess.Popen(
            program.argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True,
            env=dict(program.environment),
        )  # fmt: skip
        self._resources.callback(self._end_network)
        self._resources.callback(log.close)
        assert self._network.stdout is not None
        if self._network.stdout.readline() != b"ready\n":
            raise StageError("the network did not start; see logs/network.log")

    def _end_network(self) -> None:
        self._network.kill()
        self._network.wait()
        for pipe in (self._network.stdin, self._network.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def disturb_network(self, **disturbance: Any) -> None:
        assert self._network.stdin is not None
        self._network.stdin.write(json.dumps(disturbance).encode() + b"\n")
        self._network.stdin.flush()

    def connection_string(self, port: int) -> str:
        name = "SharedAccessKeyName=RootManageSharedAccessKey"
        return f"Endpoint=sb://127.0.0.1:{port};{name};SharedAccessKey={self.key};UseDevelopmentEmulator=true;"

    def _ways(self, group: str | None) -> dict[str, Any]:
        ports = {server: self.routes.get(f"{group}-{server}", self.ports[server]) for server in self.ports}
        strings: dict[str, Any] = {server: self.connection_string(ports[server]) for server in ("primary", "secondary")}
        strings["gateways"] = [self.connection_string(self.ports[gateway]) for gateway in schedule.GATEWAYS]
        return strings | {"redis": f"redis://127.0.0.1:{ports['redis']}/0"}

    def _write_ways(self) -> None:
        groups = ("senders", "receivers", "drainers", "workers")
        self.write(WAYS, json.dumps({group: self._ways(group) for group in groups}))

    def make_entities(self) -> None:
        """The entities, and backlog queues with a shorter lock; those of an earlier part of the run stay."""
        primary, secondary = (self.connection_string(self.ports[name]) for name in ("primary", "secondary"))
        common: dict[str, Any] = {"lock_duration": LOCK, "max_delivery_count": MOST_DELIVERIES}
        with _administration(primary) as client:
            if "orders" in {queue.name for queue in client.list_queues()}:
                return
            client.create_queue("orders", **common)
            client.create_queue("payments", requires_duplicate_detection=True, **common)
            client.create_queue("sessions", requires_session=True, **common)
            client.create_topic("events")
            for subscription in ("audit", "mail"):
                client.create_subscription("events", subscription, **common)
        with _administration(secondary) as client:
            for number in range(BACKLOG_QUEUES):
                properties: dict[str, Any] = {"lock_duration": BACKLOG_LOCK, "max_delivery_count": 2**31 - 1}
                client.create_queue(f"{PAIR}/x-servicebus-transfer/{number}", max_size_in_megabytes=5120, **properties)

    def make_crowd(self) -> None:
        """The queues that outages are of, where they are not there."""
        with _administration(self.connection_string(self.ports["primary"])) as client:
            there = {queue.name for queue in client.list_queues()}
            for name in crowd.names(self.plan.crowd):
                if name not in there:
                    client.create_queue(name, lock_duration=LOCK, max_delivery_count=MOST_DELIVERIES)

    def delete_queues(self, names: Iterable[str]) -> None:
        """Those of them that are empty: of the others, it is read at the end what has arrived."""
        counts = self.ask_namespace("primary", "GET", "stats")
        with _administration(self.connection_string(self.ports["primary"])) as client:
            for name in names:
                if not counts.get(name, {}).get("active"):
                    client.delete_queue(name)

    def start_control_plane(self) -> None:
        """Web, two workers and beat, on PostgreSQL if there is one."""
        entities = ["orders", "payments", "sessions", "topic:events", *crowd.names(self.plan.crowd)]
        names = {"pair": PAIR, "backlog_queues": BACKLOG_QUEUES, "entities": json.dumps(entities)}
        self.write("pairs.toml", PAIRS.format(**names))
        self._choose_database()
        prepared = subprocess.run(
            [sys.executable, "-c", PREPARING], cwd=ROOT, env=self._environment(), capture_output=True, text=True
        )
        lines = [line for line in prepared.stdout.splitlines() if line.startswith("token ")]
        if not lines:
            raise StageError(f"the database could not be prepared: {prepared.stderr[-2000:]}")
        self.token = lines[0].split()[1]
        celery = (sys.executable, "-m", "celery", "-A", "workers")
        for name in ("worker-1", "worker-2"):
            self._start(name, *celery, "worker", "--hostname", f"{name}@%h", "--loglevel", "WARNING")
        self._start("beat", *celery, "beat", "--loglevel", "WARNING", "-s", str(self.folder / "beat"))
        address = ("--host", "127.0.0.1", "--port", str(self.ports["web"]))
        uvicorn = ("-m", "uvicorn", "dashboard.asgi:application", *address, "--timeout-graceful-shutdown", "2")
        self._start("web", sys.executable, *uvicorn, "--log-level", "warning")
        self.until(self.web_answers, "the dashboard is ready", log="web")

    def web_answers(self) -> bool:
        try:
            with _direct.open(f"http://127.0.0.1:{self.ports['web']}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _choose_database(self) -> None:
        file = self.folder / "control-plane.sqlite3"
        if self.plan.has_postgres and postgres.programs():
            self._database_url = self._resources.enter_context(postgres.cluster())
            return
        if self.plan.has_postgres:
            self.notes.append("PostgreSQL is not installed here: the control plane ran on SQLite")
        self._database_url = f"sqlite:///{file}"
        if not file.exists():
            migrated.copy(file)

    def start_gateway(self, name: str) -> None:
        """Clients have the key of the namespaces; it reaches those as senders do."""
        pairs = self.write("gateway.toml", PAIRS.format(pair=PAIR, backlog_queues=BACKLOG_QUEUES, entities="[]"))
        keys, ways = self.write("gateway.keys", f"RootManageSharedAccessKey {self.key}"), self._ways("senders")
        listens = ("--pair", PAIR, "--listen", f"127.0.0.1:{self.ports[name]}", "--health", "127.0.0.1:0")
        watched = (sys.executable, "-m", "tests.campaign.watched", str(journal_of(self.folder, name)))
        argv = (*watched, "--pairs-file", str(pairs), "--key-file", str(keys))
        ends = {"CAMPAIGN_PRIMARY": ways["primary"], "CAMPAIGN_SECONDARY": ways["secondary"]}
        program = self._program(name, *argv, *listens, "--coordination", ways["redis"])
        self.processes.start(replace(program, environment={**program.environment, **ends}))

    def start_applications(self) -> None:
        groups = schedule.names(self.plan)
        roles = {"receivers": "receiver", "senders": "sender", "intruders": "intruder"}
        if not self.plan.has_control_plane:
            roles = {"drains": "drainer"} | roles
        for group, role in roles.items():
            for name in groups[group]:
                self._start(name, sys.executable, "-m", f"tests.campaign.{role}", str(self.folder), name)

    # used while it runs -----------------------------------------------------------------------------------------------

    def ask_namespace(self, name: str, method: str, what: str, body: Any = None) -> Any:
        """The answer of a namespace's own interface. Raises OSError."""
        data = None if body is None else json.dumps(body).encode()
        url = f"http://127.0.0.1:{self.ports[name]}/$emulator/{what}"
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
        with _direct.open(request, timeout=5) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def ask_api(self, method: str, path: str, body: Any = None) -> Any:
        """The answer of the control plane's API. Raises OSError; an urllib.error.HTTPError if it refuses."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        url = f"http://127.0.0.1:{self.ports['web']}/api/v1{path}"
        with _direct.open(urllib.request.Request(url, data, headers, method=method), timeout=10) as answer:
            return json.loads(answer.read())

    def until(self, holds: Callable[[], bool], what: str, *, log: str) -> None:
        """Returns once it holds; raises StageError if it does not in time."""
        deadline = time.monotonic() + READY_S
        while not holds():
            if time.monotonic() > deadline:
                raise StageError(f"not in {READY_S:.0f} s: {what}; see logs/{log}.log")
            time.sleep(0.1)  # between two looks

    def write(self, name: str, text: str) -> Path:
        """A file that only its owner can read."""
        path = self.folder / name
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
        return path

    def close(self) -> None:
        """Every process has ended when it returns."""
        self.client.close()
        self.processes.close()
        self._resources.close()

    # ------------------------------------------------------------------------------------------------------------------

    def _start(self, name: str, *argv: str) -> None:
        self.processes.start(self._program(name, *argv))

    def _program(self, name: str, *argv: str) -> Program:
        return Program(name, argv, self._environment())

    def _environment(self) -> dict[str, str]:
        """The environment of the processes. A coordinate of the host leads to no real namespace."""
        ways = self._ways("workers")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("CAMPAIGN_ARG")}
        return kept | {
            "PYTHONPATH": str(ROOT),
            "STATE_DIR": str(self.folder),
            "DATABASE_URL": self._database_url,
            "REDIS_URL": ways["redis"],
            "PAIRS_FILE": str(self.folder / "pairs.toml"),
            "USAGE_DIR": str(self.folder / "metering"),
            "SAMPLE_INTERVAL_S": "5",
            "CAMPAIGN_PRIMARY": ways["primary"],
            "CAMPAIGN_SECONDARY": ways["secondary"],
            "DJANGO_SETTINGS_MODULE": "tests.dashboard.served_settings",
            "ALLOWED_HOSTS": "127.0.0.1",
            "SECRET_KEY": "",
            "HTTPS": "0",
            "DEBUG": "0",
            "NO_PROXY": "127.0.0.1,localhost",
            "PYTHONUNBUFFERED": "1",
            guardian.DEMO: self.run_id,
        }


_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _administration(connection_string: str) -> ServiceBusAdministrationClient:
    return ServiceBusAdministrationClient.from_connection_string(connection_string, transport=emulator_transport())
