"""The blocking paired client."""

import logging
import threading
import time
from dataclasses import replace
from math import inf
from typing import Any, Self

from azure.core.paging import ItemPaged
from azure.servicebus import ServiceBusClient, ServiceBusReceiver
from azure.servicebus.management import ServiceBusAdministrationClient

from pairing.backlog.administration import emulator_transport
from pairing.clock import Clock, joined, left_until, start
from pairing.drive import run
from pairing.ends import Endpoint, Role, SdkEnd, close_all
from pairing.health.flows import PingResult
from pairing.links.link import Link, Watchdog
from pairing.links.sockets import punctual_context
from pairing.operations.client import ClientOperations
from pairing.operations.maintenance import Maintenance
from pairing.operations.pinger import Pinger
from pairing.operations.threads import Threads
from pairing.options import SendAvailabilityOptions
from pairing.paired import CLOSE_S
from pairing.receivers import MeteredPages, MeteredReceiver, MeteredSession
from pairing.sender import PairedSender

_FLYING_S = 0.5

_LOGGER = logging.getLogger("pairing")


class BlockingEnd(SdkEnd[ServiceBusClient, ServiceBusAdministrationClient, Link]):
    """One namespace of the pair, with the SDK's clients for it."""

    bus_class = ServiceBusClient
    administration_class = ServiceBusAdministrationClient
    plain_transport = staticmethod(emulator_transport)

    def _sending_endpoint(self) -> Endpoint:
        """The endpoint with a bounded TLS handshake; a context of the user is left unchanged."""
        keywords = self.endpoint.keywords
        has_own = {"ssl_context", "http_proxy"} & keywords.keys() or self.endpoint.is_websocket
        if has_own or self.endpoint.emulator:
            return self.endpoint
        context = punctual_context(keywords.get("connection_verify"))
        return replace(self.endpoint, keywords={**keywords, "ssl_context": context})

    def close(self, timeout_s: float = 1.0) -> None:
        """Close this end; the pair faults unless the other end is closed within 5 s."""
        if self._fall("closed"):
            self.let_go(timeout_s)

    def fault(self, error: BaseException) -> None:
        """Declare this end unusable because of ``error``; the pair faults unless the other end is closed within 5 s."""
        if self._fall("faulted", error):
            self.let_go(0.0)

    def let_go(self, timeout_s: float = 1.0) -> None:
        """Close the SDK's clients on a separate thread, so that an unresponsive namespace does not block the caller."""
        made = self._taken()
        if made:
            thread = threading.Thread(target=self._close_all, args=(made,), name="pairing-closing", daemon=True)
            try:
                start(thread)
            except RuntimeError as error:  # the process can start no thread
                _LOGGER.warning("connections of the %s are closed when they are collected: %s", self.role, error)
                self._close_links()
                return
            thread.join(timeout_s)

    def _close_all(self, clients: list[Any]) -> None:
        self._close_links()
        run(close_all(clients))

    def _close_links(self) -> None:
        until = time.monotonic() + _FLYING_S
        for link in self._links(self.role):  # first, because the SDK logs errors if a link opens on a closed client
            link.close(max(until - time.monotonic(), 0.0))


class PairedServiceBusClient(ClientOperations[Link, PairedSender, ServiceBusReceiver, ItemPaged[str]]):
    """Sends to a primary namespace, and per entity to a secondary one while the primary accepts nothing.

    ``credential`` is anything that azure-identity offers; ``secondary_credential`` (default: the same) needs the Manage
    claim. ``keywords`` are those of the SDK's ServiceBusClient. Opening accesses the secondary only.
    """

    _in_asyncio = False
    _metered_classes = (MeteredReceiver, MeteredSession, MeteredPages)
    primary: BlockingEnd
    secondary: BlockingEnd

    def _build(
        self, primary: Endpoint, secondary: Endpoint, options: SendAvailabilityOptions | None, clock: Clock | None
    ) -> None:
        self._runtime = Threads()
        super()._build(primary, secondary, options, clock)
        self._opening = threading.Lock()
        self._shutting: threading.Thread | None = None
        self._stop_syphon = threading.Event()
        self._workers: dict[str, threading.Thread] = {}
        self.watchdog = Watchdog(self._tick)
        self._pinger = Pinger(self)
        self._maintenance = Maintenance(self)

    def _end(self, endpoint: Endpoint, namespace: str) -> BlockingEnd:
        return BlockingEnd(endpoint, namespace, self._end_is_down, self._links_of)

    # Life ----------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Find or create the backlog queues, then allow sends. Failures are raised here, not by later sends.

        BacklogCreationError names the namespace if it has no backlog queue and none could be created.
        """
        with self._opening:
            run(self._open())

    def _begin_working(self) -> None:
        with self._lock:
            self._check_new()  # it may have been closed meanwhile
            self._opened()
            self.watchdog.start()
            self._workers["maintenance"] = self._runtime.spawn(self._maintenance.work(), "maintenance")
            self._fleet.start()
            if self.options.enable_pings:
                self._workers["pinger"] = self._runtime.spawn(self._pinger.work(), "pinger")
            if self.options.enable_syphon:
                self._start_syphon()

    def close(self) -> None:
        """Stop pings, then the syphon, then close both ends; within 5 s, idempotent, safe in ``finally``."""
        self._closing.set()
        with self._lock:
            begins, shutting = self._begin_closing(), self._shutting
        if shutting is not None and shutting is not threading.current_thread():
            shutting.join(CLOSE_S)  # both ends were down already
        elif begins:
            self._shut_down()
        if begins:
            self._state = "closed"

    def _shut_down(self) -> None:
        began = time.monotonic()
        self._report_usage()
        self._pinger.stop()
        self._join("pinger", 1.0)
        grace = min(self.options.close_grace.total_seconds(), CLOSE_S - 2.0)
        flying_until = min(time.monotonic() + grace, began + 3.5)
        self._stop_syphon.set()
        self._join("syphon", left_until(flying_until))
        for link in self.watchdog.links():
            link.close(left_until(flying_until))
        until = began + CLOSE_S - 1.0
        self._maintenance.stop()
        self._join("maintenance", min(left_until(until), 1.0))
        self._report_usage()
        self._fleet.close(max(left_until(until), 0.5))
        self.watchdog.stop(max(left_until(until), 0.2))
        self.primary.close(min(left_until(began + CLOSE_S) / 2, 1.0))
        self.secondary.close(min(left_until(began + CLOSE_S), 1.0))
        self._callbacks.wait(min(left_until(began + CLOSE_S), 1.0))

    def _join(self, name: str, timeout_s: float) -> None:
        if name in self._workers:
            joined(self._workers[name], timeout_s)

    def _stop_working(self) -> None:
        with self._lock:  # a concurrent close waits for a thread that has started
            self._shutting = threading.Thread(target=self._shut_down, name="pairing-closing", daemon=True)
            self._shutting.start()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Senders, receivers and links ----------------------------------------------------------------------------------

    def _sender(self, name: str, **keywords: Any) -> PairedSender:
        return PairedSender(self, name, self._link_to("primary", name, **keywords))

    def _link_to(self, role: Role, name: str, *, warm: bool = False, idle_s: float = inf, **keywords: Any) -> Link:
        return Link(lambda: self.sdk_sender(role, name, **keywords), self.watchdog, warm=warm, idle_s=idle_s)

    def _all_links(self) -> list[Link]:
        return self.watchdog.links()

    def _forget_links(self) -> None:
        self._opening = threading.Lock()
        self.watchdog.forget_links()

    # Pings ---------------------------------------------------------------------------------------------------------

    def ping(self, path: str) -> PingResult:
        """Ping the entity now; an accepted ping makes an entity healthy unless it is held."""
        self._check_open()
        return run(self._pinger.ping(path))

    def ping_due(self) -> list[PingResult]:
        """Ping every failed-over entity whose ping is due and which this process can claim; for workers."""
        self._check_open()
        return run(self._pinger.ping_due())

    def _start_syphon(self) -> None:
        from pairing.syphon import Syphon  # only some clients host one

        self._workers["syphon"] = self._runtime.spawn(Syphon(self).running(self._stop_syphon), "syphon")
