"""Pings failed-over entities: one ping per entity and interval, without overlap."""

import logging
import threading
import time
from typing import Any

from pairing.clock import seconds
from pairing.drive import Lock, Operation, call
from pairing.errors import Fault
from pairing.health.availability import PathAvailability
from pairing.health.faults import describe
from pairing.health.flows import PingResult
from pairing.links import LinkFailure
from pairing.messages.rewriting import ping_message
from pairing.operations.client import ClientOperations

_LOGGER = logging.getLogger("pairing")
TICK_S = 0.25
MOST_AT_ONCE = 16
CLAIMS_PER_INTERVAL = 4
MOST_GRACE_S = 5.0
PING_BYTES = 160
"""The approximate size of a ping on the wire."""


class Turns:
    """The order of entities if not all can be tried at once: the least recently tried first."""

    def __init__(self) -> None:
        self._tried_at: dict[str, float] = {}

    def next(self, due: list[PathAvailability]) -> list[PathAvailability]:
        """Select as many as may be pinged at once."""
        chosen = sorted(due, key=lambda machine: self._tried_at.get(machine.path, 0.0))[:MOST_AT_ONCE]
        self._tried_at |= dict.fromkeys((machine.path for machine in chosen), time.monotonic())
        return chosen


def ping_timeout_s(ping_timeout: float, interval: float) -> float:
    """The timeout of a ping, so that it ends before the next one of its entity may begin in any process."""
    return min(ping_timeout, max(interval, 2.0))


class Pinger:
    """The pings of one client, each in its own worker, because an outage can make it slow."""

    def __init__(self, client: ClientOperations[Any, Any, Any, Any]) -> None:
        self._client, self._runtime = client, client.runtime
        self._lock = threading.Lock()
        self._under_way: set[str] = set()
        self._claim_again_at: dict[str, float] = {}
        self._turns = Turns()
        self._alone: dict[str, Lock] = {}
        self._stop = client.runtime.event()

    def work(self) -> Operation[None]:
        """Ping what is due until stopped."""
        while not self._stop.is_set():
            yield from call(self._runtime.rest, self._stop, TICK_S)
            if not self._stop.is_set():
                self._begin_due()

    def stop(self) -> None:
        """Begin no further ping."""
        self._stop.set()

    def ping_due(self, grace_s: float = 0.0) -> Operation[list[PingResult]]:
        """Ping every entity whose ping is due and can be claimed; returns when all have answered."""
        results: list[PingResult] = []

        def claim_and_ping(machine: PathAvailability) -> Operation[None]:
            if (result := (yield from self._claim_and_ping(machine, grace_s))) is not None:
                results.append(result)

        due = self._turns.next(self._due())
        yield from call(self._runtime.wait, [self._runtime.spawn(claim_and_ping(one), "ping") for one in due], None)
        return results

    def ping(self, path: str) -> Operation[PingResult]:
        """Ping one entity now, after any ping of it that is in progress."""
        alone = self._alone.setdefault(path.lower(), self._runtime.lock())
        yield from call(alone.acquire)
        try:
            return (yield from self._ping(path))
        finally:
            alone.release()

    def _due(self) -> list[PathAvailability]:
        now = self._client.clock.now()
        return [machine for machine in self._client.pair_state.entities() if machine.ping_due(now)]

    def _begin_due(self) -> None:
        now = time.monotonic()
        for machine in self._due():
            if now >= self._claim_again_at.get(machine.path, 0.0) and len(self._under_way) < MOST_AT_ONCE:
                interval = machine.ping_interval_s
                self._claim_again_at[machine.path] = now + max(TICK_S, interval / CLAIMS_PER_INTERVAL)
                try:
                    grace_s = min(MOST_GRACE_S, interval / CLAIMS_PER_INTERVAL)
                    self._runtime.spawn(self._claim_and_ping(machine, grace_s), "ping")
                except RuntimeError as error:  # no thread can be started now, and there may be one later
                    _LOGGER.warning("%s cannot be pinged now: %s", machine.path, error)

    def _claim_and_ping(self, machine: PathAvailability, grace_s: float) -> Operation[PingResult | None]:
        with self._lock:
            if machine.path in self._under_way:
                return None
            self._under_way.add(machine.path)
        try:
            if (yield from self._claim(machine, grace_s)):
                return (yield from self.ping(machine.path))
            return None
        finally:
            with self._lock:
                self._under_way.discard(machine.path)

    def _claim(self, machine: PathAvailability, grace_s: float) -> Operation[bool]:
        if self._client.coordination is None:
            return True
        claim_ping = self._client.fleet.claim_ping
        claimed: bool = yield from call(self._runtime.block, claim_ping, machine.path, machine.ping_interval_s, grace_s)
        return claimed

    def _ping(self, path: str) -> Operation[PingResult]:
        client = self._client
        interval_s = client.pair_state.availability(path).ping_interval_s
        timeout_s = ping_timeout_s(seconds(client.options.ping_timeout), interval_s)
        link = client._link_to("primary", path)
        try:
            result = yield from self._result(path, link, timeout_s)
        finally:
            yield from call(link.close, 0.0)
        client.pair_state.pinged(result)
        due = client.availability(path).ping_at
        if client.coordination is not None:
            next_due = None if due is None else client.clock.utc(due)
            yield from call(self._runtime.block, client.fleet.record_ping, result, next_due)
        return result

    def _result(self, path: str, link: Any, timeout_s: float) -> Operation[PingResult]:
        """Open a link of its own first, which costs nothing, and spend the message only where that succeeds."""
        until = time.monotonic() + timeout_s
        failure = yield from call(link.warm, timeout_s)
        if failure is None:
            failure = yield from self._send_ping(link, max(until - time.monotonic(), 0.001))
            accepted = int(failure is None)
            self._client.meter.count(
                "ping",
                self._client.primary.namespace,
                path,
                messages=accepted,
                bytes=PING_BYTES * accepted,
                billing_units=accepted,
            )
        if failure is None:
            return PingResult(path, True, "accepted")
        failed = self._client.failed(failure.error, path, reused=failure.reused)
        return PingResult(path, False, describe(failed.error), failed.fault is Fault.BUSY)

    def _send_ping(self, link: Any, timeout_s: float) -> Operation[LinkFailure | None]:
        ping = ping_message()
        return call(link.attempt, lambda sender, left: sender.send_messages(ping, timeout=left), timeout_s)
