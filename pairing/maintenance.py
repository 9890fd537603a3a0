"""What a client does in the background: keeps its links alive, reports usage, watches how full the backlog is.

Each task is written once; a thread of the blocking client or a task of the asyncio one runs them.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pairing.backlog.administration import BacklogQueueInfo, backlog_queues
from pairing.backlog.capacity import Fill, seen
from pairing.clock import Clock, seconds
from pairing.drive import Operation, call, run
from pairing.fleet.shared_backlog import SharedBacklog
from pairing.health.availability import FAILED_OVER
from pairing.health.faults import describe
from pairing.links import Watchdog

if TYPE_CHECKING:
    from pairing.fleet.coordination import Coordination
    from pairing.health.pair import Pair
    from pairing.membership import Fleet
    from pairing.options import SendAvailabilityOptions
    from pairing.telemetry.metering import UsageMeter

T = TypeVar("T")
_LOGGER = logging.getLogger("pairing")
TICK_S = 1.0
REPORT_S = 10.0
FILL_S = 60.0


class MaintainedEnd(Protocol):
    """One end of a pair."""

    namespace: str

    @property
    def connections(self) -> int: ...

    @property
    def administration(self) -> Any: ...


class MaintainedClient(Protocol):
    """A paired client, blocking or asyncio."""

    options: "SendAvailabilityOptions"
    clock: Clock
    meter: "UsageMeter"
    pair_state: "Pair"
    fleet: "Fleet"

    @property
    def primary(self) -> MaintainedEnd: ...

    @property
    def secondary(self) -> MaintainedEnd: ...

    @property
    def state(self) -> str: ...

    @property
    def coordination(self) -> "Coordination | None": ...

    @property
    def backlog_paths(self) -> tuple[str, ...]: ...

    def emit(self, kind: str, entity: str, reason: str) -> object: ...

    def warm_now(self, path: str) -> object: ...

    def repair(self) -> object: ...


class BlockingClient(MaintainedClient, Protocol):
    """A ``PairedServiceBusClient``."""

    watchdog: Watchdog


class MaintenanceCore:
    """What both worlds do for a client, task by task; asyncio awaits the calls that the tasks consist of."""

    def __init__(self, client: MaintainedClient) -> None:
        self._client = client
        self._wanted: set[str] = set()
        self._next: dict[str, float] = {}
        self._fills: dict[str, Fill] = {}
        self._warned: set[str] = set()

    def _links(self) -> Iterable[Any]:
        """The links of the client that are kept alive."""
        raise NotImplementedError

    def _block(self, function: Callable[[], T]) -> T | Awaitable[T]:
        """What a function returns that may wait for Redis."""
        raise NotImplementedError

    def _look(self) -> list[BacklogQueueInfo] | Awaitable[list[BacklogQueueInfo]]:
        """The backlog queues of the pair, as the secondary's administration describes them."""
        raise NotImplementedError

    def _is_over(self) -> bool:
        return self._client.state != "opened"

    # The tasks -----------------------------------------------------------------------------------------------------

    def _round(self) -> Operation[None]:
        """Each task once; an error of one is logged and does not end the others."""
        for task in (self._warm_wanted, self._maintain_links, self._report, self._look_at_fill, self._repair):
            if self._is_over():
                return
            try:
                yield from task()
            except Exception as error:
                _LOGGER.info("%s failed: %s", task.__name__.strip("_"), describe(error))

    def _warm_wanted(self) -> Operation[None]:
        while self._wanted:
            yield from call(self._client.warm_now, self._wanted.pop())

    def _maintain_links(self) -> Operation[None]:
        now = time.monotonic()
        for link in list(self._links()):
            must_warm = yield from call(link.tend, now)
            if must_warm and not self._is_over():
                yield from call(link.warm, REPORT_S)

    def _report(self) -> Operation[None]:
        self._count_connections()
        if self._client.fleet.takes_usage and self._is_time("report", REPORT_S):
            self._client.fleet.record(self._client.meter.drain(self._client.clock.now(), everything=True))
        yield from ()

    def _look_at_fill(self) -> Operation[None]:
        """While messages go to the backlog, know how full its queues are."""
        if (yield from call(self._block, self._must_look)):
            queues = yield from call(self._look)
            yield from call(self._block, partial(self._filled, queues))

    def _repair(self) -> Operation[None]:
        """A client that was opened without the secondary goes on trying."""
        pause = max(seconds(self._client.options.creation_retry_interval), TICK_S)
        if not self._client.backlog_paths and self._is_time("repair", pause):
            yield from call(self._client.repair)

    # How full the backlog is ---------------------------------------------------------------------------------------

    def _is_anything_failed_over(self) -> bool:
        return any(machine.state is FAILED_OVER for machine in self._client.pair_state.entities())

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
        """Take in, and report to the fleet, how full the queues are."""
        client, at = self._client, time.time()
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
        with self._client.pair_state.condition:
            self._client.pair_state.rotation.filled({path: fill.share for path, fill in fills.items()})

    def _warn(self, fills: Mapping[str, Fill]) -> None:
        for path, fill in fills.items():
            self._client.emit("capacity_warning", path, fill.told())

    def _shared_backlog(self) -> SharedBacklog | None:
        coordination = self._client.coordination
        if coordination is None or coordination.shared is None or not getattr(coordination, "is_connected", True):
            return None
        return SharedBacklog(coordination.shared)

    def _count_connections(self) -> None:
        """Note how many connections are open to each end, for its brokered connections are on the bill."""
        for end in (self._client.primary, self._client.secondary):
            self._client.meter.connections(end.namespace, end.connections)

    def _is_time(self, what: str, every_s: float) -> bool:
        now = time.monotonic()
        if now < self._next.get(what, 0.0):
            return False
        self._next[what] = now + every_s
        return True


class Maintenance(MaintenanceCore, threading.Thread):
    """One thread per client, off every sender's path."""

    def __init__(self, client: BlockingClient) -> None:
        MaintenanceCore.__init__(self, client)
        threading.Thread.__init__(self, name="pairing-maintenance", daemon=True)
        self._watchdog = client.watchdog
        self._wake = threading.Event()
        self._stopping = False

    def warm(self, queue: str) -> None:
        """Open the link to a backlog queue soon."""
        self._wanted.add(queue)
        self._wake.set()

    def run(self) -> None:
        """Goes on until stopped."""
        while not self._stopping:
            self._wake.wait(TICK_S)
            self._wake.clear()
            run(self._round())

    def stop(self, timeout_s: float) -> None:
        """End; a task under way is not waited for longer than so."""
        self._stopping = True
        self._wake.set()
        if self.is_alive() and threading.current_thread() is not self:
            self.join(timeout_s)

    def _is_over(self) -> bool:
        return self._stopping

    def _links(self) -> Iterable[Any]:
        return self._watchdog.links()

    def _block(self, function: Callable[[], T]) -> T:
        return function()

    def _look(self) -> list[BacklogQueueInfo]:
        return backlog_queues(self._client.secondary.administration, self._client.primary.namespace)
