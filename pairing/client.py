"""The blocking paired client."""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar
from uuid import uuid4

from azure.servicebus import ServiceBusClient, ServiceBusReceiver, ServiceBusSender
from azure.servicebus.management import ServiceBusAdministrationClient

from pairing.administration import (
    AdministrationAction,
    Answer,
    Paired,
    Pause,
    emulator_transport,
    operations,
    pairing_flow,
    perform,
)
from pairing.availability import PathAvailability
from pairing.clock import Clock, SystemClock, seconds
from pairing.drive import drive
from pairing.ends import End, Endpoint, LifeCycle, Role, check_keywords
from pairing.errors import BacklogCreationError, PairedNamespaceFaultedError, PairingError
from pairing.events import Event
from pairing.faults import describe
from pairing.fleet import Fleet
from pairing.flows import DONE, Outcome, PingResult, ToBacklog
from pairing.links import Link, LinkFailure, Watchdog, send_client_keywords
from pairing.metering import UsageMeter
from pairing.options import SendAvailabilityOptions
from pairing.pair import EntityHealth, Pair
from pairing.payload import STANDARD_LIMIT, Payload
from pairing.pinger import Pinger
from pairing.receivers import meter_receiver
from pairing.sender import PairedSender, failed
from pairing.tender import Tender

if TYPE_CHECKING:
    from pairing.coordination import Coordination

_LOGGER = logging.getLogger("pairing")
_CLOSE_S = 5.0
_WARM_S = 10.0

T = TypeVar("T")
ClientState = Literal["created", "opened", "closing", "closed", "faulted"]


class BlockingEnd(End):
    """One namespace of the pair, with the SDK's clients for it."""

    def __init__(self, endpoint: Endpoint, namespace: str, on_down: Callable[[End], None]) -> None:
        super().__init__(endpoint, namespace, on_down)
        self._lock = threading.Lock()
        self._made: dict[str, Any] = {}

    @property
    def sdk(self) -> ServiceBusClient:
        """The SDK's client for sending; without retries, for this library does the retrying."""
        return self._cached("sdk", lambda: self.endpoint.service_bus(ServiceBusClient, own_retries=True))

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
                self._made[name] = make()
            made: T = self._made[name]
            return made

    def close(self) -> None:
        """Close this end; the pair faults unless the other end is closed within 5 s."""
        if self._fall("closed"):
            self._shut()

    def fault(self, error: BaseException) -> None:
        """Declare this end useless because of ``error``; the pair faults unless the other end is closed within 5 s."""
        if self._fall("faulted", error):
            self._shut()

    def _shut(self) -> None:
        """Close the SDK's clients on a thread of their own: an unresponsive namespace must not hold up the caller."""
        with self._lock:
            made, self._made = list(self._made.values()), {}
        if made:
            thread = threading.Thread(target=_close_all, args=(made,), name="pairing-closing", daemon=True)
            thread.start()
            thread.join(1.0)


def _close_all(clients: list[Any]) -> None:
    for client in clients:
        try:
            client.close() if hasattr(client, "close") else client.__exit__(None, None, None)
        except Exception as error:
            _LOGGER.info("closing a client of the SDK failed: %s", describe(error))


class PairedServiceBusClient:
    """Sends to a primary namespace and, per entity, to a secondary one while the primary takes nothing.

    ``credential`` is anything azure-identity offers; ``secondary_credential`` (default: the same) needs the Manage
    claim. ``keywords`` are those of the SDK's ServiceBusClient. Opening talks to the secondary only.
    """

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
        self.options = options or SendAvailabilityOptions()
        self.clock = clock or SystemClock()
        name = self.options.primary_namespace or primary.label
        if name is None:
            raise ValueError(f"primary_namespace must name the namespace: its host {primary.host} tells nothing")
        self.process = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        self.pair = self.options.pair or name
        self.pair_state = Pair(self.options, self.pair, self.process, self.clock)
        self.meter = UsageMeter(self.pair, self.process, self.clock)
        self.primary = BlockingEnd(primary, name, self._end_is_down)
        other = self.options.secondary_namespace or secondary.label or secondary.host
        self.secondary = BlockingEnd(secondary, other, self._end_is_down)
        self.deviating_backlog_queues: dict[str, dict[str, tuple[Any, Any]]] = {}
        self.backlog_limit = STANDARD_LIMIT
        self.refusal: Exception | None = PairingError("the paired client is not open")
        self._state: ClientState = "created"
        self._lock = threading.RLock()
        self._life = LifeCycle()
        self._senders: list[PairedSender] = []
        self._backlog_links: dict[str, Link] = {}
        self._syphon: Any = None
        self._fleet = Fleet(self.pair_state, self.options.coordination)
        self.watchdog = Watchdog(self._tick)
        self._pinger = Pinger(self)
        self._tender = Tender(self)

    # Life ----------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> ClientState:
        """``created``, ``opened``, ``closing``, ``closed`` or ``faulted``."""
        return self._state

    def open(self) -> None:
        """Find or create the backlog queues, then allow sends; any failure is raised now, not later.

        BacklogCreationError names the namespace where it has no backlog queue and gets none.
        """
        with self._lock:
            if self._state == "opened":
                return
            if self._state != "created":
                raise PairingError(f"the paired client is {self._state}: make a new one")
            self._pair_namespaces()
            self._state = self.primary.state = self.secondary.state = "opened"
            self.refusal = None
            self.watchdog.start()
            self._tender.start()
            self._fleet.start()
            if self.options.enable_pings:
                self._pinger.start()
            if self.options.enable_syphon:
                self._start_syphon()

    def _pair_namespaces(self) -> None:
        try:
            self._paired(self._find_backlog())
        except BacklogCreationError as error:
            if self.options.require_secondary:
                self.close()
                raise
            self.pair_state.emit("queue_pulled", "*", f"opened without backlog: {error}")

    def _find_backlog(self) -> Paired:
        self._name_secondary()
        flow = pairing_flow(
            self.secondary.namespace,
            self.primary.namespace,
            self.options.backlog_queue_count,
            pause_s=seconds(self.options.creation_retry_interval),
        )
        return drive(flow, self._administer)

    def _name_secondary(self) -> None:
        """Where the host tells nothing, the namespace is asked for its name."""
        if self.options.secondary_namespace or self.secondary.endpoint.label:
            return
        try:
            self.secondary.namespace = self.secondary.administration.get_namespace_properties().name or ""
        except Exception as error:
            _LOGGER.info("the secondary namespace did not tell its name: %s", describe(error))
        self.secondary.namespace = self.secondary.namespace or self.secondary.endpoint.host
        self.meter.count("manage", self.secondary.namespace, "*", billing_units=1)

    def _administer(self, action: AdministrationAction) -> Answer:
        if isinstance(action, Pause):
            time.sleep(action.seconds)
            return None
        answer = perform(self.secondary.administration, action)
        calls = operations(action, answer)
        self.meter.count("manage", self.secondary.namespace, "*", operations=calls, billing_units=calls)
        return answer

    def _paired(self, paired: Paired) -> None:
        self.deviating_backlog_queues = paired.deviating
        with self.pair_state.condition:
            self.pair_state.rotation.replace(paired.paths)
        for path, error in paired.missing.items():
            self.pair_state.emit("queue_pulled", path, f"missing, and could not be created: {describe(error)}")

    def repair(self) -> None:
        """Try once more to find the backlog queues; for a client that was opened without the secondary."""
        if self._state == "opened" and not self.pair_state.rotation.paths:
            self._paired(self._find_backlog())
            self.pair_state.emit("queue_returned", "*", f"{self.backlog_queue_count} backlog queues found or created")

    def close(self) -> None:
        """Stop pings, then the syphon, then close both ends; within 5 s, idempotent, safe in ``finally``."""
        with self._lock:
            if self._state in ("closing", "closed"):
                return
            faulted, self._state = self._state == "faulted", "closing"
            if self.refusal is None or not faulted:
                self.refusal = PairingError("the paired client is closed")
        until = time.monotonic() + _CLOSE_S - 0.5
        self._shut_down(until)
        self._state = "closed"

    def _shut_down(self, until: float) -> None:
        self._pinger.stop(max(min(1.0, until - time.monotonic()), 0))
        if self._syphon is not None:
            self._syphon.stop(max(min(seconds(self.options.close_grace), until - time.monotonic() - 1.0), 0))
        grace = time.monotonic() + min(seconds(self.options.close_grace), max(until - time.monotonic() - 1.0, 0))
        for link in self.watchdog.links():
            link.close(max(grace - time.monotonic(), 0))
        self._tender.stop(max(min(1.0, until - time.monotonic()), 0))
        self._fleet.record(self.meter.drain(self.clock.now(), everything=True))
        self._fleet.close()
        self.watchdog.stop(max(until - time.monotonic(), 0))
        self.primary.close()
        self.secondary.close()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _end_is_down(self, end: End) -> None:
        self._life.down(end.role, time.monotonic(), end.error)
        if self._state == "opened" and end.role == "primary":
            self.refusal = PairingError(f"the primary end is {end.state}")

    def _tick(self) -> None:
        """Four times a second: what the time brings."""
        self.pair_state.tick()
        if self._state != "opened" or not self._life.down_at:
            return
        overdue = self._life.overdue(time.monotonic())
        if overdue is not None:
            self._fault(*overdue)
        elif self._life.both_down:
            self._both_ends_are_down()

    def _fault(self, role: Role, error: PairedNamespaceFaultedError) -> None:
        self._state, self.refusal = "faulted", error
        (self.primary if role == "primary" else self.secondary).fault(error)
        self._stop_working()

    def _both_ends_are_down(self) -> None:
        cause = self._life.error
        if cause is None:
            self._state, self.refusal = "closed", PairingError("both ends of the pair were closed")
        else:
            error = PairedNamespaceFaultedError("both ends of the pair are down")
            error.__cause__ = cause
            self._state, self.refusal = "faulted", error
        self._stop_working()

    def _stop_working(self) -> None:
        """Both ends are down: nothing is left to ping, to syphon or to send on."""
        threading.Thread(
            target=self._shut_down, args=(time.monotonic() + _CLOSE_S,), name="pairing-closing", daemon=True
        ).start()

    def _check_open(self) -> None:
        if self.refusal is not None:
            raise self.refusal

    # Senders and receivers -----------------------------------------------------------------------------------------

    def get_queue_sender(
        self, queue_name: str, *, client_identifier: str | None = None, socket_timeout: float | None = None
    ) -> PairedSender:
        """A sender for a queue; nothing is opened before the first send."""
        return self._sender(queue_name, client_identifier, socket_timeout)

    def get_topic_sender(
        self, topic_name: str, *, client_identifier: str | None = None, socket_timeout: float | None = None
    ) -> PairedSender:
        """A sender for a topic; nothing is opened before the first send."""
        return self._sender(topic_name, client_identifier, socket_timeout)

    def _sender(self, name: str, client_identifier: str | None, socket_timeout: float | None) -> PairedSender:
        if isinstance(self.refusal, PairedNamespaceFaultedError) or self._state in ("closing", "closed"):
            self._check_open()
        return PairedSender(
            self,
            name,
            lambda: self.sdk_sender(
                "primary", name, client_identifier=client_identifier, socket_timeout=socket_timeout
            ),
        )

    def sdk_sender(self, role: Role, name: str, **keywords: Any) -> ServiceBusSender:
        """A new sender of the SDK, on a link that the library tends."""
        end = self.primary if role == "primary" else self.secondary
        if end.is_down:
            raise PairingError(f"the {role} end is {end.state}")
        return end.sdk.get_queue_sender(name, **keywords, **send_client_keywords())

    def get_queue_receiver(self, queue_name: str, **keywords: Any) -> ServiceBusReceiver:
        """A metered receiver of a queue of the primary; arguments as in the SDK."""
        self._check_open()
        receiver = self.primary.receiving.get_queue_receiver(queue_name, **keywords)
        return meter_receiver(receiver, self.meter, self.primary.namespace, queue_name)

    def get_subscription_receiver(self, topic_name: str, subscription_name: str, **keywords: Any) -> ServiceBusReceiver:
        """A metered receiver of a subscription of the primary; arguments as in the SDK."""
        self._check_open()
        receiver = self.primary.receiving.get_subscription_receiver(topic_name, subscription_name, **keywords)
        return meter_receiver(receiver, self.meter, self.primary.namespace, topic_name)

    # The backlog ---------------------------------------------------------------------------------------------------

    @property
    def backlog_queue_count(self) -> int:
        """How many backlog queues of the configured ones were found or created."""
        return len(self.pair_state.rotation.paths)

    @property
    def backlog_paths(self) -> tuple[str, ...]:
        """The backlog queues in use, by index."""
        return self.pair_state.rotation.paths

    def backlog_link(self, path: str) -> Link:
        """The one link of this client to a backlog queue, shared by its senders."""
        with self._lock:
            link = self._backlog_links.get(path)
            if link is None:
                link = Link(lambda: self.sdk_sender("secondary", path), self.watchdog, warm=True)
                self._backlog_links[path] = link
            return link

    def warm(self, path: str) -> None:
        """Open the link to a backlog queue in the background, and keep it open."""
        if self.backlog_link(path).sender is None:
            self._tender.warm(path)

    def warm_now(self, path: str) -> None:
        """Open the link to a backlog queue, and learn how large a message it takes."""
        link = self.backlog_link(path)
        if link.warm(_WARM_S) is None:
            told = getattr(link.sender, "_max_message_size_on_link", 0)
            self.backlog_limit = int(told) or self.backlog_limit

    def send_to_backlog(self, work: Payload, action: ToBacklog) -> Outcome:
        """Perform one action of a send flow: the message, rewritten, to a backlog queue."""
        try:
            outgoing = work.rewritten()
        except Exception as error:
            return failed(LinkFailure(error, False), self.pair_state.classify(error, action.queue))
        link = self.backlog_link(action.queue)
        failure = link.attempt(lambda sender, left: sender.send_messages(outgoing, timeout=left), action.timeout_s)
        namespace = self.secondary.namespace
        if failure is not None:
            self.meter.count("send_backlog", namespace, work.path)
            return failed(failure, self.pair_state.classify_backlog(failure.error))
        self.meter.count(
            "send_backlog",
            namespace,
            work.path,
            messages=len(work.messages),
            bytes=work.size,
            billing_units=work.units,
        )
        return DONE

    def failed(self, failure: LinkFailure, path: str) -> Outcome:
        """A failure of the primary as the flows see it."""
        return failed(failure, self.pair_state.classify(failure.error, path))

    # Health --------------------------------------------------------------------------------------------------------

    def availability(self, path: str) -> PathAvailability:
        """The state machine of an entity, for programs that look closely."""
        return self.pair_state.availability(path)

    def entity_health(self, path: str) -> EntityHealth:
        """Where an entity stands, as this process sees it."""
        self._check_faulted()
        return self.pair_state.health(path)

    def fail_over(
        self,
        path: str,
        reason: str,
        hold: bool = True,
        expires: timedelta | datetime | None = None,
        *,
        operator: str | None = None,
    ) -> None:
        """Send what is meant for the entity to the backlog; with ``hold`` until released, marked healthy or expired."""
        self._check_faulted()
        self.pair_state.fail_over(path, reason, hold, expires, operator or self.process)

    def hold(self, path: str, *, operator: str | None = None) -> None:
        """Keep a failed-over entity from returning by itself."""
        self._check_faulted()
        self.pair_state.hold(path, operator or self.process)

    def release(self, path: str, *, operator: str | None = None) -> None:
        """End a hold: the entity stays failed over and is pinged at once."""
        self._check_faulted()
        self.pair_state.release(path, operator or self.process)
        self._fleet.release(path, operator or self.process)

    def mark_healthy(self, path: str, *, operator: str | None = None) -> None:
        """End hold and failover together."""
        self._check_faulted()
        self.pair_state.mark_healthy(path, operator or self.process)

    def _check_faulted(self) -> None:
        if isinstance(self.refusal, PairedNamespaceFaultedError):
            raise self.refusal

    # Pings and events ----------------------------------------------------------------------------------------------

    def ping(self, path: str) -> PingResult:
        """Ask the entity once, now, whether it accepts sends; an accepted ping heals one that is not held."""
        self._check_open()
        return self._pinger.ping(path)

    def ping_due(self, grace_s: float = 0.0) -> list[PingResult]:
        """Ping every failed-over entity whose ping is due and which this process can claim; for workers."""
        self._check_open()
        return self._pinger.ping_due(grace_s)

    @property
    def coordination(self) -> "Coordination | None":
        """What this client shares with its fleet; None where it decides alone."""
        return self._fleet.coordination

    @property
    def fleet(self) -> Fleet:
        """The line to the fleet."""
        return self._fleet

    def on_event(self, callback: Callable[[Event], None]) -> None:
        """Call back with each event, on the thread that saw it."""
        self.pair_state.on_event(callback)

    def emit(self, kind: str, entity: str, reason: str, operator: str | None = None) -> None:
        """Tell callbacks and the fleet of an event."""
        self.pair_state.emit(kind, entity, reason, operator)

    def _start_syphon(self) -> None:
        from pairing.hosting import HostedSyphon  # the syphon uses the client, and only some clients host one

        self._syphon = HostedSyphon(self)
        self._syphon.start()

    def __repr__(self) -> str:
        return f"<PairedServiceBusClient {self.pair}: {self._state}>"
