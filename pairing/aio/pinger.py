"""The pings of an asyncio client, each in its own task, because an outage can make it slow."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from pairing.aio.links import Background
from pairing.drive import run_async
from pairing.health.availability import PathAvailability
from pairing.health.flows import PingResult
from pairing.operations.client import ClientOperations
from pairing.operations.pinger import TICK_S, PingOperations


class Pinger(PingOperations):
    """Pings what is due until it is cancelled."""

    def __init__(self, client: ClientOperations[Any, Any, Any, Any], background: Background) -> None:
        super().__init__(client)
        self._background = background
        self._alone: dict[str, asyncio.Lock] = {}

    async def run(self) -> None:
        """Ping what is due until cancelled."""
        while self._client.state == "opened":
            await asyncio.sleep(TICK_S)
            self._begin_due()

    async def ping_due(self, grace_s: float = 0.0) -> list[PingResult]:
        """Ping every entity whose ping is due and can be claimed; returns when all have answered."""
        pings = [run_async(self._claim_and_ping(machine, grace_s)) for machine in self._turns.next(self._due())]
        return [result for result in await asyncio.gather(*pings) if result is not None]

    async def ping(self, path: str) -> PingResult:
        """Ping one entity now, after any ping of it that is in progress."""
        async with self._alone.setdefault(path.lower(), asyncio.Lock()):
            return await run_async(self._ping(path))

    def _start(self, machine: PathAvailability, grace_s: float) -> None:
        self._background.start(run_async(self._claim_and_ping(machine, grace_s)), "ping")

    def _ask_fleet(self, function: Callable[..., Any], *arguments: Any) -> Awaitable[Any]:
        return asyncio.to_thread(function, *arguments)
