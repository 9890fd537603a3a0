"""The blocking paired client."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

from azure.core.paging import ItemPaged
from azure.servicebus import ServiceBusClient, ServiceBusReceiver, ServiceBusSender
from azure.servicebus.exceptions import ServiceBusError
from azure.servicebus.management import ServiceBusAdministrationClient

from pairing.backlog.administration import (
    TRIES,
    AdministrationAction,
    Answer,
    Paired,
    Pause,
    emulator_transport,
    pairing_flow,
    perform,
)
from pairing.clock import Clock, seconds
from pairing.drive import drive
from pairing.ends import End, Endpoint, Role, check_keywords
from pairing.errors import BacklogCreationError, PairingError
from pairing.health.faults import describe
from pairing.health.flows import DONE, Outcome, PingResult, ToBacklog
from pairing.links import Link, Watchdog, punctual_context, send_client_keywords
from pairing.maintenance import Maintenance
from pairing.messages.payload import Payload
from pairing.options import SendAvailabilityOptions
from pairing.paired import CLOSE_S, PairedClient
from pairing.pinger import Pinger
from pairing.receivers import meter_pages, meter_receiver
from pairing.sender import PairedSender

_LOGGER = logging.getLogger("pairing")
_WARM_S = 10.0
_FLYING_S = 0.5

T = TypeVar("T")


class BlockingEnd(End):
    """One namespace of the pair, with the SDK's clients for it."""

    def __init__(
        self,
        endpoint: Endpoint,
        namespace: str,
        on_down: Callable[[End], None],
        links: Callable[[Role], Iterable[Link]],
    ) -> None:
        super().__init__(endpoint.with_proxy_host(lambda host: host), namespace, on_down)
        self._links = links
        self._lock = threading.Lock()
        self._made: dict[str, Any] = {}

    @property
    def sdk(self) -> ServiceBusClient:
        """The SDK's client for sending; without retries, for this library does the retrying."""
        return self._cached("sdk", lambda: self._punctual().service_bus(ServiceBusClient, own_retries=True))

    def _punctual(self) -> Endpoint:
        """The endpoint with a TLS handshake that ends; a context of the user's own is left as it is."""
        keywords = self.endpoint.keywords
        has_own = {"ssl_context", "http_proxy"} & keywords.keys() or self.endpoint.is_websocket
        if has_own or self.endpoint.emulator:
            return self.endpoint
        context = punctual_context(keywords.get("connection_verify"))
        return replace(self.endpoint, keywords={**keywords, "ssl_context": context})

    @property
    def receiving(self) -> ServiceBusClient:
        """The SDK's client for the application's receivers; with the SDK's retries."""
        return self._cached("receiving", lambda: self.endpoint.service_bus(ServiceBusClient, own_retries=False))

    @property
    def administration(self) -> ServiceBusAdministrationClient:
        """The SDK's administration client; over plain HTTP where the namespace is an emulator's."""
        make = self.endpoint.administration
        return self._cached("administration", lambda: make(ServiceBusAdministrationClient, emulator_transport))

    def _cached(self, name: str, make: Callable[[], T]) -> T:
        with self._lock:
            if name not in self._made:
                if self.is_down:  # by what still goes on while the end closes: nobody would close it any more
                    raise ServiceBusError("This end of the pair has been closed.")
                self._made[name] = make()
            made: T = self._made[name]
            return made

    def close(self) -> None:
        """Close this end; the pair faults unless the other end is closed within 5 s."""
        if self._fall("closed"):
            self.let_go()

    def fault(self, error: BaseException) -> None:
        """Declare this end useless because of ``error``; the pair faults unless the other end is closed within 5 s."""
        if self._fall("faulted", error):
            self.let_go()

    def let_go(self) -> None:
        """Close the SDK's clients on a thread of their own: an unresponsive namespace must not hold up the caller."""
        with self._lock:
            made, self._made = list(self._made.values()), {}
        if made:
            thread = threading.Thread(target=self._close_all, args=(made,), name="pairing-closing", daemon=True)
            thread.start()
            thread.join(1.0)

    def _close_all(self, clients: list[Any]) -> None:
        until = time.monotonic() + _FLYING_S
        for link in self._links(self.role):  # first, or the SDK stumbles, loudly, over what opens just now
            link.close(max(until - time.monotonic(), 0.0))
        _close_all(clients)


def _close_all(clients: list[Any]) -> None:
    for client in clients:
        try:
            client.close() if hasattr(client, "close") else client.__exit__(None, None, None)
        except Exception as error:
            _LOGGER.info("closing a client of the SDK failed: %s", describe(error))


class PairedServiceBusClient(PairedClient):
    """Sends to a primary namespace and, per entity, to a secondary one while the primary takes nothing.

    ``credential`` is anything azure-identity offers; ``secondary_credential`` (default: the same) needs the Manage
    claim. ``keywords`` are those of the SDK's ServiceBusClient. Opening talks to the secondary only.
    """

    primary: BlockingEnd
    secondary: BlockingEnd

    def __init__(
        self,
        primary_fqdn: str,
        secondary_fqdn: str,
        credential: Any,
        *,
        secondary_credential: Any = None,
        options: SendAvailabilityOptions | None = None,
        clock: Clock | None = None,
        **keywords: Any,
    ) -> None:
        check_keywords(keywords)
        secondary = credential if secondary_credential is None else secondary_credential
        self._build(
            Endpoint.from_host("primary", primary_fqdn, credential, keywords),
            Endpoint.from_host("secondary", secondary_fqdn, secondary, keywords),
            options,
            clock,
        )

    @classmethod
    def from_connection_string(
        cls,
        primary: str,
        secondary: str,
        *,
        options: SendAvailabilityOptions | None = None,
        clock: Clock | None = None,
        **keywords: Any,
    ) -> Self:
        """A client for two connection strings; the secondary's key needs the Manage claim."""
        check_keywords(keywords)
        client = cls.__new__(cls)
        client._build(
            Endpoint.from_connection_string("primary", primary, keywords),
            Endpoint.from_connection_string("secondary", secondary, keywords),
            options,
            clock,
        )
        return client

    def _build(
        self, primary: Endpoint, secondary: Endpoint, options: SendAvailabilityOptions | None, clock: Clock | None
    ) -> None:
        super()._build(primary, secondary, options, clock)
        self._lock = threading.RLock()
        self._opening = threading.Lock()
        self._closing = threading.Event()
        self._shutting: threading.Thread | None = None
        self._backlog_links: dict[str, Link] = {}
        self._syphon: Any = None
        self.watchdog = Watchdog(self._tick)
        self._pinger = Pinger(self)
        self._tender = Maintenance(self)

    def _end(self, endpoint: Endpoint, namespace: str) -> BlockingEnd:
        return BlockingEnd(endpoint, namespace, self._end_is_down, self._links_of)

    def _links_of(self, role: Role) -> list[Link]:
        with self._lock:
            backlog = list(self._backlog_links.values())
        return backlog if role == "secondary" else [link for link in self.watchdog.links() if link not in backlog]

    # Life ----------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Find or create the backlog queues, then allow sends; any failure is raised now, not later.

        BacklogCreationError names the namespace where it has no backlog queue and gets none.
        """
        with self._opening:
            if self._state == "opened":
                return
            self._check_new()
            self._pair_namespaces()
            self._begin_working()

    def _begin_working(self) -> None:
        with self._lock:
            self._check_new()  # it may have been closed meanwhile
            self._opened()
            self.watchdog.start()
            self._tender.start()
            self.fleet.start()
            if self.options.enable_pings:
                self._pinger.start()
            if self.options.enable_syphon:
                self._start_syphon()

    def _pair_namespaces(self) -> None:
        try:
            self._paired(self._find_backlog())
        except BacklogCreationError as error:
            if self.options.require_secondary:
                self.secondary.let_go()
                raise
            self.emit("queue_pulled", "*", f"opened without backlog: {error}")

    def _find_backlog(self, tries: int = TRIES) -> Paired:
        if self._must_name_secondary():
            self._name_secondary()
        flow = pairing_flow(
            self.secondary.namespace,
            self.primary.namespace,
            self.options.backlog_queue_count,
            pause_s=seconds(self.options.creation_retry_interval),
            tries=tries,
        )
        return drive(flow, self._administer)

    def _name_secondary(self) -> None:
        """Where the host tells nothing, the namespace is asked for its name."""
        name = None
        try:
            name = self.secondary.administration.get_namespace_properties().name
        except Exception as error:
            _LOGGER.info("the secondary namespace did not tell its name: %s", describe(error))
        self._named(name)

    def _administer(self, action: AdministrationAction) -> Answer:
        if isinstance(action, Pause):
            self._closing.wait(action.seconds)
            return None
        answer = perform(self.secondary.administration, action)
        self._count_administration(action, answer)
        return answer

    def repair(self) -> None:
        """Try once more to find the backlog queues; for a client that was opened without the secondary."""
        if self._state == "opened" and not self.backlog_paths:
            self._repaired(self._find_backlog(tries=1))  # meanwhile nothing else is tended

    def close(self) -> None:
        """Stop pings, then the syphon, then close both ends; within 5 s, idempotent, safe in ``finally``."""
        self._closing.set()
        with self._lock:
            begins, shutting = self._begin_closing(), self._shutting
        if shutting is not None and shutting is not threading.current_thread():
            shutting.join(CLOSE_S)  # both ends went down before
        elif begins:
            self._shut_down()
        if begins:
            self._state = "closed"

    def _shut_down(self) -> None:
        until = time.monotonic() + CLOSE_S - 0.5
        grace = min(seconds(self.options.close_grace), CLOSE_S - 2.0)
        self._pinger.stop(1.0)
        if self._syphon is not None:
            self._syphon.stop(grace)
        flying_until = min(time.monotonic() + grace, until - 1.0)
        for link in self.watchdog.links():
            link.close(max(flying_until - time.monotonic(), 0.0))
        self._tender.stop(max(min(1.0, until - time.monotonic()), 0.0))
        if self.coordination is not None:
            self.fleet.record(self.meter.drain(self.clock.now(), everything=True))
        self.fleet.close()
        self.watchdog.stop(max(until - time.monotonic(), 0.2))
        self.primary.close()
        self.secondary.close()

    def _stop_working(self) -> None:
        with self._lock:  # who closes meanwhile waits for a thread that has begun
            self._shutting = threading.Thread(target=self._shut_down, name="pairing-closing", daemon=True)
            self._shutting.start()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Senders and receivers -----------------------------------------------------------------------------------------

    def get_queue_sender(
        self, queue_name: str, *, client_identifier: str | None = None, socket_timeout: float | None = None
    ) -> PairedSender:
        """A sender for a queue; nothing is opened before the first send."""
        self._check_name("queue_name", queue_name)
        return self._sender(queue_name, client_identifier=client_identifier, socket_timeout=socket_timeout)

    def get_topic_sender(
        self, topic_name: str, *, client_identifier: str | None = None, socket_timeout: float | None = None
    ) -> PairedSender:
        """A sender for a topic; nothing is opened before the first send."""
        self._check_name("topic_name", topic_name)
        return self._sender(topic_name, client_identifier=client_identifier, socket_timeout=socket_timeout)

    def _sender(self, name: str, **keywords: Any) -> PairedSender:
        return PairedSender(self, name, lambda: self.sdk_sender("primary", name, **keywords))

    def sdk_sender(self, role: Role, name: str, **keywords: Any) -> ServiceBusSender:
        """A new sender of the SDK, on a link that the library tends."""
        end = self.primary if role == "primary" else self.secondary
        if end.is_down:
            raise PairingError(f"the {role} end is {end.state}")
        return end.sdk.get_queue_sender(name, **keywords, **send_client_keywords())

    def get_queue_receiver(self, queue_name: str, **keywords: Any) -> ServiceBusReceiver:
        """A metered receiver of a queue of the primary; arguments as in the SDK."""
        self.check_open()
        receiver = self.primary.receiving.get_queue_receiver(queue_name, **keywords)
        return meter_receiver(receiver, self.meter, self.primary.namespace, queue_name)

    def get_subscription_receiver(self, topic_name: str, subscription_name: str, **keywords: Any) -> ServiceBusReceiver:
        """A metered receiver of a subscription of the primary; arguments as in the SDK."""
        self.check_open()
        receiver = self.primary.receiving.get_subscription_receiver(topic_name, subscription_name, **keywords)
        return meter_receiver(receiver, self.meter, self.primary.namespace, topic_name)

    def list_queue_sessions(
        self, queue_name: str, *, state_updated_after: datetime | None = None, timeout: float | None = None
    ) -> ItemPaged[str]:
        """The sessions of a queue of the primary, as in the SDK."""
        self.check_open()
        found = self.primary.receiving.list_queue_sessions(
            queue_name, state_updated_after=state_updated_after, timeout=timeout
        )
        return meter_pages(found, self.meter, self.primary.namespace, queue_name)

    def list_subscription_sessions(
        self,
        topic_name: str,
        subscription_name: str,
        *,
        state_updated_after: datetime | None = None,
        timeout: float | None = None,
    ) -> ItemPaged[str]:
        """The sessions of a subscription of the primary, as in the SDK."""
        self.check_open()
        found = self.primary.receiving.list_subscription_sessions(
            topic_name, subscription_name, state_updated_after=state_updated_after, timeout=timeout
        )
        return meter_pages(found, self.meter, self.primary.namespace, topic_name)

    # The backlog ---------------------------------------------------------------------------------------------------

    def backlog_link(self, path: str) -> Link:
        """The one link of this client to a backlog queue, shared by its senders."""
        link = self._backlog_links.get(path)
        if link is None:
            with self._lock:
                if path not in self._backlog_links:
                    made = Link(lambda: self.sdk_sender("secondary", path), self.watchdog, warm=True)
                    self._backlog_links[path] = made
                link = self._backlog_links[path]
        return link

    def warm(self, path: str) -> None:
        """Open the link to a backlog queue in the background, and keep it open."""
        if self.backlog_link(path).sender is None:
            self._tender.warm(path)

    def warm_now(self, path: str) -> None:
        """Open the link to a backlog queue, and learn how large a message it takes."""
        link = self.backlog_link(path)
        if link.warm(_WARM_S) is None:
            self.learn_limit(link.sender)

    def send_to_backlog(self, work: Payload, action: ToBacklog) -> Outcome:
        """Perform one action of a send flow: the message, rewritten, to a backlog queue."""
        if self.tracing is None:
            return self._to_backlog(work, action)
        with self.tracing.redirecting(action.queue, work) as ended:
            outcome = self._to_backlog(work, action)
            ended(outcome)
            return outcome

    def _to_backlog(self, work: Payload, action: ToBacklog) -> Outcome:
        try:
            outgoing = work.rewritten()
        except Exception as error:
            return self.backlog_failed(error, reused=False)
        failure = self.backlog_link(action.queue).send(outgoing, action.timeout_s)
        if failure is None or not failure.is_crowded:
            self.count_backlog(work, accepted=failure is None)
        return DONE if failure is None else self.backlog_failed(failure.error, reused=failure.reused)

    # Pings ---------------------------------------------------------------------------------------------------------

    def ping(self, path: str) -> PingResult:
        """Ask the entity once, now, whether it accepts sends; an accepted ping heals one that is not held."""
        self.check_open()
        return self._pinger.ping(path)

    def ping_due(self, grace_s: float = 0.0) -> list[PingResult]:
        """Ping every failed-over entity whose ping is due and which this process can claim; for workers."""
        self.check_open()
        return self._pinger.ping_due(grace_s)

    def _start_syphon(self) -> None:
        from pairing.hosting import HostedSyphon  # only some clients host a syphon
        from pairing.syphon import Syphon

        self._syphon = HostedSyphon(Syphon(self).run)
        self._syphon.start()
