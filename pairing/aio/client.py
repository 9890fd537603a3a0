"""The paired client for asyncio."""

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any, Self

from azure.core.async_paging import AsyncItemPaged
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver
from azure.servicebus.aio.management import ServiceBusAdministrationClient

from pairing.aio.administration import TlsTransport, emulator_transport
from pairing.aio.cancellation import CANCEL_AGAIN_S, within
from pairing.aio.links import Background, Link
from pairing.aio.receivers import MeteredPages, MeteredReceiver, MeteredSession
from pairing.aio.runtime import Tasks
from pairing.aio.sender import PairedSender
from pairing.clock import Clock
from pairing.drive import run_async
from pairing.ends import End, Endpoint, Role, SdkEnd, close_all
from pairing.errors import PairingError
from pairing.health.flows import PingResult
from pairing.links.sockets import tls_context
from pairing.operations.client import ClientOperations
from pairing.operations.maintenance import Maintenance
from pairing.operations.pinger import Pinger
from pairing.options import SendAvailabilityOptions
from pairing.paired import CLOSE_S

_LOGGER = logging.getLogger("pairing")
_FLYING_S = 0.5
_TICK_S = 0.25


class AsyncEnd(SdkEnd[ServiceBusClient, ServiceBusAdministrationClient, Link]):
    """One namespace of the pair, with the SDK's asyncio clients for it."""

    bus_class = ServiceBusClient
    administration_class = ServiceBusAdministrationClient
    plain_transport = staticmethod(emulator_transport)
    proxy_scheme = "http://"

    def __init__(
        self,
        endpoint: Endpoint,
        namespace: str,
        on_down: Callable[[End], None],
        links: Callable[[Role], Iterable[Link]],
        background: Background,
    ) -> None:
        super().__init__(endpoint, namespace, on_down, links)
        self._background = background
        self._context: ssl.SSLContext | None = None

    def use(self, context: ssl.SSLContext) -> None:
        """Open every connection with this TLS context, which an emulator's connections do not use."""
        if not self.endpoint.emulator:
            self._context = context
        self.endpoint = replace(self.endpoint, keywords={**self.endpoint.keywords, "ssl_context": context})

    def _tls_transport(self) -> Callable[..., Any] | None:
        """Where authorities are given, azure.core makes a context for each request, on the loop."""
        if self._context is None or not self.endpoint.keywords.get("connection_verify"):
            return None
        return partial(TlsTransport, self._context)

    async def close(self) -> None:
        """Close this end; the pair faults unless the other end is closed within 5 s."""
        if self._fall("closed"):
            await self.let_go()

    def fault(self, error: BaseException) -> None:
        """Declare this end unusable because of ``error``; the pair faults unless the other end is closed within 5 s."""
        if self._fall("faulted", error):
            self._background.start(self.let_go(), "closing")

    async def let_go(self) -> None:
        """Close the SDK's clients, waiting a second at most."""
        made = self._taken()
        if made:
            closing = self._background.start(within(self._close_all(made), CLOSE_S - 1.0), "closing")
            await asyncio.wait([closing], timeout=1.0)

    async def _close_all(self, clients: list[Any]) -> None:
        links = self._links(self.role)  # first: the SDK logs errors where a link opens on a closed client
        await asyncio.gather(*(link.close(_FLYING_S) for link in links))
        await run_async(close_all(clients))


class PairedServiceBusClient(ClientOperations[Link, PairedSender, ServiceBusReceiver, AsyncItemPaged[str]]):
    """Sends to a primary namespace, and per entity to a secondary one while the primary accepts nothing.

    ``credential`` is anything that ``azure.identity.aio`` offers; ``secondary_credential`` (default: the same) needs
    the Manage claim. ``keywords`` are those of the SDK's ServiceBusClient. Opening accesses the secondary only.
    """

    _in_asyncio = True
    _metered_classes = (MeteredReceiver, MeteredSession, MeteredPages)
    _runtime: Tasks
    primary: AsyncEnd
    secondary: AsyncEnd

    def _build(
        self, primary: Endpoint, secondary: Endpoint, options: SendAvailabilityOptions | None, clock: Clock | None
    ) -> None:
        self.background = Background()
        self._runtime = Tasks(self.background)
        self._loop: asyncio.AbstractEventLoop | None = None
        super()._build(primary, secondary, options, clock)
        self._opening = asyncio.Lock()
        self._work: list[asyncio.Task[Any]] = []
        self._watchdog: asyncio.Task[Any] | None = None
        self._stop_syphon = asyncio.Event()
        self._syphon: asyncio.Task[Any] | None = None
        self._shutting: asyncio.Task[Any] | None = None
        self._pinger = Pinger(self)
        self._maintenance = Maintenance(self)

    def _end(self, endpoint: Endpoint, namespace: str) -> AsyncEnd:
        return AsyncEnd(endpoint, namespace, self._end_is_down, self._links_of, self.background)

    # Life ----------------------------------------------------------------------------------------------------------

    @property
    def _refusal(self) -> Exception | None:
        """As for the blocking client; and an error in another event loop, where nothing would watch the deadlines."""
        if self._own_refusal is None and self._is_elsewhere():
            return PairingError(
                "the paired client was opened in another event loop: create and open one in each event loop"
            )
        return self._own_refusal

    @_refusal.setter
    def _refusal(self, error: Exception | None) -> None:
        self._own_refusal = error

    def _check_loop(self) -> None:
        """Raise in another event loop than the client's."""
        if self._is_elsewhere():
            self._check_open()

    def _is_elsewhere(self) -> bool:
        """Whether another event loop than the client's runs here."""
        try:
            return self._loop is not None and asyncio.get_running_loop() is not self._loop
        except RuntimeError:  # a thread without a loop, which cannot await anything
            return False

    async def open(self) -> None:
        """Find or create the backlog queues, then allow sends. Failures are raised here, not by later sends.

        BacklogCreationError names the namespace if it has no backlog queue and none could be created.
        """
        self._check_loop()
        async with self._opening:
            if self._state == "created":
                await self._make_tls_context()
            await run_async(self._open())

    async def _make_tls_context(self) -> None:
        """The context of all connections, made on a thread: the SDK makes one for each link, on the loop.

        It takes some 45 ms, in which no deadline is noticed, and the SDK makes it for an emulator without TLS too:
        there an empty one is enough. A context of the user's own is left as it is.
        """
        keywords = self.primary.endpoint.keywords
        if keywords.get("ssl_context") is not None:
            return
        ends = []
        for end in (self.primary, self.secondary):
            if end.endpoint.emulator:
                end.use(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
            else:
                ends.append(end)
        if not ends:
            return
        with contextlib.suppress(OSError):  # authorities that cannot be read: the SDK says so where it connects
            context = await self._runtime.block(tls_context, keywords.get("connection_verify"))
            for end in ends:
                end.use(context)

    def _begin_working(self) -> None:
        self._check_new()  # it may have been closed meanwhile
        self._loop = asyncio.get_running_loop()
        self._opened()
        self._fleet.start()
        self._watchdog = self.background.start(self._watch(), "watchdog")
        self._work = [self._runtime.spawn(self._maintenance.work(), "maintenance")]
        if self.options.enable_pings:
            self._work.append(self._runtime.spawn(self._pinger.work(), "pinger"))
        if self.options.enable_syphon:
            self._start_syphon()

    async def _watch(self) -> None:
        try:
            while True:
                await asyncio.sleep(_TICK_S)
                self._look_at_links()
                try:
                    self._tick()
                except Exception:
                    _LOGGER.exception("a periodic check failed; it continues")
        except asyncio.CancelledError:
            if self._state == "opened":
                await self._watch_to_the_end()
            raise

    async def _watch_to_the_end(self) -> None:
        """The loop ends without a close of the client: all of its tasks were cancelled, once.

        One that goes on would keep ``asyncio.run`` from returning.
        """
        until = time.monotonic() + CLOSE_S
        while time.monotonic() < until and (
            self.background.others() or any(link.is_in_use for link in self._all_links())
        ):
            self._look_at_links()
            await self.background.end(_TICK_S)
            await asyncio.sleep(CANCEL_AGAIN_S)

    def _look_at_links(self) -> None:
        now = time.monotonic()
        for link in self._all_links():
            link.interrupt_if_overdue(now)

    async def close(self) -> None:
        """Stop pings, then the syphon, then close both ends; within 5 s, idempotent, safe in ``finally``."""
        if self._loop is not None and self._loop.is_running() and self._is_elsewhere():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.close(), self._loop))
            return
        if self._begin_closing():
            self._stop_working()
        if self._shutting is not None:
            await asyncio.shield(self._shutting)  # a caller who is cancelled leaves nothing half closed
            self._state = "closed"

    async def _shut_down(self) -> None:
        until = time.monotonic() + CLOSE_S - 1.0
        self._report_usage()
        grace = min(self.options.close_grace.total_seconds(), CLOSE_S - 2.5)
        await self.background.cancel(self._work)
        flying_until = min(time.monotonic() + grace, until - 1.0)
        if self._syphon is not None:
            self._stop_syphon.set()
            await asyncio.wait([self._syphon], timeout=max(flying_until - time.monotonic(), 0.0))
        left_s = max(flying_until - time.monotonic(), 0.0)
        await asyncio.gather(*(link.close(left_s) for link in list(self.background.links)))
        if self.coordination is not None:
            self._report_usage()
            leaving = self.background.start(self._runtime.block(self._fleet.close), "leaving")
            await asyncio.wait([leaving], timeout=max(until - 0.5 - time.monotonic(), 0.5))
        await asyncio.gather(self.primary.close(), self.secondary.close())
        await self._runtime.block(self._callbacks.wait, 1.0)
        await self.background.cancel([self._watchdog] if self._watchdog else [])
        await self.background.end(max(until - time.monotonic(), 0.1))
        if (threads := self.background.threads) is not None:
            self.background.threads = None  # a syphon of the application ends later, on threads of the loop
            threads.shutdown(wait=False)

    def _stop_working(self) -> None:
        if self._shutting is None:
            self._shutting = asyncio.ensure_future(self._shut_down())

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Senders, receivers and links ----------------------------------------------------------------------------------

    def _sender(self, name: str, **keywords: Any) -> PairedSender:
        return PairedSender(self, name, self._link_to("primary", name, **keywords))

    def _link_to(self, role: Role, name: str, *, warm: bool = False, idle_s: float = inf, **keywords: Any) -> Link:
        return Link(lambda: self.sdk_sender(role, name, **keywords), self.background, warm=warm, idle_s=idle_s)

    def _all_links(self) -> list[Link]:
        return list(self.background.links)

    def _forget_links(self) -> None:
        for link in self._all_links():
            link.forget()

    # Pings ---------------------------------------------------------------------------------------------------------

    async def ping(self, path: str) -> PingResult:
        """Ping the entity now; an accepted ping makes an entity healthy unless it is held."""
        self._check_open()
        return await run_async(self._pinger.ping(path))

    async def ping_due(self) -> list[PingResult]:
        """Ping every failed-over entity whose ping is due and which this process can claim; for workers."""
        self._check_open()
        return await run_async(self._pinger.ping_due())

    def _start_syphon(self) -> None:
        from pairing.aio.syphon import Syphon  # the syphon uses the client, and only some clients host one

        self._syphon = self.background.start(Syphon(self).run(self._stop_syphon), "syphon")
