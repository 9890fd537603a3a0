"""A fleet for tests: two local namespaces, a Redis that can be killed and frozen, and applications, all processes."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from multiprocessing.connection import Client, Connection, Listener, wait
from pathlib import Path
from typing import Any

import redis

from emulator.running import running
from pairing.fleet.shared_state import SharedState
from tests.campaign.network import Route
from tests.conftest import start_redis
from tests.pace import GUARD
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
SIZE = int(os.environ.get("FLEET_SIZE", "8"))
"""Application processes of a fleet; the benchmark has 50."""
DURATIONS_S = {"failover_interval": 1.0, "ping_primary_interval": 1.0, "send_timeout": 10.0}
_TURN_S = 0.1


class RedisServer:
    """A redis-server on one port, or with a socket alone, that forgets everything when it is killed."""

    def __init__(self, folder: Path, *, has_port: bool = True) -> None:
        self.folder, self.port = folder, free_port() if has_port else 0
        self.url = f"redis://127.0.0.1:{self.port}/0" if has_port else f"unix://{folder}/redis.sock"
        self.start()

    def start(self) -> None:
        self.process = start_redis(self.folder, self.port, "--unixsocket", "redis.sock")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url, decode_responses=True)


class Relay:
    """A way to a port that can be cut: while it is, connections are reset and new ones refused."""

    def __init__(self, port: int) -> None:
        self._loop, self._route = asyncio.new_event_loop(), Route("relay", port)
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self._thread.start()
        accepting = asyncio.start_server(self._route.accept, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(accepting, self._loop).result(60)
        self.port: int = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        self._disturb("cut")

    def mend(self) -> None:
        self._disturb("mend")

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._all_ended(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    async def _all_ended(self) -> None:
        self._server.close()
        self._route.disturb({"effect": "cut"})
        if connections := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(connections)

    def _disturb(self, effect: str) -> None:
        self._loop.call_soon_threadsafe(self._route.disturb, {"effect": effect})


class Namespaces:
    """The primary and the secondary, in one emulator process; its counters judge."""

    def __init__(self, name: str, *entities: str) -> None:
        self._ending = ExitStack()
        names, paths = (name, f"{name}-dr"), [f"{name}/{entity}" for entity in entities]
        self.primary, self.secondary = self._ending.enter_context(running(*names, entities=paths)).values()
        self.strings = [self.primary.connection_string, self.secondary.connection_string]

    def break_(self, entity: str | None, operation: str = "send", effect: str = "reject", **more: Any) -> None:
        """Sends to an entity of the primary are rejected from now on."""
        self.primary.fault(operation, effect, entity=entity, **more)

    def mend(self) -> None:
        self.primary.mend()
        self.secondary.mend()

    def stats(self, entity: str) -> dict[str, int]:
        """What the primary counted for an entity."""
        return self.primary.stats().get(entity, {})

    def in_backlog(self) -> int:
        """Messages that were ever stored in backlog queues."""
        return sum(self.stored().values())

    def stored(self) -> dict[str, int]:
        """Messages that were ever stored, by backlog queue."""
        return {path: counts["enqueued"] for path, counts in self.secondary.stats().items()}

    def end(self) -> None:
        self._ending.close()


class Member:
    """One application process, and what it reported."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pid = 0
        self.process = ""
        self.is_ready = self.has_ended = False
        self.events: list[tuple[str, str, float]] = []
        self.heard: list[tuple[str, str, float]] = []
        self.sent: Counter[str] = Counter()
        self.accepted: list[str] = []
        self.raised: Counter[str] = Counter()
        self.errors: list[str] = []
        self.slowest_s = 0.0
        self.answers: list[Any] = []
        self.channel: Connection | None = None

    def hear(self, kind: str, *rest: Any) -> None:
        match kind:
            case "ready":
                self.is_ready = True
            case "event":
                self.events.append(rest)  # type: ignore[arg-type]
            case "heard":
                self.heard.append(rest)  # type: ignore[arg-type]
            case "sent":
                self.sent[rest[0]] += 1
                self.accepted.append(rest[1])
                self.slowest_s = max(self.slowest_s, rest[2])
            case "raised":
                self.raised[rest[0]] += 1
                self.errors.append(rest[1])
            case "answer":
                self.answers.append(rest[0])

    def kinds(self, entity: str) -> list[str]:
        """The transitions of an entity as this process saw them."""
        return [kind for kind, path, _ in self.events if path == entity]


class SpawnServer:
    """Starts applications, of one fleet after the other: to import what they need takes longer than many a story."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.acceptance.fleet_spawner"],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            text=True,
        )

    def spawn(self, reported: dict[str, Any]) -> None:
        """One more application; it tells by itself when it is there."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(reported) + "\n")
        self._process.stdin.flush()

    def end(self) -> None:
        """Starts no more."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


class Fleet:
    """The applications of one pair; with a spawn server of its own where it is given none.

    `reconcile_s`: how often they tell what they know and look what others do, if not as often as ever.
    """

    def __init__(
        self,
        folder: Path,
        namespaces: Namespaces,
        server: RedisServer,
        pair: str,
        spawn_server: SpawnServer | None = None,
        reconcile_s: float | None = None,
    ) -> None:
        self.folder, self.namespaces, self.server, self.pair = folder, namespaces, server, pair
        self.members: list[Member] = []
        self._address = str(folder / f"fleet-{pair}.sock")
        self._listener = Listener(self._address, family="AF_UNIX", backlog=128)
        self._news = threading.Condition()
        self._is_over = False
        self._spawner, self._is_own_spawner = spawn_server or SpawnServer(), spawn_server is None
        self._reconcile_s = reconcile_s
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._welcome, self._listen)]
        for thread in self._threads:
            thread.start()

    @property
    def shared(self) -> SharedState:
        """What stands in Redis."""
        return SharedState(self.server.client(), self.pair)

    def start(
        self,
        count: int,
        *,
        entities: tuple[str, ...] = ("orders",),
        every_s: float = 0.25,
        durations: dict[str, float] | None = None,
        **more: Any,
    ) -> list[Member]:
        """Starts so many applications with these options (durations in seconds), all ready and connected to Redis."""
        numbers = range(len(self.members), len(self.members) + count)
        fresh = [Member(f"m{number}") for number in numbers]
        self.members += fresh
        for member in fresh:
            self._spawn(member, list(entities), every_s, DURATIONS_S | (durations or {}), more)
        self.until(lambda: all(member.is_ready for member in fresh), 60, "the applications are ready")
        self.connected(fresh)
        return fresh

    def _spawn(
        self, member: Member, entities: list[str], every_s: float, durations: dict[str, float], more: dict[str, Any]
    ) -> None:
        reported = {
            "name": member.name,
            "entities": entities,
            "every_s": every_s,
            "address": self._address,
            "redis": self.server.url,
            "namespaces": self.namespaces.strings,
            "durations": durations,
            "options": {"primary_namespace": self.pair, "secondary_namespace": f"{self.pair}-dr", **more},
            "reconcile_s": self._reconcile_s,
        }
        self._spawner.spawn(reported)

    def connected(self, members: list[Member]) -> None:
        """Returns when all of them reach Redis."""
        for member in members:
            self.until(lambda m=member: self.ask(m, "is_connected"), 30, f"{member.name} reaches Redis")

    def until(self, holds: Callable[[], Any], within_s: float, what: str) -> Any:
        """What the condition gives as soon as it is true; fails with `what` at the limit."""
        deadline = time.monotonic() + GUARD * within_s  # the limit is for a quiet machine
        while not (found := holds()):
            assert time.monotonic() < deadline, f"not within {within_s:.0f} s: {what}\n{self.story()}"
            with self._news:
                self._news.wait(0.05)
        return found

    def story(self) -> str:
        """What the processes reported, for whoever wants to know why a test failed."""
        return "\n".join(
            f"{m.name}: sent {dict(m.sent)}, raised {dict(m.raised)} {m.errors[-1:]}, "
            f"slowest {m.slowest_s:.2f} s, {[(kind, path) for kind, path, _ in m.events]}"
            for m in self.members
        )

    def ask(self, member: Member, verb: str, *arguments: Any) -> Any:
        """What a member answers."""
        before = len(member.answers)
        assert member.channel is not None
        member.channel.send((verb, *arguments))
        self.until(lambda: len(member.answers) > before or member.has_ended, 30, f"{member.name} answers {verb}")
        return member.answers[before]

    def states(self, entity: str) -> list[str]:
        """The entity's state in each living process."""
        return [self.ask(member, "health", entity)[0] for member in self.living]

    @property
    def living(self) -> list[Member]:
        return [member for member in self.members if not member.has_ended]

    def sent(self, entity: str) -> int:
        """Messages of which all processes together were reported that they are stored."""
        return sum(member.sent[entity] for member in self.members)

    def all_go_on_sending(self, entity: str, within_s: float = 20, by: int = 2) -> None:
        """Every process gets some more messages accepted."""
        before = {member.name: member.sent[entity] for member in self.living}
        self.until(
            lambda: all(member.sent[entity] >= before[member.name] + by for member in self.living),
            within_s,
            f"all go on sending to {entity}",
        )

    @staticmethod
    def clock() -> float:
        """Seconds on the clock that all processes of a machine share."""
        return time.monotonic()

    def kill(self, member: Member) -> None:
        """SIGKILL, and returns when it is gone."""
        assert member.pid > 1
        os.kill(member.pid, signal.SIGKILL)
        self.until(lambda: member.has_ended, 10, f"{member.name} is gone")

    def close(self, member: Member) -> None:
        """Lets it close its client and end."""
        assert member.channel is not None
        member.channel.send(("end",))
        self.until(lambda: member.has_ended, 15, f"{member.name} has ended")

    def end(self) -> None:
        """Kills what lives and lets nothing behind."""
        self._is_over = True
        if self._is_own_spawner:
            self._spawner.end()
        for member in self.living:
            if member.pid > 1:
                with suppress(ProcessLookupError):
                    os.kill(member.pid, signal.SIGKILL)
        Client(self._address, family="AF_UNIX").close()  # wakes who waits for one more
        for thread in self._threads:
            thread.join(60)
        self._listener.close()
        for member in self.members:
            if member.channel is not None:
                member.channel.close()

    def _welcome(self) -> None:
        while not self._is_over:
            try:
                channel = self._listener.accept()
                _, name, pid, process = channel.recv()
            except EOFError:
                return
            member = next(member for member in self.members if member.name == name)
            member.pid, member.process, member.channel = pid, process, channel

    def _listen(self) -> None:
        while not self._is_over:
            channels = {m.channel: m for m in self.living if m.channel is not None}
            if not channels:
                time.sleep(_TURN_S)
                continue
            for channel in wait(list(channels), _TURN_S):
                self._hear(channels[channel], channel)  # type: ignore[index,arg-type]

    def _hear(self, member: Member, channel: Connection) -> None:
        try:
            reported = channel.recv()
        except (EOFError, OSError):
            member.has_ended = True
        else:
            member.hear(*reported)
        with self._news:
            self._news.notify_all()
