"""The SDK's links without its pauses: it sleeps half a second to open one, and up to a second to close it again.

docs/wire.md, section 9. What a link says, and how long it waits for an answer, stays as it is.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import pytest
from azure.servicebus._pyamqp import client as amqp
from azure.servicebus._pyamqp.aio import _client_async

BETWEEN_POLLS_S = 0.05
"""What the SDK sleeps after each frame while a link opens, though the read of the next frame waits by itself."""
PAUSE_S = 0.001
LINKS = ("_servicebus_receiver", "_servicebus_sender", "_session_browser")


def _modules(*names: str) -> list[ModuleType]:
    """Those of these modules that the installed version of the SDK has."""
    paths = [f"azure.servicebus.{name}" for name in names]
    return [import_module(path) for path in paths if find_spec(path)]


BLOCKING = [*_modules(*LINKS), amqp]
ASYNCIO = [*_modules(*(f"aio.{name}_async" for name in LINKS)), _client_async]


def _pause(seconds: float) -> float:
    """Only the SDK's pause between two polls is shorter: back-offs and keep-alives keep their times."""
    return PAUSE_S if seconds <= BETWEEN_POLLS_S else seconds


@contextmanager
def prompt_links() -> Iterator[None]:
    """Links of this process open as fast as their peer answers, and close without waiting for a sleeping keep-alive.

    The keep-alive thread of a closed link ends by itself, at its next look, a second later at most.
    """
    close, close_async = amqp.AMQPClient.close, _client_async.AMQPClientAsync.close_async

    def close_at_once(link: amqp.AMQPClient) -> None:
        link._keep_alive_thread = None
        close(link)

    async def close_async_at_once(link: _client_async.AMQPClientAsync) -> None:
        if link._keep_alive_thread:
            link._keep_alive_thread.cancel()
            link._keep_alive_thread = None
        await close_async(link)

    def paused(module: ModuleType) -> SimpleNamespace:
        return SimpleNamespace(**{**vars(module), "sleep": lambda seconds: module.sleep(_pause(seconds))})

    with pytest.MonkeyPatch.context() as patched:
        for module in BLOCKING:
            patched.setattr(module, "time", paused(time))
        for module in ASYNCIO:
            patched.setattr(module, "asyncio", paused(asyncio))
        patched.setattr(amqp.AMQPClient, "close", close_at_once)
        patched.setattr(_client_async.AMQPClientAsync, "close_async", close_async_at_once)
        yield


@pytest.fixture(scope="module", autouse=True)
def without_pauses() -> Iterator[None]:
    """For the modules and folders that import it: they open and close hundreds of links."""
    with prompt_links():
        yield
