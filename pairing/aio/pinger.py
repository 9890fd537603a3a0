"""Asks failed-over entities whether they accept sends again: one ping per entity and interval, none overlapping."""

import asyncio
import time
from typing import TYPE_CHECKING

from pairing.aio.links import Link
from pairing.clock import seconds
from pairing.drive import drive_async
from pairing.health.availability import PathAvailability
from pairing.health.faults import describe
from pairing.health.flows import DONE, OpenFresh, Outcome, PingAction, PingResult, ping_flow
from pairing.links import LinkFailure
from pairing.messages.rewriting import ping_message
from pairing.pinger import CLAIMS_PER_INTERVAL, MOST_AT_ONCE, MOST_GRACE_S, PING_BYTES, TICK_S, Turns, ping_timeout_s

if TYPE_CHECKING:
    from pairing.aio.client import PairedServiceBusClient


class Pinger:
    """The pings of one client; each is a task of its own, for an outage may make it slow."""

    def __init__(self, client: "PairedServiceBusClient") -> None:
        self._client = client
        self._under_way: set[str] = set()
        self._alone: dict[str, asyncio.Lock] = {}
        self._claim_again_at: dict[str, float] = {}
        self._turns = Turns()

    async def run(self) -> None:
        """Ping what is due until cancelled."""
        while self._client.state == "opened":
            await asyncio.sleep(TICK_S)
            self._begin_due()

    async def ping_due(self, grace_s: float = 0.0) -> list[PingResult]:
        """Ping every entity whose ping is due and can be claimed; returns when all have answered."""
        due = self._turns.next(self._due())
        results = await asyncio.gather(*(self._claim_and_ping(machine, grace_s) for machine in due))
        return [result for result in results if result is not None]

    async def ping(self, path: str) -> PingResult:
        """Ping one entity now; while another ping of it is under way, once that has ended."""
        async with self._alone.setdefault(path.lower(), asyncio.Lock()):
            return await self._ping(path)

    async def _ping(self, path: str) -> PingResult:
        pair, options = self._client.pair_state, self._client.options
        timeout_s = ping_timeout_s(seconds(options.ping_timeout), pair.availability(path).ping_interval_s)
        attempt = _Attempt(self._client, path)
        try:
            result = await drive_async(ping_flow(path, time.monotonic, describe, timeout_s=timeout_s), attempt.perform)
        finally:
            await attempt.close()
        pair.pinged(result)
        due = self._client.availability(path).ping_at
        next_due = None if due is None else self._client.clock.utc(due)
        if self._client.coordination is not None:
            await asyncio.to_thread(self._client.fleet.record_ping, result, next_due)
        return result

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
                self._client.background.start(self._claim_and_ping(machine, grace), "ping")

    async def _claim_and_ping(self, machine: PathAvailability, grace_s: float) -> PingResult | None:
        if machine.path in self._under_way:
            return None
        self._under_way.add(machine.path)
        try:
            if await self._claim(machine, grace_s):
                return await self.ping(machine.path)
            return None
        finally:
            self._under_way.discard(machine.path)

    async def _claim(self, machine: PathAvailability, grace_s: float) -> bool:
        if self._client.coordination is None:
            return True
        return await asyncio.to_thread(self._client.fleet.claim_ping, machine.path, machine.ping_interval_s, grace_s)


class _Attempt:
    """One ping on the wire: a link of its own, and the message where that opens."""

    def __init__(self, client: "PairedServiceBusClient", path: str) -> None:
        self._client = client
        self._path = path
        self._link = Link(lambda: client.sdk_sender("primary", path), client.background)

    async def perform(self, action: PingAction) -> Outcome:
        """Do what the flow asks."""
        if isinstance(action, OpenFresh):
            return self._outcome(await self._link.warm(action.timeout_s))
        ping = ping_message()
        failure = await self._link.attempt(
            lambda sender, left: sender.send_messages(ping, timeout=left), action.timeout_s
        )
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

    async def close(self) -> None:
        """Let go of the link."""
        await self._link.close(0.0)
