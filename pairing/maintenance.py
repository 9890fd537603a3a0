"""What a client does in the background: keeps its links alive, reports usage, watches how full the backlog is."""

import contextlib
import logging
import threading
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pairing.backlog.administration import BacklogQueueInfo, backlog_queues
from pairing.backlog.capacity import Fill, seen
from pairing.clock import seconds
from pairing.fleet.shared_backlog import SharedBacklog
from pairing.health.availability import FAILED_OVER
from pairing.health.faults import describe
from pairing.paired import PairedClient

if TYPE_CHECKING:
    from pairing.client import PairedServiceBusClient

_LOGGER = logging.getLogger("pairing")
TICK_S = 1.0
REPORT_S = 10.0
FILL_S = 60.0


class MaintenanceCore:
    """What the tenders of both worlds have in common."""

    def __init__(self, client: PairedClient) -> None:
        self._paired = client
        self._wanted: set[str] = set()
        self._next: dict[str, float] = {}
        self._fills: dict[str, Fill] = {}
        self._warned: set[str] = set()

    def _is_anything_failed_over(self) -> bool:
        return any(machine.state is FAILED_OVER for machine in self._paired.pair_state.entities())

    def _must_look(self) -> bool:
        """Whether this process shall look at the queues now: of a fleet one, and all where Redis does not answer."""
        if not (self._is_anything_failed_over() and self._is_time("fill", FILL_S / 6)):
            return False
        if (backlog := self._shared_backlog()) is not None:
            with contextlib.suppress(Exception):
                if backlog.claim_look(FILL_S):
                    return True
                self._learn(backlog.fills())
                return False
        return self._is_time("fill alone", FILL_S)

    def _filled(self, queues: Iterable[BacklogQueueInfo]) -> None:
        """Take in, and tell the fleet, how full the queues are."""
        client, at = self._paired, time.time()
        client.meter.count("manage", client.secondary.namespace, "*", operations=2, billing_units=2)
        of = {path.lower(): path for path in client.backlog_paths}
        sizes = {
            of[queue.path.lower()]: (queue.size_bytes, queue.max_size_bytes)
            for queue in queues
            if queue.max_size_bytes and queue.path.lower() in of
        }
        if (backlog := self._shared_backlog()) is not None:
            with contextlib.suppress(Exception):
                warnings = backlog.record(sizes, at)
                self._learn(backlog.fills())
                self._warn(warnings)
                return
        fills = {path: seen(self._fills.get(path), *size, at) for path, size in sizes.items()}
        self._learn(fills)
        self._warn({path: fill for path, fill in fills.items() if fill.is_worrying and path not in self._warned})
        self._warned = {path for path, fill in fills.items() if fill.is_worrying}

    def _learn(self, fills: Mapping[str, Fill]) -> None:
        self._fills = dict(fills)
        with self._paired.pair_state.condition:
            self._paired.pair_state.rotation.filled({path: fill.share for path, fill in fills.items()})

    def _warn(self, fills: Mapping[str, Fill]) -> None:
        for path, fill in fills.items():
            self._paired.emit("capacity_warning", path, fill.told())

    def _shared_backlog(self) -> SharedBacklog | None:
        coordination = self._paired.coordination
        if coordination is None or coordination.shared is None or not getattr(coordination, "is_connected", True):
            return None
        return SharedBacklog(coordination.shared)

    def _count_connections(self) -> None:
        """Note how many connections are open to each end, for its brokered connections are on the bill."""
        for end in (self._paired.primary, self._paired.secondary):
            self._paired.meter.connections(end.namespace, end.connections)

    def _is_time(self, what: str, every_s: float) -> bool:
        now = time.monotonic()
        if now < self._next.get(what, 0.0):
            return False
        self._next[what] = now + every_s
        return True


class Maintenance(MaintenanceCore, threading.Thread):
    """One thread per client, off every sender's path."""

    def __init__(self, client: "PairedServiceBusClient") -> None:
        MaintenanceCore.__init__(self, client)
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
        self._count_connections()
        if self._client.fleet.takes_usage and self._is_time("report", REPORT_S):
            self._client.fleet.record(self._client.meter.drain(self._client.clock.now(), everything=True))

    def _look_at_fill(self) -> None:
        """While messages go to the backlog, know how full its queues are."""
        if self._must_look():
            self._filled(backlog_queues(self._client.secondary.administration, self._client.primary.namespace))

    def _repair(self) -> None:
        """A client that was opened without the secondary goes on trying."""
        pause = max(seconds(self._client.options.creation_retry_interval), TICK_S)
        if not self._client.backlog_paths and self._is_time("repair", pause):
            self._client.repair()
