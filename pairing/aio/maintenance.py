"""What an asyncio client does in the background: the tasks of ``pairing.maintenance``, in one task of the loop."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from pairing.aio.administration import backlog_queues
from pairing.aio.links import Background
from pairing.backlog.administration import BacklogQueueInfo
from pairing.drive import run_async
from pairing.maintenance import TICK_S, MaintainedClient, MaintenanceCore

T = TypeVar("T")


class AsyncioClient(MaintainedClient, Protocol):
    """A ``pairing.aio.PairedServiceBusClient``."""

    background: Background


class Maintenance(MaintenanceCore):
    """One task per client, off every sender's path."""

    def __init__(self, client: AsyncioClient) -> None:
        super().__init__(client)
        self._background = client.background
        self._wake = asyncio.Event()

    def warm(self, queue: str) -> None:
        """Open the link to a backlog queue soon."""
        self._wanted.add(queue)
        self._wake.set()

    async def run(self) -> None:
        """Goes on until cancelled, or until the client is closed."""
        while not self._is_over():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), TICK_S)
            self._wake.clear()
            await run_async(self._round())

    def _links(self) -> Iterable[Any]:
        return self._background.links

    async def _block(self, function: Callable[[], T]) -> T:
        return await asyncio.to_thread(function)

    async def _look(self) -> list[BacklogQueueInfo]:
        return await backlog_queues(self._client.secondary.administration, self._client.primary.namespace)
