"""Two local namespaces of their own, in processes that tests may break, freeze and restart; and the two worlds."""

import asyncio
import inspect
import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import hypothesis  # noqa: F401  # early: imported late, CPython 3.11 may miscount its parser's depth (gh-106905)
import pytest
from azure.servicebus import ServiceBusClient
from azure.servicebus.management import ServiceBusAdministrationClient
from redis import Redis

import pairing
import pairing.aio
from pairing import SendAvailabilityOptions
from pairing.fleet.coordination import RedisCoordination
from pairing.fleet.shared_health import SharedHealth
from pairing.fleet.shared_state import SharedState
from tests.acceptance.fleet import RedisServer
from tests.administration import administration_of
from tests.pace import GUARD
from tests.pairing import leftovers
from tests.pairing.model_redis import NearRedis
from tests.prompt_links import without_pauses  # noqa: F401

_KEY = "local-namespace-key"


class LocalNamespace:
    """An emulator process with one namespace."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.port = 0
        self.start()

    def start(self) -> None:
        """Start, on the port it had before where it had one."""
        command = [sys.executable, "-m", "emulator", "--namespace", f"{self.name}:{self.port}", "--key", _KEY]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        ready = self.process.stdout.readline().split(maxsplit=2)
        assert ready[:1] == ["ready"], "the emulator did not start"
        self.connection_string = ready[2].strip()
        self.port = int(self.connection_string.split(";")[0].rsplit(":", 1)[1])

    def stop(self) -> None:
        """End the process; its messages are gone."""
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait(60)
        self.process.stdout.close()

    def freeze(self) -> None:
        """The process stops where it is: connections stay, nothing is answered."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Go on."""
        self.process.send_signal(signal.SIGCONT)

    def fault(self, **fault: Any) -> None:
        """Let this fault strike from now on."""
        self._call("POST", "/$emulator/faults", fault)

    def mend(self) -> None:
        """End all faults."""
        self._call("DELETE", "/$emulator/faults")

    def hits(self) -> list[int]:
        """How often each fault has struck."""
        return [fault["hits"] for fault in self._call("GET", "/$emulator/faults")]

    def stats(self, path: str) -> dict[str, int]:
        """What the namespace counted for an entity."""
        return self._call("GET", "/$emulator/stats").get(path, {})

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=data, method=method)
        with urllib.request.urlopen(request, timeout=60) as response:
            text = response.read()
        return json.loads(text) if text else None

    def administration(self) -> ServiceBusAdministrationClient:
        """A client to administer it with."""
        return administration_of(self.connection_string, retry_total=0)

    def create_queue(self, **properties: Any) -> str:
        """A new queue, nobody else's."""
        name = f"queue-{uuid4().hex[:8]}"
        with self.administration() as administration:
            administration.create_queue(name, **properties)
        return name

    def create_topic(self) -> str:
        """A new topic with a subscription ``audit``."""
        name = f"topic-{uuid4().hex[:8]}"
        with self.administration() as administration:
            administration.create_topic(name)
            administration.create_subscription(name, "audit")
        return name

    def receive(self, path: str, count: int, *, within_s: float = 10.0, subscription: str | None = None) -> list[Any]:
        """``count`` messages of a queue or subscription, taken off it; fewer where they do not come in time.

        On a slow machine it takes longer: while a queue has messages, they are waited for.
        """
        found: list[Any] = []
        with ServiceBusClient.from_connection_string(self.connection_string) as client:
            receiver = (
                client.get_queue_receiver(path, keep_alive=0)  # the SDK's keep-alive thread makes closing slow
                if subscription is None
                else client.get_subscription_receiver(path, subscription, keep_alive=0)
            )
            with receiver:
                began = time.monotonic()  # when the link is open: that may take long
                limit_s = within_s
                while len(found) < count and (left := began + limit_s - time.monotonic()) > 0:
                    for message in receiver.receive_messages(count - len(found), max_wait_time=min(left, 2.0)):
                        receiver.complete_message(message)
                        found.append(message)
                    if len(found) < count:
                        limit_s = GUARD * within_s if self.stats(path).get("active", 0) else within_s
        return found

    def drain(self, path: str) -> list[Any]:
        """All messages of a queue that nobody else receives from: it is known how many they are."""
        return self.receive(path, self.stats(path).get("active", 0), within_s=120)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of the test's own, that it may kill, freeze and start again empty."""
    server = RedisServer(tmp_path, has_port=False)
    yield server
    server.thaw()
    server.kill()


@pytest.fixture
def near_redis(server: RedisServer) -> Iterator[NearRedis]:
    """A client for a random model, of a Redis of the test's own."""
    with NearRedis.of(server.url) as client:
        yield client


@pytest.fixture
def shared(redis_client: Redis) -> SharedState:
    """What the processes of the pair ``contoso`` share."""
    return SharedState(redis_client, "contoso")


class Reader:
    """A process without threads, that reads when the test says so."""

    def __init__(self, url: str, name: str) -> None:
        self.coordination = RedisCoordination(url, "contoso", name)
        self.reported: list[SharedHealth] = []
        self.coordination._on_change = self.reported.append

    def reads(self) -> None:
        self.coordination._reconcile()

    def hears(self, news: SharedHealth) -> None:
        self.coordination._learn(news)


@pytest.fixture
def one(redis_url: str) -> Iterator[Reader]:
    """A process of that pair."""
    reader = Reader(redis_url, "one")
    yield reader
    reader.coordination.close()


@pytest.fixture(autouse=True)
def what_lives_already() -> None:
    """What a module before has kept for its process is not counted as left behind."""
    leftovers.begin()


@pytest.fixture(scope="session")
def _two_processes() -> Iterator[tuple[LocalNamespace, LocalNamespace]]:
    primary, secondary = LocalNamespace("contoso"), LocalNamespace("contoso-dr")
    yield primary, secondary
    primary.stop()
    secondary.stop()


def mended(namespace: LocalNamespace) -> Iterator[LocalNamespace]:
    yield namespace
    namespace.thaw()
    namespace.mend()


@pytest.fixture
def primary(_two_processes: tuple[LocalNamespace, LocalNamespace]) -> Iterator[LocalNamespace]:
    """The primary namespace, mended afterwards."""
    yield from mended(_two_processes[0])


@pytest.fixture
def secondary(_two_processes: tuple[LocalNamespace, LocalNamespace]) -> Iterator[LocalNamespace]:
    """The secondary namespace, mended afterwards."""
    yield from mended(_two_processes[1])


class World:
    """One of the two worlds: ``await world(function, …)`` calls what blocks on a thread and awaits what is awaited."""

    def __init__(self, name: str, primary: LocalNamespace, secondary: LocalNamespace) -> None:
        self.name = name
        self.module = pairing if name == "sync" else pairing.aio
        self.primary, self.secondary = primary, secondary
        self.clients: list[Any] = []
        self.events: list[pairing.Event] = []

    async def __call__(self, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        if self.name == "asyncio":
            result = function(*arguments, **keywords)
            return await result if inspect.isawaitable(result) else result
        return await asyncio.to_thread(function, *arguments, **keywords)

    def client(self, *, clock: Any = None, **options: Any) -> Any:
        """A client that is not open yet, of a pair that no other test knows."""
        settings = {
            "primary_namespace": f"contoso-{uuid4().hex[:8]}",
            "secondary_namespace": "contoso-dr",
            "backlog_queue_count": 2,
            "failover_interval": timedelta(0),
            "ping_primary_interval": timedelta(seconds=1),
            "creation_retry_interval": timedelta(0),
        }
        client = self.module.PairedServiceBusClient.from_connection_string(
            self.primary.connection_string,
            self.secondary.connection_string,
            options=SendAvailabilityOptions(**settings | options),
            clock=clock,
        )
        client.on_event(self.events.append)
        client.pair_state.on_event = client._callbacks.call  # at once, so that a test sees what a call has reported
        self.clients.append(client)
        return client

    async def open(self, **options: Any) -> Any:
        """An open client."""
        client = self.client(**options)
        await self(client.open)
        return client

    @asynccontextmanager
    async def syphon(self, client: Any) -> AsyncIterator[Any]:
        """A syphon at work, which is stopped in the end."""
        syphon, stop = self.module.Syphon(client), threading.Event() if self.name == "sync" else asyncio.Event()
        running = asyncio.ensure_future(self(syphon.run, stop))
        try:
            yield syphon
        finally:
            stop.set()
            await running

    async def warm(self, client: Any, path: str) -> None:
        """Open the link of a client to a backlog queue now."""
        await self(client._runtime.run, client._open_backlog_link(path))

    @property
    def reported(self) -> list[str]:
        """The kinds of the events so far."""
        return [event.kind for event in self.events]

    async def until(self, condition: Callable[[], Any], within_s: float = 60.0) -> Any:
        """What the condition says once it is true; fails where it does not become true in time."""
        deadline = time.monotonic() + within_s
        while not (said := condition()):
            assert time.monotonic() < deadline, f"not within {within_s} s: {inspect.getsource(condition).strip()}"
            await asyncio.sleep(0.02)
        return said

    async def close(self) -> None:
        """Close every client, and leave no backlog queue behind: long lists make other tests slow."""
        with self.secondary.administration() as administration:
            for client in self.clients:
                await self(client.close)
                for path in client.backlog_paths:
                    administration.delete_queue(path)


@pytest.fixture(params=["sync", "asyncio"])
async def world(request: pytest.FixtureRequest, primary: LocalNamespace, secondary: LocalNamespace) -> Any:
    """Each world in turn."""
    world = World(request.param, primary, secondary)
    yield world
    primary.thaw()
    secondary.thaw()
    await world.close()


@pytest.fixture
def make_world(primary: LocalNamespace, secondary: LocalNamespace) -> Callable[[str], World]:
    """One of the worlds by its name, ``sync`` or ``asyncio``; whoever asks for it closes it."""
    return lambda name: World(name, primary, secondary)


@pytest.fixture
def queue(primary: LocalNamespace) -> str:
    """A queue of the primary that no other test knows."""
    return primary.create_queue()
