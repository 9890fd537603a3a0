"""The gateway of a pair: its listeners, its relays, its health, and how it ends."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from prometheus_client import generate_latest

from amqp10.transport.listener import READ_BUFFER, AcceptedConnection, Listener
from amqp10.transport.origin import is_loopback, objection
from gateway.access import Access
from gateway.front import Front
from gateway.guard.backlog import SharedSender, reaches
from gateway.guard.client import GatewayClient
from gateway.memory import Memory, Proofs
from gateway.metrics import Metrics, by_sdk
from gateway.namespace import Namespace
from gateway.pairs import PairEnds
from gateway.relay import FORCED, Relay
from gateway.standin import StandIn
from gateway.web import Pages, Splice, WebConversation
from pairing.fleet.presence import GatewayTraffic, Presence

log = logging.getLogger("gateway")

FINISH_S = 30.0
_CLOSING_S, _LOOK_S, _ANSWER_S, _PAUSE_S = 2.0, 0.01, 5.0, 1.0
_STOPS = "The gateway is shutting down."
_MOST_LOOKS, _FRAGILE = 60, "MSJSClient"  # for clients that never rest, but for the SDK that fails what it sends then


class Gateway:
    """One process's gateway; implements `relay.Gateway`."""

    def __init__(self, pair: PairEnds, keys: Mapping[str, str], address: str | None) -> None:
        self.pair = pair
        self.primary = Namespace.of(pair.primary, address)
        self.access = Access(keys, self.primary)
        self.memory = Memory()
        self.client = client_of(pair, self.primary)
        self._opening: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self.metrics = Metrics() if self.client is None else self.client.metrics
        self.metrics.pair, self.metrics.traffic = pair.name, self._traffic
        self.certificate_ends: float | None = None
        self.read_buffer = bytearray(READ_BUFFER)
        self.is_ready = False
        self._relays: set[Relay | StandIn] = set()
        self._listeners: list[Listener] = []
        self._health: Listener | None = None

    def start(self) -> None:
        """Find or create the backlog queues, while clients are passed on already."""
        if self.client is not None:
            loop = asyncio.get_running_loop()
            if (shared := self.client.coordination) is not None:
                shared.presence = partial(self._presence, shared.presence, loop)
            self._opening = loop.create_task(_opened(self.client))
            self.primary_lost()  # it may be away already

    async def listen(self, address: str, port: int, tls: ssl.SSLContext | None) -> int:
        """Accept clients; returns the port. With TLS also those of WebSockets and of HTTPS. Raises OSError."""
        is_local = tls is None and is_loopback(address)  # a certificate proves the name
        objects = partial(objection, namespace=self.primary.hostname, is_local=is_local)
        https = replace(self.primary, port=443) if self.primary.port == 5671 else self.primary  # emulators have one
        administered = None if tls is None else partial(Splice, https, self.read_buffer)
        listener = Listener(self._serve, lambda connection: WebConversation(connection, {}, objects, administered))
        listener.tls, listener.requires_tls = tls, tls is not None
        self._listeners.append(listener)
        return await listener.open(address, port)

    async def listen_health(self, address: str, port: int) -> int:
        """Answer /healthz, /readyz and /metrics; returns the port. Raises OSError."""
        pages: Pages = {
            "/healthz": lambda: (200, "ok\n"),
            "/readyz": lambda: (200, "ready\n") if self.is_ready else (503, "not ready\n"),
            "/metrics": lambda: (200, generate_latest(self.metrics).decode()),
        }

        def serve(connection: AcceptedConnection) -> WebConversation:
            return WebConversation(connection, pages, lambda headers: "Clients connect to another port.")

        self._health = Listener(serve, serve)
        return await self._health.open(address, port)

    def _serve(self, connection: AcceptedConnection) -> Front | StandIn:
        self.metrics.clients_total += 1
        if self.client is not None and self.client.direct.is_away:
            self._relays.add(made := StandIn(self.client, Proofs(self.memory), self.access, connection, self.ended))
            return made
        self._relays.add(relay := Relay(self, connection))
        return relay.front

    def primary_lost(self) -> None:
        """A connection to the primary is lost: find out whether it is away, and when it is back."""
        self._looks = 0  # that found it
        if self.client is not None and (self._looking is None or self._looking.done()):
            self._looking = asyncio.get_running_loop().create_task(self._look(self.client.direct))

    async def _look(self, direct: SharedSender) -> None:
        """Until the primary is there, and all clients that were served without it have left, each between two sends."""
        while True:
            direct.is_away = not await reaches(self.primary, self.read_buffer)
            self._looks = 0 if direct.is_away else self._looks + 1
            served = {each for each in self._relays if not each.is_primary_there}
            busy = {each for each in served if each.retained or time.monotonic() < each.busy_until}
            busy = {each for each in busy if self._looks < _MOST_LOOKS or each.sdk.startswith(_FRAGILE)}
            for relay in [each for each in self._relays if each.is_waiting] if direct.is_away else served - busy:
                relay.leave(f"The primary namespace {'does not answer' if direct.is_away else 'is back'}.")
            if not (direct.is_away or busy):
                return
            await asyncio.sleep(_PAUSE_S)

    def ended(self, relay: Relay | StandIn) -> None:
        """A client has left."""
        self._relays.discard(relay)

    def _traffic(self) -> GatewayTraffic:
        return GatewayTraffic(
            clients=by_sdk(relay.sdk for relay in self._relays),
            links=sum(len(relay.links) for relay in self._relays),
            retained=sum(relay.retained for relay in self._relays),
            redirected=self.metrics.redirected_total,
            refused=self.metrics.refused_total,
            certificate_ends=self.certificate_ends,
        )

    def _presence(self, of_client: Callable[[], Presence], loop: asyncio.AbstractEventLoop) -> Presence:
        """The report of this process; not given if the loop, on which clients are served, does not answer."""

        async def traffic() -> GatewayTraffic:
            return self._traffic()

        asked = asyncio.run_coroutine_threadsafe(traffic(), loop)
        try:
            return replace(of_client(), gateway=asked.result(_ANSWER_S))
        except TimeoutError as error:  # an OSError, which would be one of Redis
            raise RuntimeError("The loop of the gateway does not answer.") from error

    async def stop(self) -> None:
        """Accept nobody any more, and tell each client to connect elsewhere."""
        self.is_ready = False
        for listener in self._listeners:
            listener.stop_accepting()
        for relay in list(self._relays):
            relay.leave(_STOPS)
        with suppress(TimeoutError):
            async with asyncio.timeout(FINISH_S):
                while any(relay.retained for relay in self._relays):
                    await asyncio.sleep(_LOOK_S)
        for relay in list(self._relays):
            relay.close(FORCED, _STOPS)
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_S):
                while self._relays:
                    await asyncio.sleep(_LOOK_S)
        for listener in [*self._listeners, *([self._health] if self._health else [])]:
            listener.close()
        if self.client is not None and self._opening is not None:
            self._opening.cancel()
            await self.client.close()


def client_of(pair: PairEnds, primary: Namespace) -> GatewayClient | None:
    """The client whose rules guard senders; None for a pair whose namespaces have no keys."""
    if pair.primary.connection_string is None or pair.secondary.connection_string is None:
        return None
    client = GatewayClient.__new__(GatewayClient)
    client._build(replace(pair.primary, keywords=primary.keywords), pair.secondary, pair.options, None)
    return client


async def _opened(client: GatewayClient) -> None:
    try:
        await client.open()
    except Exception:
        log.exception("the guard of senders cannot be opened")
