"""Workers and beat as they are deployed, without a supervisor, outlive Redis (docs/operations.md, Redis is away)."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
import redis

from pairing.fleet.redis_url import client_of
from tests.acceptance.control_plane import AnyRedis, ControlPlane, DistantRedis
from tests.acceptance.fleet import Namespaces, RedisServer
from tests.pace import GUARD, Stopwatch
from tests.selection import nightly
from tests.sentinels import Sentinels, tls_is_built_in

pytestmark = pytest.mark.acceptance
QUEUES = ("pings", "syphons", "collectors", "samples", "backlog", "pipeline", "alerts")
NAMES = ("beat", "one", "two")
BACK_WITHIN_S = 10.0
"""What docs/operations.md promises."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.kill()


@pytest.fixture(scope="module")
def plane(server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("control-plane")
    namespaces = Namespaces("contoso", "orders", "payments")
    plane = ControlPlane(folder, namespaces, server)
    plane.start(*NAMES)
    yield plane
    plane.end()
    namespaces.end()
    print((folder / "workers.log").read_text()[-20_000:])


def until(holds: Callable[[], bool], within_s: float, what: str) -> None:
    """Returns as soon as it holds; fails after several times as long as a quiet machine needs."""
    deadline = time.monotonic() + GUARD * within_s
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {within_s:g} s"
        time.sleep(0.05)  # between two looks


def at_work(server: AnyRedis, since: datetime) -> set[str]:
    """The workers whose heartbeat was written after `since`."""
    with suppress(redis.RedisError), server.client() as client:
        reported = {str(worker): str(text) for worker, text in client.hgetall("workers:heartbeat").items()}
        return {
            worker.partition("@")[0]
            for worker, text in reported.items()
            if datetime.fromisoformat(json.loads(text)["time"]) > since
        }
    return set()


def leases(server: AnyRedis) -> set[str]:
    """Leases of backlog queues: tasks run, and syphons were started by them."""
    with suppress(redis.RedisError), server.client() as client:
        held = {str(key) for key in client.scan_iter("pairing:{contoso}:lease:*")}
        return {key for key in held if client.type(key) == "string" and 0 < client.ttl(key) < 60}
    return set()


def all_work(plane: ControlPlane, server: AnyRedis, since: datetime) -> bool:
    assert not exits(plane)
    return at_work(server, since) >= {"one", "two"} and len(leases(server)) >= 2


def exits(plane: ControlPlane) -> dict[str, int]:
    """The processes that have ended, with their exit status."""
    ended = {name: worker.poll() for name, worker in plane.workers.items()}
    return {name: status for name, status in ended.items() if status is not None}


@pytest.fixture
def working(plane: ControlPlane, server: RedisServer) -> None:
    asked = datetime.now(UTC)
    until(lambda: all_work(plane, server, asked), 60, "workers are at work before Redis goes away")


def killed(server: RedisServer) -> None:
    """It comes back empty."""
    server.kill()
    time.sleep(6)
    server.start()


def frozen(server: RedisServer) -> None:
    """Connections stay open and nothing answers."""
    server.freeze()
    time.sleep(8)
    server.thaw()


def emptied(server: RedisServer) -> None:
    """It goes on with nothing in it."""
    with server.client() as client:
        client.flushall()


def restarted(server: RedisServer) -> None:
    """It is back before anybody has tried to connect."""
    server.kill()
    server.start()


def refusing(server: RedisServer) -> None:
    """It asks for a password that nobody has."""
    with server.client() as client:
        client.config_set("requirepass", "a password that was changed")
        end_connections(client)
        time.sleep(6)
        client.config_set("requirepass", "")


def full(server: RedisServer) -> None:
    """It has as many clients as it takes."""
    with server.client() as client:
        usual = client.config_get("maxclients")["maxclients"]
        client.config_set("maxclients", 1)
        end_connections(client)
        time.sleep(6)
        client.config_set("maxclients", usual)


def end_connections(client: redis.Redis) -> None:
    """All but its own."""
    for kind in ("normal", "pubsub"):
        client.client_kill_filter(_type=kind, skipme=True)


@pytest.mark.usefixtures("working")
@pytest.mark.parametrize("outage", [killed, *nightly(frozen, emptied, restarted, refusing, full)])
def test_workers_and_beat_outlive_redis_and_are_at_work_again_within_ten_seconds(
    plane: ControlPlane, server: RedisServer, outage: Callable[[RedisServer], None]
) -> None:
    for _ in range(2):
        outage(server)
        back = datetime.now(UTC)
        with Stopwatch() as watch:
            until(lambda back=back: all_work(plane, server, back), BACK_WITHIN_S, "workers are at work")  # type: ignore[misc]
        assert watch.took < BACK_WITHIN_S

    assert not exits(plane)


@pytest.fixture
def early_plane(tmp_path: Path) -> Iterator[tuple[ControlPlane, RedisServer]]:
    """One that is started while nobody listens on the port of Redis."""
    server, namespaces = RedisServer(tmp_path), Namespaces("contoso", "orders", "payments")
    server.kill()
    plane = ControlPlane(tmp_path, namespaces, server)
    plane.start(*NAMES)
    yield plane, server
    plane.end()
    namespaces.end()
    server.kill()
    print((tmp_path / "workers.log").read_text()[-20_000:])


def all_have_looked(plane: ControlPlane) -> bool:
    """Whether both workers and beat have looked for Redis often enough to pause as long as they ever do."""
    log = (plane.folder / "workers.log").read_text()
    return log.count("(6/None)") == 2 and "beat: Connection error" in log


@pytest.mark.nightly
def test_workers_and_beat_that_start_before_redis_wait_for_it(early_plane: tuple[ControlPlane, RedisServer]) -> None:
    plane, server = early_plane
    until(lambda: all_have_looked(plane), 60, "all have looked for Redis")
    assert not exits(plane)

    server.start()
    there = datetime.now(UTC)
    with Stopwatch() as watch:
        until(lambda: all_work(plane, server, there), BACK_WITHIN_S, "workers are at work")

    assert watch.took < BACK_WITHIN_S
    assert not exits(plane)


@pytest.fixture
def distant_plane(tmp_path: Path) -> Iterator[tuple[ControlPlane, DistantRedis]]:
    near, namespaces = RedisServer(tmp_path), Namespaces("contoso", "orders", "payments")
    server = DistantRedis(near)
    plane = ControlPlane(tmp_path, namespaces, server)
    plane.start(*NAMES)
    yield plane, server
    plane.end()
    namespaces.end()
    server.end()
    near.kill()
    print((tmp_path / "workers.log").read_text()[-20_000:])


@pytest.mark.nightly
@pytest.mark.parametrize("delay_s", [0.3, 3.0], ids=["answers late", "answers later than anybody waits"])
def test_workers_and_beat_outlive_a_slow_redis(
    distant_plane: tuple[ControlPlane, DistantRedis], delay_s: float
) -> None:
    plane, server = distant_plane
    asked = datetime.now(UTC)
    until(lambda: all_work(plane, server, asked), 60, "workers are at work before Redis is slow")

    server.disturb("delay", delay_s=delay_s)
    time.sleep(10)
    server.disturb("mend")
    fast = datetime.now(UTC)
    with Stopwatch() as watch:
        until(lambda: all_work(plane, server, fast), BACK_WITHIN_S, "workers are at work")

    assert watch.took < BACK_WITHIN_S
    assert not exits(plane)


class PromotedRedis:
    """The master that Sentinels name, for a control plane."""

    def __init__(self, watched: Sentinels) -> None:
        self.url = watched.url

    def client(self) -> redis.Redis:
        return client_of(self.url, decode_responses=True, socket_timeout=5)


@pytest.fixture(scope="module", params=[False, True], ids=["in clear", "over TLS"])
def watched(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sentinels]:
    if request.param and not tls_is_built_in():
        pytest.skip("this redis-server was built without TLS")
    watched = Sentinels(tmp_path_factory.mktemp("sentinels"), tls=request.param)
    yield watched
    watched.end()


@pytest.fixture(scope="module")
def replicated_plane(watched: Sentinels, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("replicated-control-plane")
    namespaces = Namespaces("contoso", "orders", "payments")
    plane = ControlPlane(folder, namespaces, PromotedRedis(watched))
    plane.start(*NAMES)
    yield plane
    plane.end()
    namespaces.end()
    print((folder / "workers.log").read_text()[-20_000:])


@pytest.mark.nightly
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_workers_and_beat_follow_a_failover_of_redis_within_ten_seconds(
    replicated_plane: ControlPlane, watched: Sentinels, how: signal.Signals
) -> None:
    server, asked = PromotedRedis(watched), datetime.now(UTC)
    until(lambda: all_work(replicated_plane, server, asked), 60, "workers are at work before the master goes away")

    old = watched.fail_over(how)
    promoted = datetime.now(UTC)
    with Stopwatch() as watch:
        until(lambda: all_work(replicated_plane, server, promoted), BACK_WITHIN_S, "workers are at work")
    watched.bring_back(old)
    back = datetime.now(UTC)

    until(lambda: all_work(replicated_plane, server, back), 60, "workers are at work after the old master has returned")
    assert watch.took < BACK_WITHIN_S
    assert not exits(replicated_plane)
