"""What a client does in the background: keeps its links alive, reports usage, watches how full the backlog is."""

import logging
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pairing.administration import BacklogQueueInfo, backlog_queues
from pairing.availability import FAILED_OVER
from pairing.clock import seconds
from pairing.faults import describe
from pairing.paired import PairedClient

if TYPE_CHECKING:
    from pairing.client import PairedServiceBusClient

_LOGGER = logging.getLogger("pairing")
TICK_S = 1.0
REPORT_S = 10.0
FILL_S = 60.0


class TenderCore:
    """What the tenders of both worlds have in common."""

    def __init__(self, client: PairedClient) -> None:
        self._paired = client
        self._wanted: set[str] = set()
        self._next: dict[str, float] = {}

    def _is_anything_failed_over(self) -> bool:
        return any(machine.state is FAILED_OVER for machine in self._paired.pair_state.entities())

    def _filled(self, queues: Iterable[BacklogQueueInfo]) -> None:
        client = self._paired
        client.meter.count("manage", client.secondary.namespace, "*", operations=2, billing_units=2)
        fill = {queue.path.lower(): queue.size_bytes / queue.max_size_bytes for queue in queues if queue.max_size_bytes}
        fills = {path: fill[path.lower()] for path in client.backlog_paths if path.lower() in fill}
        with client.pair_state.condition:
            warnings = client.pair_state.rotation.filled(fills, client.clock.now())
        client.pair_state.tell(warnings)

    def _is_time(self, what: str, every_s: float) -> bool:
        now = time.monotonic()
        if now < self._next.get(what, 0.0):
            return False
        self._next[what] = now + every_s
        return True


class Tender(TenderCore, threading.Thread):
    """One thread per client, off every sender's path."""

    def __init__(self, client: "PairedServiceBusClient") -> None:
        TenderCore.__init__(self, client)
        threading.Thread.__init__(self, name="pairing-tender", daemon=True)
        self._client = client
        self._wake = threading.Event()
        self._stopping = False

    def warm(self, queue: str) -> None:
        """Open the link to a backlog queue soon."""
        self._wanted.add(queue)
        self._wake.set()

    def run(self) -> None:
        """Tend until stopped; an error of one task is logged and does not end the others."""
        while not self._stopping:
            self._wake.wait(TICK_S)
            self._wake.clear()
            for task in (self._warm_wanted, self._tend_links, self._report, self._look_at_fill, self._repair):
                if self._stopping:
                    return
                try:
                    task()
                except Exception as error:
                    _LOGGER.info("%s failed: %s", task.__name__.strip("_"), describe(error))

    def stop(self, timeout_s: float) -> None:
        """End; a task under way is not waited for longer than so."""
        self._stopping = True
        self._wake.set()
        if self.is_alive() and threading.current_thread() is not self:
            self.join(timeout_s)

    def _warm_wanted(self) -> None:
        while self._wanted:
            self._client.warm_now(self._wanted.pop())

    def _tend_links(self) -> None:
        now = time.monotonic()
        for link in self._client.watchdog.links():
            if link.tend(now) and not self._stopping:
                link.warm(REPORT_S)

    def _report(self) -> None:
        if self._client.fleet.takes_usage and self._is_time("report", REPORT_S):
            self._client.fleet.record(self._client.meter.drain(self._client.clock.now(), everything=True))

    def _look_at_fill(self) -> None:
        """While messages go to the backlog, know how full its queues are."""
        if self._is_anything_failed_over() and self._is_time("fill", FILL_S):
            self._filled(backlog_queues(self._client.secondary.administration, self._client.primary.namespace))

    def _repair(self) -> None:
        """A client that was opened without the secondary goes on trying."""
        pause = max(seconds(self._client.options.creation_retry_interval), TICK_S)
        if not self._client.backlog_paths and self._is_time("repair", pause):
            self._client.repair()
