"""The maintenance of an asyncio client: one task, apart from all sends."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from pairing.aio.administration import backlog_queues
from pairing.aio.cancellation import within
from pairing.backlog.administration import BacklogQueueInfo
from pairing.drive import run_async
from pairing.operations.client import ClientOperations
from pairing.operations.maintenance import TICK_S, MaintenanceOperations


class Maintenance(MaintenanceOperations):
    """Keeps the links of a client alive, reports its usage, and watches the fill level of the backlog."""

    def __init__(self, client: ClientOperations[Any, Any, Any, Any]) -> None:
        super().__init__(client)
        self._wake = asyncio.Event()

    def warm(self, queue: str) -> None:
        """Open the link to a backlog queue soon."""
        self._wanted.add(queue)
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while self._client.state == "opened":
            with contextlib.suppress(TimeoutError):
                await within(self._wake.wait(), TICK_S)
            self._wake.clear()
            await run_async(self._round())

    def _ask_fleet(self, function: Callable[..., Any], *arguments: Any) -> Awaitable[Any]:
        return asyncio.to_thread(function, *arguments)

    async def _list_backlog_queues(self) -> list[BacklogQueueInfo]:
        return await backlog_queues(self._client.secondary.administration, self._client.primary.namespace)
