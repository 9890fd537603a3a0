"""Asks failed-over entities whether they accept sends again: one ping per entity and interval, none overlapping."""

import threading
import time
from typing import TYPE_CHECKING

from pairing.clock import seconds
from pairing.drive import drive
from pairing.health.availability import PathAvailability
from pairing.health.faults import describe
from pairing.health.flows import DONE, OpenFresh, Outcome, PingAction, PingResult, ping_flow
from pairing.links import Link, LinkFailure
from pairing.messages.rewriting import ping_message

if TYPE_CHECKING:
    from pairing.client import PairedServiceBusClient

TICK_S = 0.25
MOST_AT_ONCE = 16
CLAIMS_PER_INTERVAL = 4
MOST_GRACE_S = 5.0
PING_BYTES = 160
"""What a ping takes on the wire, about."""


class Turns:
    """Whose turn it is where not all can be tried at once: who was tried the longest ago, whatever came of it."""

    def __init__(self) -> None:
        self._tried_at: dict[str, float] = {}

    def next(self, due: list[PathAvailability]) -> list[PathAvailability]:
        """As many as may be pinged at once."""
        chosen = sorted(due, key=lambda machine: self._tried_at.get(machine.path, 0.0))[:MOST_AT_ONCE]
        self._tried_at |= dict.fromkeys((machine.path for machine in chosen), time.monotonic())
        return chosen


def ping_timeout_s(ping_timeout: float, interval: float) -> float:
    """A ping is over before the next one of its entity may begin, in whichever process."""
    return min(ping_timeout, max(interval, 2.0))


class Pinger(threading.Thread):
    """The pings of one client; each runs on a daemon thread of its own, for an outage may make it slow."""

    def __init__(self, client: "PairedServiceBusClient") -> None:
        super().__init__(name="pairing-pinger", daemon=True)
        self._client = client
        self._stop_event = threading.Event()
        self._lock = threading.Lock()
        self._under_way: set[str] = set()
        self._alone: dict[str, threading.Lock] = {}
        self._claim_again_at: dict[str, float] = {}
        self._turns = Turns()

    def run(self) -> None:
        """Ping what is due until stopped."""
        while not self._stop_event.wait(TICK_S):
            self._begin_due()

    def stop(self, timeout_s: float) -> None:
        """Begin no further ping."""
        self._stop_event.set()
        if self.is_alive():
            self.join(timeout_s)

    def ping_due(self, grace_s: float = 0.0) -> list[PingResult]:
        """Ping every entity whose ping is due and can be claimed; returns when all have answered."""
        results: list[PingResult] = []
        threads = [
            threading.Thread(target=self._claim_and_ping, args=(machine, grace_s, results), daemon=True)
            for machine in self._turns.next(self._due())
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    def ping(self, path: str) -> PingResult:
        """Ping one entity now; while another ping of it is under way, once that has ended."""
        with self._alone.setdefault(path.lower(), threading.Lock()):
            return self._ping(path)

    def _ping(self, path: str) -> PingResult:
        pair, options = self._client.pair_state, self._client.options
        interval = pair.availability(path).ping_interval_s
        attempt = _Attempt(self._client, path)
        flow = ping_flow(
            path, time.monotonic, describe, timeout_s=ping_timeout_s(seconds(options.ping_timeout), interval)
        )
        try:
            result = drive(flow, attempt.perform)
        finally:
            attempt.close()
        pair.pinged(result)
        self._record(result)
        return result

    def _record(self, result: PingResult) -> None:
        due = self._client.availability(result.path).ping_at
        self._client.fleet.record_ping(result, None if due is None else self._client.clock.utc(due))

    def _due(self) -> list[PathAvailability]:
        now = self._client.clock.now()
        return [machine for machine in self._client.pair_state.entities() if machine.ping_due(now)]

    def _begin_due(self) -> None:
        now = time.monotonic()
        for machine in self._due():
            if now >= self._claim_again_at.get(machine.path, 0.0) and len(self._under_way) < MOST_AT_ONCE:
                interval = machine.ping_interval_s
                self._claim_again_at[machine.path] = now + max(TICK_S, interval / CLAIMS_PER_INTERVAL)
                grace = min(MOST_GRACE_S, interval / CLAIMS_PER_INTERVAL)
                threading.Thread(
                    target=self._claim_and_ping, args=(machine, grace, []), name="pairing-ping", daemon=True
                ).start()

    def _claim_and_ping(self, machine: PathAvailability, grace_s: float, results: list[PingResult]) -> None:
        with self._lock:
            if machine.path in self._under_way:
                return
            self._under_way.add(machine.path)
        try:
            if self._client.fleet.claim_ping(machine.path, machine.ping_interval_s, grace_s):
                results.append(self.ping(machine.path))
        finally:
            with self._lock:
                self._under_way.discard(machine.path)


class _Attempt:
    """One ping on the wire: a link of its own, and the message where that opens."""

    def __init__(self, client: "PairedServiceBusClient", path: str) -> None:
        self._client = client
        self._path = path
        self._link = Link(lambda: client.sdk_sender("primary", path), client.watchdog)

    def perform(self, action: PingAction) -> Outcome:
        """Do what the flow asks."""
        if isinstance(action, OpenFresh):
            failure = self._link.warm(action.timeout_s)
            return self._outcome(failure)
        ping = ping_message()
        failure = self._link.attempt(lambda sender, left: sender.send_messages(ping, timeout=left), action.timeout_s)
        accepted = int(failure is None)
        self._client.meter.count(
            "ping",
            self._client.primary.namespace,
            self._path,
            messages=accepted,
            bytes=PING_BYTES * accepted,
            billing_units=accepted,
        )
        return self._outcome(failure)

    def _outcome(self, failure: LinkFailure | None) -> Outcome:
        if failure is None:
            return DONE
        return self._client.failed(failure.error, self._path, reused=failure.reused)

    def close(self) -> None:
        """Let go of the link."""
        self._link.close(0.0)
