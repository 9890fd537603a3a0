"""Pings failed-over entities: one ping per entity and interval, without overlap."""

import logging
import math
import threading
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

from pairing.drive import Lock, Operation, call
from pairing.errors import Fault
from pairing.health.availability import PathAvailability
from pairing.health.faults import describe
from pairing.health.flows import PingResult
from pairing.messages.rewriting import ping_message
from pairing.operations.client import ClientOperations
from pairing.options import MOST_LINKS

_LOGGER = logging.getLogger("pairing")
TICK_S = 0.25
PLACES = MOST_LINKS
"""How many links of pings a client opens at once."""
OPENING_S = 10.0 - TICK_S
"""The time limit of an opening; its place is used again at the next tick."""
PATIENCE = 0.25
"""The part of its interval that applications leave a due ping to the workers, and then wait between two claims."""
MOST_GRACE_S = 5.0
PING_BYTES = 160
"""The approximate size of a ping on the wire."""


class Places:
    """Which due entities are pinged: in the order of their due times, while there are places to open their links."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[str, bool] = {}
        """Path → whether its ping occupies a place."""
        self._tried: dict[str, tuple[float | None, float]] = {}
        """Path → the due time for which a ping was begun, and when to try again if it was not sent."""

    def take(self, machines: Iterable[PathAvailability], now: float, patience: float) -> list[str]:
        """The paths to ping now, each with a place; ``patience``: the part of the interval between two attempts."""
        with self._lock:
            waiting = (machine for machine in machines if machine.path not in self._under_way)
            due = sorted((at, machine.path, machine) for machine in waiting if (at := self._due_at(machine)) <= now)
            chosen = {path: machine for _, path, machine in due[: PLACES - sum(self._under_way.values())]}
            for path, machine in chosen.items():
                self._under_way[path] = True
                self._tried[path] = machine.ping_at, now + max(TICK_S, machine.ping_interval_s * patience)
        return list(chosen)

    def free(self, path: str) -> None:
        """The link of this ping is open, or did not open: another one may be opened."""
        with self._lock:
            if path in self._under_way:
                self._under_way[path] = False

    def end(self, path: str) -> None:
        """The ping is over."""
        with self._lock:
            self._under_way.pop(path, None)

    def _due_at(self, machine: PathAvailability) -> float:
        due_at = math.inf if machine.ping_at is None else machine.ping_at
        tried, again_at = self._tried.get(machine.path, (None, 0.0))
        return again_at if tried == due_at else due_at


class Pinger:
    """The pings of one client, each in its own worker, because an outage can make it slow."""

    def __init__(self, client: ClientOperations[Any, Any, Any, Any]) -> None:
        self._client, self._runtime = client, client._runtime
        self._places = Places()
        self._alone: dict[str, Lock] = {}
        self._stop = client._runtime.event()

    def work(self) -> Operation[None]:
        """Ping what is due until stopped."""
        while not self._stop.is_set():
            self._begin_due(PATIENCE, [])
            yield from call(self._runtime.rest, self._stop, TICK_S)

    def stop(self) -> None:
        """Begin no further ping."""
        self._stop.set()

    def ping_due(self) -> Operation[list[PingResult]]:
        """Ping every entity whose ping is due and can be claimed; returns when all have answered."""
        results: list[PingResult] = []
        yield from call(self._runtime.wait, self._begin_due(0.0, results), None)
        return results

    def ping(self, path: str) -> Operation[PingResult]:
        """Ping one entity now, after any ping of it that is in progress."""
        alone = self._alone.setdefault(path.lower(), self._runtime.lock())
        yield from call(alone.acquire)
        try:
            return (yield from self._ping(path))
        finally:
            alone.release()

    def _begin_due(self, patience: float, results: list[PingResult]) -> list[Any]:
        """Begin the pings that are due and have a place; returns their workers."""
        client, workers = self._client, []
        for path in self._places.take(client.pair_state.entities(), client.clock.now(), patience):
            try:
                workers.append(self._runtime.spawn(self._claim_and_ping(path, patience, results), "ping"))
            except RuntimeError as error:  # no thread can be started now, and there may be one later
                self._places.end(path)
                _LOGGER.warning("%s cannot be pinged now: %s", path, error)
        return workers

    def _claim_and_ping(self, path: str, patience: float, results: list[PingResult]) -> Operation[None]:
        try:
            if (yield from self._claim(path, patience)):
                results.append((yield from self.ping(path)))
        finally:
            self._places.end(path)

    def _claim(self, path: str, patience: float) -> Operation[bool]:
        """Whether this process should ping; one without its fleet pings for itself."""
        if (coordination := self._client.coordination) is None:
            return True
        interval_s = self._client.pair_state.availability(path).ping_interval_s
        claim = partial(coordination.claim_ping, path, interval_s, min(MOST_GRACE_S, interval_s * patience))
        return (yield from call(self._runtime.block, lambda: claim() is not False))

    def _ping(self, path: str) -> Operation[PingResult]:
        client = self._client
        interval_s = client.pair_state.availability(path).ping_interval_s
        timeout_s = min(client.options.ping_timeout.total_seconds(), max(interval_s, 2.0))  # before the next one is due
        link = client._link_to("primary", path)
        try:
            result = yield from self._result(path, link, timeout_s)
        finally:
            yield from call(link.close, 0.0)
        client.pair_state.pinged(result)
        due = client.pair_state.availability(path).ping_at
        if client.coordination is not None:
            next_due = None if due is None else client.clock.utc(due)
            yield from call(self._runtime.block, client._fleet.record_ping, result, next_due)
        return result

    def _result(self, path: str, link: Any, timeout_s: float) -> Operation[PingResult]:
        """Open a link of its own first, which costs nothing, and spend the message only where that succeeds."""
        until = time.monotonic() + timeout_s
        failure = yield from call(link.warm, min(timeout_s, OPENING_S))
        self._places.free(path)
        if failure is None:
            ping, left_s = ping_message(), max(until - time.monotonic(), 0.001)
            failure = yield from call(link.attempt, lambda sender, s: sender.send_messages(ping, timeout=s), left_s)
            n, namespace = int(failure is None), self._client.primary.namespace
            self._client.meter.count("ping", namespace, path, messages=n, bytes=PING_BYTES * n, billing_units=n)
        if failure is None:
            return PingResult(path, True, "accepted")
        failed = self._client._primary_failed(failure.error, path, reused=failure.reused)
        return PingResult(path, False, describe(failed.error), failed.fault is Fault.BUSY)
