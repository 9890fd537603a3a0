"""The control plane's settings on a Redis of this test session's own."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import redis

from dashboard.fleet.pairs.pairs_file import PairConfig, load_pairs
from dashboard.fleet.pairs.sync import sync
from dashboard.site import redis as dashboard_redis
from tests.dashboard.served import namespaces
from tests.prompt_links import prompt_links
from workers import connections, errands, pingers, slices, syphons, watchers

PAIRS = """
[pairs.contoso]
primary = { connection_string_env = "PRIMARY", namespace = "contoso", subscription = "north" }
secondary = { connection_string_env = "SECONDARY", namespace = "contoso-dr", subscription = "south" }
entities = ["orders"]
"""
VARIABLES = {
    "PRIMARY": "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true;",
    "SECONDARY": "Endpoint=sb://127.0.0.1:2;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true;",
}


@pytest.fixture(scope="module", autouse=True)
def without_pauses() -> Iterator[None]:
    """These tests open and close hundreds of links, and a paired client each."""
    with prompt_links(), pytest.MonkeyPatch.context() as patched:
        patched.setattr("pairing.fleet.subscription._SLICE_S", 0.05)  # how long closing waits for who listens to Redis
        yield


@pytest.fixture
def fleet(redis_client: redis.Redis, redis_url: str, settings: object, monkeypatch: pytest.MonkeyPatch) -> redis.Redis:
    """An empty Redis that the control plane uses."""
    settings.REDIS_URL = redis_url  # type: ignore[attr-defined]
    return redis_client


@pytest.fixture
def pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, PairConfig]:
    """The pair `contoso`, as a PAIRS_FILE tells it."""
    file = tmp_path / "pairs.toml"
    file.write_text(PAIRS)
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    reported = load_pairs(file)
    monkeypatch.setattr(connections, "pairs", lambda: reported)
    return reported


@pytest.fixture(scope="session")
def strings() -> Iterator[dict[str, str]]:
    """The connection strings of two local namespaces, by the variable that holds them."""
    with namespaces() as reported:
        yield reported


Begin = Callable[[Mapping[str, str], str], Mapping[str, PairConfig]]


@pytest.fixture
def worker_of(fleet: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: object) -> Iterator[Begin]:
    """Makes this process a worker of the pairs of a file, with these connection strings; it ends with the test."""

    def begin(strings: Mapping[str, str], text: str) -> Mapping[str, PairConfig]:
        for name, value in strings.items():
            monkeypatch.setenv(name, value)
        file = settings.PAIRS_FILE = tmp_path / "pairs.toml"  # type: ignore[attr-defined]
        file.write_text(text)
        reported = load_pairs(file)
        for room in (connections, errands, pingers, syphons, watchers):
            monkeypatch.setattr(room, "pairs", lambda: reported)
        list(sync(reported))
        return reported

    yield begin
    end_worker()


def end_worker() -> None:
    """Ends what a worker process has begun, and prepares the process for another one."""
    slices.stop_all()
    syphons.leave()
    syphons._hosts.clear()
    connections.close_all()
    connections._failed.clear()
    slices._shutting_down.clear()


@pytest.fixture(autouse=True)
def close_connections() -> object:
    """Redis clients of one test do not live on in the next."""
    yield
    dashboard_redis._client.cache_clear()
