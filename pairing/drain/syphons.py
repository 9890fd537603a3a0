"""Shared by the syphons for threads and asyncio: the queues they serve, the leases, and the drain of each queue."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pairing.drain.backlog_queue import Progress
from pairing.drain.destinations import Connections, Destinations
from pairing.drain.flow import DrainFlow
from pairing.drain.host import StopEvent, SyphonHost, World
from pairing.drain.ledger import Ledger, same_queue
from pairing.drain.operations import DrainOperations
from pairing.drain.session_order import InTurn
from pairing.drain.shared.lease_holder import LOOK_S, LeaseHolder
from pairing.drain.shared.losses import estimated, messages
from pairing.drain.shared.pacing import Pacing
from pairing.drain.shared.stored_ledger import StoredLedger
from pairing.drive import Operation, call
from pairing.errors import PairingError
from pairing.health.availability import State
from pairing.links.failures import AnyLink

_LOGGER = logging.getLogger("pairing")
_MISSING_S = 2.0
"""How often a missing queue is checked."""


class SyphonCore:
    """One syphon of a client, for threads or asyncio."""

    def __init__(self, host: SyphonHost, world: World, *, queues: Iterable[str] | None = None) -> None:
        options = host.options
        if isinstance(queues, str):
            raise TypeError(f"queues must be a list of backlog queues, not the text {queues!r}")
        self._only = None if queues is None else tuple(queues)
        self._host, self._world = host, world
        self._pacing = Pacing(options.max_rate, threading.Lock())
        self._destinations = self._new_destinations()
        self._unstored: list[StoredLedger] = []
        """Of drains that ended while Redis did not answer: others must learn of what they did."""
        self.progress: dict[str, Progress] = {}
        """The progress of each queue's drain, by path; may be read while ``run`` is running."""

    def report(self, kind: str, entity: str, reason: str) -> None:
        """Report an event to callbacks and the fleet."""
        self._host.pair_state.emit(kind, entity, reason)

    @property
    def _is_over(self) -> bool:
        """Whether the client is closed or faulted, so that draining is impossible."""
        return self._host.state in ("closing", "closed", "faulted")

    def _is_failed_over(self, path: str) -> bool:
        return self._host.pair_state.availability(path).state is State.FAILED_OVER

    # The queues ----------------------------------------------------------------------------------------------------

    def running(self, stop: StopEvent) -> Operation[None]:
        """Serve each queue that belongs to this process in its own worker, until ``stop``."""
        if self._host.state == "created":
            raise PairingError("the paired client is not open: a syphon needs an open one")
        world, self._destinations = self._world, self._new_destinations()
        holder = self._lease_holder()
        workers, ending = list[Any](), threading.Event()
        self.report("syphon_started", "*", f"at {self._host.process}")
        try:
            while not stop.is_set() and not self._is_over:
                yield from call(world.block, holder.look)
                yield from self._leave_unstored(holder)
                workers = yield from call(world.wait, workers, 0)
                for queue in holder.vacant():
                    workers += self._begin(queue, holder, stop, ending)
                yield from call(world.close_links, self._destinations.connections.idle(time.monotonic()))
                yield from call(world.rest, stop, LOOK_S)
        finally:
            ending.set()
            yield from self._end(workers, holder)
            self.report("syphon_stopped", "*", f"at {self._host.process}")

    def _end(self, workers: list[Any], holder: LeaseHolder) -> Operation[None]:
        """Wait up to the close grace for operations in progress, then release everything."""
        world, until = self._world, time.monotonic() + self._host.options.close_grace.total_seconds()
        busy = yield from call(world.wait, workers, 0)
        while busy and (left := until - time.monotonic()) > 0:
            yield from call(world.block, partial(holder.look, leaving=True))
            busy = yield from call(world.wait, busy, min(left, LOOK_S))
        yield from call(world.cancel, busy)
        while (yield from self._leave_unstored(holder)):
            continue
        yield from call(world.block, holder.give_up)
        yield from call(world.close_links, self._destinations.connections.all())

    def _leave_unstored(self, holder: LeaseHolder) -> Operation[bool]:
        """Leave one ledger of a drain that ended while Redis did not answer; False if there is none, or no answer.

        One at a time: each may take two seconds, and leases must be renewed meanwhile.
        """
        if not self._unstored or holder.is_alone:
            return False
        is_left = yield from call(self._world.block, self._unstored[0].leave)
        if is_left:
            del self._unstored[0]
        return is_left

    def _new_destinations(self) -> Destinations:
        return Destinations(
            self._is_failed_over,
            Connections(self._link, threading.RLock()),
            first_pause_s=self._host.options.syphon_retry_interval.total_seconds(),
            pacing=self._pacing,
        )

    def _lease_holder(self) -> LeaseHolder:
        def report_pause(queue: str, is_paused: bool, reason: str) -> None:
            self.report("syphon_paused" if is_paused else "syphon_resumed", queue, reason)

        def queues() -> tuple[str, ...]:
            return self._host.backlog_paths if self._only is None else self._only

        return LeaseHolder(
            self._host.coordination,
            self._host.process,
            queues,
            report_pause,
            pacing=self._pacing,
            keep_back=self._destinations.keep_back,
        )

    def _begin(self, queue: str, holder: LeaseHolder, stop: StopEvent, ending: threading.Event) -> list[Any]:
        """Start a worker that serves the queue under its lease; none where no thread can be started now."""
        token = holder.begin(queue)

        def is_leaving() -> bool:
            return stop.is_set() or ending.is_set() or self._is_over

        def may_work() -> bool:
            return not is_leaving() and holder.may_serve(queue, token)

        def serve() -> Operation[None]:
            try:
                yield from self._serve(queue, token, lambda: holder.holds(queue, token), may_work, stop)
            finally:
                yield from call(self._world.block, partial(holder.end, queue, leaving=is_leaving()))

        try:
            return [self._world.spawn(serve(), f"syphon-{queue.rsplit('/', 1)[-1]}")]
        except RuntimeError as error:
            _LOGGER.warning("%s cannot be drained now: %s", queue, error)
            holder.end(queue)  # the next look tries again
            return []

    # One queue -----------------------------------------------------------------------------------------------------

    def _serve(
        self, queue: str, token: int | None, holds: Callable[[], bool], may_work: Callable[[], bool], stop: StopEvent
    ) -> Operation[None]:
        """Serve one backlog queue while it belongs to this process."""
        world, host = self._world, self._host
        operations = DrainOperations(host, world, queue, self._destinations.connections, stop, holds)

        def may_go_on() -> bool:
            return not operations.is_deleted and may_work()

        try:
            created_at = yield from operations.created_at()
            if operations.is_deleted:
                yield from call(world.rest, stop, _MISSING_S)
                return
            ledger = Ledger(queue, created_at)
            if host.coordination is not None:
                operations.stored = StoredLedger(host.coordination, host.process, queue, created_at, token, holds)
                ledger = yield from call(world.block, operations.stored.read)
            flow = self._drain_flow(operations, queue, ledger, may_go_on)
            yield from flow.run()
        finally:
            if operations.stored is not None and operations.stored.unstored is not None:
                self._unstored.append(operations.stored)
            yield from operations.close()
            if queue in self.progress:
                self.progress[queue].state = "stopped"

    def _link(self, path: str) -> AnyLink:
        """A link to an entity of the primary, which all queues share."""
        return self._world.link(partial(self._host.sdk_sender, "primary", path))

    def _drain_flow(
        self, operations: DrainOperations, queue: str, kept: Ledger, may_work: Callable[[], bool]
    ) -> DrainFlow:
        options = self._host.options
        progress = self.progress.get(queue)
        self._report_loss(queue, kept)
        if progress is None or not same_queue(progress.ledger.created_at, kept.created_at):
            progress = self.progress[queue] = Progress(queue, kept)
        else:  # another process may have served the queue meanwhile
            progress.ledger.absorb(kept)
        order = None  # without a fleet, nobody else keeps it
        if self._host.coordination is not None:
            order = InTurn(operations, may_work=may_work, now=time.monotonic)
        flow = DrainFlow(
            order or operations,
            progress,
            self._destinations,
            self.report,
            may_work=may_work,
            now=time.monotonic,
            utc_now=lambda: datetime.now(UTC),
            first_pause_s=options.syphon_retry_interval.total_seconds(),
            max_attempts=options.max_restore_attempts,
            remaining_ttl=options.ttl_policy == "remaining",
        )
        if order is not None:
            order.note, flow.in_turn = flow.note_deferred, order.in_turn
        return flow

    def _report_loss(self, queue: str, kept: Ledger) -> None:
        """The last keeper of an unclosed ledger has died, and its last usage records are lost."""
        host = self._host
        lost = estimated(kept, host.pair, host.primary.namespace, host.secondary.namespace)
        if lost and host.coordination is not None and kept.reporter not in ("", host.process):
            host.coordination.record_usage(lost)
            count = messages(kept)
            self.report("syphon_started", queue, f"after {kept.reporter} died; usage of {count} messages is estimated")
        kept.recent = {}
