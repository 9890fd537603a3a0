"""The control plane's settings on a Redis of this test session's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from dashboard.fleet.pairs.pairs_file import PairConfig, load_pairs
from dashboard.site import redis as dashboard_redis
from tests.prompt_links import prompt_links
from workers import connections

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
    reported = load_pairs(file, VARIABLES)
    monkeypatch.setattr(connections, "pairs", lambda: reported)
    return reported


@pytest.fixture(autouse=True)
def close_connections() -> object:
    """Redis clients of one test do not live on in the next."""
    yield
    dashboard_redis._client.cache_clear()
