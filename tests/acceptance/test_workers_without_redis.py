"""Workers and beat as they are deployed, without a supervisor, outlive Redis (docs/operations.md, Redis is away)."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
import redis

from pairing.fleet.redis_url import client_of
from tests.acceptance.control_plane import AnyRedis, ControlPlane, DistantRedis, running_plane
from tests.acceptance.fleet import Fleet, RedisServer
from tests.pace import GUARD, Stopwatch, eventually
from tests.selection import nightly
from tests.sentinels import Sentinels, tls_is_built_in

pytestmark = pytest.mark.acceptance
QUEUES = ("pings", "syphons", "collectors", "samples", "backlog", "pipeline", "alerts")
NAMES = ("beat", "one", "two")
BACK_WITHIN_S = 10.0
"""What docs/operations.md promises."""


@pytest.fixture(scope="module")
def plane(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with running_plane(tmp_path_factory.mktemp("control-plane"), redis_server, *NAMES) as plane:
        yield plane


def until(holds: Callable[[], bool], within_s: float, what: str) -> None:
    """Returns as soon as it holds; fails after several times as long as a quiet machine needs."""
    eventually(holds, GUARD * within_s, lambda: what)


def leases(server: AnyRedis) -> set[str]:
    """Leases of backlog queues: tasks run, and syphons were started by them."""
    with suppress(redis.RedisError), server.client() as client:
        held = {str(key) for key in client.scan_iter("pairing:{contoso}:lease:*")}
        return {key for key in held if client.type(key) == "string" and 0 < client.ttl(key) < 60}
    return set()


def are_at_work(plane: ControlPlane, server: AnyRedis, within_s: float, since: datetime) -> None:
    """All do what they are for, once more, in this time."""

    def all_work() -> bool:
        assert not plane.exits()
        return plane.at_work(since) >= {"one", "two"} and len(leases(server)) >= 2

    until(all_work, within_s, "workers are at work")


def are_back_in_time(plane: ControlPlane, server: AnyRedis) -> None:
    """All are at work again within the promised time from now on."""
    back = datetime.now(UTC)
    with Stopwatch() as watch:
        are_at_work(plane, server, BACK_WITHIN_S, back)
    assert watch.took < BACK_WITHIN_S
    assert not plane.exits()


@pytest.fixture
def working(plane: ControlPlane, redis_server: RedisServer) -> None:
    are_at_work(plane, redis_server, 60, datetime.now(UTC))


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
    plane: ControlPlane, redis_server: RedisServer, outage: Callable[[RedisServer], None]
) -> None:
    for _ in range(2):
        outage(redis_server)
        are_back_in_time(plane, redis_server)


@pytest.fixture
def early_plane(tmp_path: Path) -> Iterator[tuple[ControlPlane, RedisServer]]:
    """One that is started while nobody listens on the port of Redis."""
    server = RedisServer(tmp_path)
    server.kill()
    with running_plane(tmp_path, server, *NAMES) as plane:
        yield plane, server
    server.kill()


def all_have_looked(plane: ControlPlane) -> bool:
    """Whether both workers and beat have looked for Redis often enough to pause as long as they ever do."""
    log = (plane.folder / "workers.log").read_text()
    return log.count("(6/None)") == 2 and "beat: Connection error" in log


@pytest.mark.nightly
def test_workers_and_beat_that_start_before_redis_wait_for_it(early_plane: tuple[ControlPlane, RedisServer]) -> None:
    plane, server = early_plane
    until(lambda: all_have_looked(plane), 60, "all have looked for Redis")
    assert not plane.exits()

    server.start()
    are_back_in_time(plane, server)


@pytest.fixture
def distant_plane(tmp_path: Path) -> Iterator[tuple[ControlPlane, DistantRedis]]:
    near = RedisServer(tmp_path)
    server = DistantRedis(near)
    with running_plane(tmp_path, server, *NAMES) as plane:
        yield plane, server
    server.end()
    near.kill()


@pytest.mark.nightly
@pytest.mark.parametrize("delay_s", [0.3, 3.0], ids=["answers late", "answers later than anybody waits"])
def test_workers_and_beat_outlive_a_slow_redis(
    distant_plane: tuple[ControlPlane, DistantRedis], delay_s: float
) -> None:
    plane, server = distant_plane
    are_at_work(plane, server, 60, datetime.now(UTC))

    server.disturb("delay", delay_s=delay_s)
    time.sleep(10)
    server.disturb("mend")
    are_back_in_time(plane, server)


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
    with running_plane(folder, PromotedRedis(watched), *NAMES) as plane:
        yield plane


@pytest.mark.nightly
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_workers_and_beat_follow_a_failover_of_redis_within_ten_seconds(
    replicated_plane: ControlPlane, watched: Sentinels, how: signal.Signals
) -> None:
    server = PromotedRedis(watched)
    are_at_work(replicated_plane, server, 60, datetime.now(UTC))

    old = watched.fail_over(how)
    are_back_in_time(replicated_plane, server)
    watched.bring_back(old)

    are_at_work(replicated_plane, server, 60, datetime.now(UTC))


def test_full_queues_of_other_tasks_do_not_delay_a_ping(plane: ControlPlane, fleet: Fleet) -> None:
    for name in ("one", "two"):
        fleet.until(lambda one=name: plane.is_at_work(one), 60, f"worker {name} is there")
    plane.kill("two")
    tasks: dict[str, tuple[object, ...]] = {
        "syphons.host": ("contoso",),
        "pipeline.wanted": (),
        "samples.sample": ("contoso",),
        "backlog.due": (),
    }
    try:
        plane.freeze_idle("one")  # or it would be through with them before the last is there
        plane.flood(tasks, 1000)
        before = fleet.namespaces.stats("orders").get("pings_swallowed", 0)
        fleet.shared.fail_over("orders", "drill", operator="ada", process="web")  # from now on, pings are due
    finally:
        plane.signal("one", signal.SIGCONT)
    fleet.until(lambda: fleet.namespaces.stats("orders").get("pings_swallowed", 0) > before, 30, "a ping")
    left = fleet.shared.redis.llen("syphons") + fleet.shared.redis.llen("pipeline")
    plane.start("two")
    assert left > 0, "the ping came after the tasks that were queued before it was due"
