"""The runtime of asyncio clients: coroutines are awaited, workers are tasks, and blocking calls run on threads."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, ParamSpec, TypeVar

from pairing.aio.administration import listed
from pairing.aio.links import Background
from pairing.drive import Operation, run_async

_LOGGER = logging.getLogger("pairing")
R = TypeVar("R")
P = ParamSpec("P")


class Tasks:
    """Execution in asyncio."""

    event = staticmethod(asyncio.Event)
    lock = staticmethod(asyncio.Lock)
    sleep = staticmethod(asyncio.sleep)
    listed = staticmethod(listed)
    run = staticmethod(run_async)

    def __init__(self, background: Background) -> None:
        self._background = background

    async def rest(self, event: asyncio.Event, seconds: float) -> None:
        """Wait for this time, or until the event is set."""
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return

    async def block(self, function: Callable[P, R], *arguments: P.args, **keywords: P.kwargs) -> R:
        """Call a function that may block on Redis."""
        work = partial(function, *arguments, **keywords)
        return await asyncio.get_running_loop().run_in_executor(self._background.threads, work)

    def spawn(self, operation: Operation[Any], name: str) -> "asyncio.Task[Any]":
        """Run an operation in a task."""
        return self._background.start(_reported(run_async(operation), name), name)

    async def wait(self, workers: list["asyncio.Task[Any]"], seconds: float | None) -> list["asyncio.Task[Any]"]:
        """Wait until they have ended, or for this time; returns those that are still running."""
        return list((await asyncio.wait(workers, timeout=seconds))[1]) if workers else []

    async def cancel(self, workers: list["asyncio.Task[Any]"]) -> None:
        """Cancel them until they have ended."""
        await self._background.cancel(workers)


async def _reported(work: Awaitable[Any], name: str) -> None:
    """As with a thread, an error of a worker is reported."""
    try:
        await work
    except Exception:
        _LOGGER.exception("pairing: %s failed", name)
