"""What is loaded when: little with the library, the rest when a client is made, nothing in an outage."""

import subprocess
import sys

import pytest
import redis

import pairing
import pairing.aio
from tests.pairing.first_failover import EFFECTS, IN_ORDER

NOT_FOR_SENDING = ("pairing.drain", "pairing.fleet", "pairing.syphon", "pairing.testing")
NOT_FOR_EVERY = ("asyncio", "opentelemetry", "pairing.aio", "pairing.sessions.order", "pairing.telemetry.tracing")


def printed(*arguments: str) -> str:
    ended = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def loaded_with(library: str, unwanted: tuple[str, ...]) -> list[str]:
    """What a client that was made without options has loaded of this."""
    string = "Endpoint=sb://{}.example;SharedAccessKeyName=n;SharedAccessKey=k"
    made = f"PairedServiceBusClient.from_connection_string({string.format('a')!r}, {string.format('b')!r})"
    loaded = printed("-c", f"import sys, {library} as library; library.{made}; print(*sys.modules)").split()
    return [name for name in loaded if name.startswith(unwanted)]


def test_a_client_loads_nothing_that_only_some_clients_need() -> None:
    assert loaded_with("pairing", (*NOT_FOR_SENDING, *NOT_FOR_EVERY)) == []
    assert loaded_with("pairing.aio", (*NOT_FOR_SENDING, "pairing.aio.syphon", "opentelemetry")) == []


@pytest.mark.slow
@pytest.mark.parametrize("library", ["pairing", "pairing.aio"])
def test_nothing_is_loaded_once_sends_fail(library: str) -> None:
    """Files may not be readable then: descriptors may have run out, or an upgrade may have removed them."""
    stored, *loaded = printed("-m", "tests.pairing.first_failover", library).split()
    assert int(stored) >= 2 * len(EFFECTS)  # more if an answer took longer than half of the timeout
    assert not loaded


@pytest.mark.slow
@pytest.mark.parametrize("library", ["pairing", "pairing.aio"])
def test_nothing_is_loaded_once_sends_of_a_fleet_fail(library: str, redis_url: str, redis_client: redis.Redis) -> None:
    assert printed("-m", "tests.pairing.first_failover", library, redis_url).split() == [str(2 * len(IN_ORDER))]


@pytest.mark.parametrize("library", [pairing, pairing.aio])
def test_what_is_loaded_later_is_listed_and_found_as_any_other_name(library: object) -> None:
    name = str(vars(library)["__name__"])
    assert set(vars(library)["__all__"]) <= set(dir(library))
    script = f"from {name} import *; import {name} as library; print(Syphon is library.Syphon, Syphon.__module__)"
    assert printed("-c", script).split() == ["True", f"{name}.syphon"]
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'Siphon'"):
        library.Siphon  # type: ignore[attr-defined]  # noqa: B018


def test_threads_that_ask_at_once_get_the_same_class() -> None:
    script = (
        "import pairing; from concurrent.futures import ThreadPoolExecutor as Pool; from threading import Barrier;"
        "ready = Barrier(8); ask = lambda _: (ready.wait(), pairing.Syphon)[1];"
        "print(len(set(Pool(8).map(ask, range(8)))))"
    )
    assert printed("-c", script).split() == ["1"]
