"""The background work of a client: keeps its links alive, reports usage, watches the fill level of the backlog."""

import contextlib
import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any

from azure.core.exceptions import ClientAuthenticationError, ResourceNotFoundError

from pairing.backlog.administration import BacklogQueueInfo, describe_queues
from pairing.backlog.capacity import Fill, seen
from pairing.drive import Operation, call
from pairing.health.availability import FAILED_OVER
from pairing.health.faults import describe
from pairing.operations.client import ClientOperations

_LOGGER = logging.getLogger("pairing")
TICK_S = 1.0
REPORT_S = 10.0
FILL_S = 60.0
SESSIONS_S = 60.0
"""How often a question that was not answered is asked again."""


class Maintenance:
    """The background work of one client: its tasks, one after the other, apart from all sends."""

    def __init__(self, client: ClientOperations[Any, Any, Any, Any]) -> None:
        self._client, self._runtime = client, client._runtime
        self._stop = client._runtime.event()
        self._wanted: set[str] = set()
        self._next: dict[str, float] = {}
        self._fills: dict[str, Fill] = {}
        self._warned: set[str] = set()

    def _must_look(self) -> bool:
        """Whether this process should read the queues now: one process of a fleet, or all if Redis does not answer."""
        is_over = any(machine.state is FAILED_OVER for machine in self._client.pair_state.entities())
        if not (is_over and self._is_time("fill", FILL_S / 6)):
            return False
        if (backlog := self._client._fleet.backlog) is not None:
            with contextlib.suppress(Exception):
                if backlog.claim_look(FILL_S):
                    return True
                self._learn(backlog.fills())
                return False
        return self._is_time("fill alone", FILL_S)

    def _filled(self, queues: Iterable[BacklogQueueInfo]) -> None:
        """Note the fill levels of the queues, and report them to the fleet."""
        client, at = self._client, time.time()
        client.meter.count("manage", client.secondary.namespace, "*", operations=2, billing_units=2)
        of = {path.lower(): path for path in client.backlog_paths}
        sizes = {
            of[queue.path.lower()]: (queue.size_bytes, queue.max_size_bytes)
            for queue in queues
            if queue.max_size_bytes and queue.path.lower() in of
        }
        if (backlog := self._client._fleet.backlog) is not None:
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
            self._client.pair_state.emit("capacity_warning", path, fill.describe())

    def _may_repair(self, every_s: float) -> bool:
        """Whether this process should look for deleted queues now: one of a fleet, or all if Redis does not answer."""
        backlog = self._client._fleet.backlog if self._client.backlog_paths else None
        with contextlib.suppress(Exception):
            return backlog is None or backlog.claim_repair(every_s)
        return True

    def _is_time(self, what: str, every_s: float) -> bool:
        now = time.monotonic()
        if now < self._next.get(what, 0.0):
            return False
        self._next[what] = now + every_s
        return True

    def warm(self, queue: str) -> None:
        """Open the link to a backlog queue soon."""
        self._wanted.add(queue)

    def stop(self) -> None:
        """Begin no further task."""
        self._stop.set()

    def work(self) -> Operation[None]:
        """Work until stopped."""
        while not self._stop.is_set():
            yield from call(self._runtime.rest, self._stop, TICK_S)
            yield from self._round()

    def _round(self) -> Operation[None]:
        """All tasks once; an error of one is logged and does not end the others."""
        for task in (
            self._warm_wanted,
            self._check_links,
            self._report,
            self._look_at_fill,
            self._repair,
            self._learn_sessions,
        ):
            if self._stop.is_set():
                return
            try:
                yield from task()
            except Exception as error:
                _LOGGER.info("%s failed: %s", task.__name__.strip("_"), describe(error))

    def _warm_wanted(self) -> Operation[None]:
        while self._wanted:
            yield from self._client._open_backlog_link(self._wanted.pop())

    def _check_links(self) -> Operation[None]:
        now = time.monotonic()
        for link in self._client._all_links():
            if (yield from call(link.maintain, now)) and not self._stop.is_set():
                yield from call(link.warm, REPORT_S)

    def _report(self) -> Operation[None]:
        client = self._client
        for end in (client.primary, client.secondary):
            with contextlib.suppress(RuntimeError):  # another thread opens one: a second later they are counted again
                client.meter.connections(end.namespace, end.connections)  # brokered ones are billed
        if client._fleet.answers and self._is_time("report", REPORT_S):
            client._report_usage()
        yield from ()

    def _look_at_fill(self) -> Operation[None]:
        """While messages go to the backlog, keep the fill levels of its queues current."""
        if (yield from call(self._runtime.block, self._must_look)):
            queues = yield from self._list_backlog_queues()
            yield from call(self._runtime.block, self._filled, queues)

    def _list_backlog_queues(self) -> Operation[list[BacklogQueueInfo]]:
        administration, listed = self._client.secondary.administration, self._runtime.listed
        described = yield from call(listed, administration.list_queues())
        counted = yield from call(listed, administration.list_queues_runtime_properties())
        return describe_queues({queue.name: queue for queue in described}, counted, self._client.primary.namespace)

    def _learn_sessions(self) -> Operation[None]:
        """Ask whether queues require sessions: the primary's administration says so to keys with the Manage claim."""
        client, state_of = self._client, self._client.pair_state.availability
        for path in list(client._required_sessions.unknown):
            if state_of(path).state is FAILED_OVER or not self._is_time(f"sessions {path}", SESSIONS_S):
                continue
            client.meter.count("manage", client.primary.namespace, "*", operations=1, billing_units=1)
            try:
                queue = yield from call(client.primary.administration.get_queue, path)
            except (ResourceNotFoundError, ClientAuthenticationError) as error:  # a topic; or a right is missing
                _LOGGER.debug("whether %s requires sessions is not known: %s", path, describe(error))
                client._required_sessions.learn(path, is_required=False)
            else:
                client._required_sessions.learn(path, is_required=bool(queue.requires_session))

    def _repair(self) -> Operation[None]:
        """Keep trying to find or create backlog queues, if there are none or one may have been deleted."""
        pause = max(self._client.options.creation_retry_interval.total_seconds(), TICK_S)
        if self._client.backlog_paths:
            if not self._client.pair_state.rotation.is_doubtful:
                return
            pause = max(min(pause, self._client.options.backlog_probation.total_seconds()), TICK_S)
        if self._is_time("repair", pause) and (yield from call(self._runtime.block, self._may_repair, pause)):
            yield from self._client._find_backlog_again()
