"""What an asyncio client does in the background: keeps its links alive, reports usage, watches the backlog's fill."""

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING

from pairing.aio.administration import backlog_queues
from pairing.clock import seconds
from pairing.health.faults import describe
from pairing.maintenance import REPORT_S, TICK_S, MaintenanceCore

if TYPE_CHECKING:
    from pairing.aio.client import PairedServiceBusClient

_LOGGER = logging.getLogger("pairing")


class Maintenance(MaintenanceCore):
    """One task per client, off every sender's path."""

    def __init__(self, client: "PairedServiceBusClient") -> None:
        super().__init__(client)
        self._client = client
        self._wake = asyncio.Event()

    def warm(self, queue: str) -> None:
        """Open the link to a backlog queue soon."""
        self._wanted.add(queue)
        self._wake.set()

    async def run(self) -> None:
        """Tend until cancelled; an error of one task is logged and does not end the others."""
        while self._client.state == "opened":
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), TICK_S)
            self._wake.clear()
            for task in (self._warm_wanted, self._tend_links, self._report, self._look_at_fill, self._repair):
                try:
                    await task()
                except Exception as error:
                    _LOGGER.info("%s failed: %s", task.__name__.strip("_"), describe(error))

    async def _warm_wanted(self) -> None:
        while self._wanted:
            await self._client.warm_now(self._wanted.pop())

    async def _tend_links(self) -> None:
        now = time.monotonic()
        for link in list(self._client.background.links):
            if await link.tend(now):
                await link.warm(REPORT_S)

    async def _report(self) -> None:
        self._count_connections()
        if self._client.fleet.takes_usage and self._is_time("report", REPORT_S):
            self._client.fleet.record(self._client.meter.drain(self._client.clock.now(), everything=True))

    async def _look_at_fill(self) -> None:
        if await asyncio.to_thread(self._must_look):
            queues = await backlog_queues(self._client.secondary.administration, self._client.primary.namespace)
            await asyncio.to_thread(self._filled, queues)

    async def _repair(self) -> None:
        pause = max(seconds(self._client.options.creation_retry_interval), TICK_S)
        if not self._client.backlog_paths and self._is_time("repair", pause):
            await self._client.repair()
