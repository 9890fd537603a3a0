"""One client's AMQP connection to a namespace: passes events to endpoints and applies faults."""

from __future__ import annotations

import logging
from typing import Protocol

from amqp10 import events as e
from amqp10 import performatives as p
from amqp10.connection import Connection, State
from amqp10.link import Link
from amqp10.sas import LISTEN, SEND
from amqp10.types import AmqpError
from emulator import access
from emulator.broker.errors import ArgumentError, BrokerError, Unauthorized
from emulator.broker.namespace import parse_address
from emulator.broker.transactions import Transactions
from emulator.endpoints.base import Endpoint, Waiting
from emulator.endpoints.cbs import CbsEndpoint
from emulator.endpoints.coordinator import CoordinatorEndpoint
from emulator.endpoints.fault_effects import FaultEffects
from emulator.endpoints.management import ManagementEndpoint
from emulator.endpoints.receiver import ReceiverEndpoint
from emulator.endpoints.requests import ResponseEndpoint
from emulator.endpoints.sender import SenderEndpoint
from emulator.endpoints.session_receiver import SessionReceiverEndpoint, has_session_filter
from emulator.host import MAX_MESSAGE_SIZE, Host

log = logging.getLogger("emulator")

MAX_INCOMING = MAX_MESSAGE_SIZE + 64 * 1024
# Deliveries of one turn of the event loop stop at this size and go on after it is written.
MAX_OUTPUT = 1024 * 1024
# What the SDK for Python calls itself when it opens a connection, followed by its version elsewhere.
PYTHON_SDK = "azsdk-python-servicebus"
# Its versions below 7.9 are made of uamqp, which drops no response, and fails on one that nobody waits for.
UAMQP_VERSIONS = tuple(f"7.{minor}." for minor in range(9))


class Transport(Protocol):
    """The socket below a conversation."""

    def write(self, data: bytes) -> None:
        """Send bytes."""

    def pause_reading(self) -> None:
        """Pass on no more bytes of the client."""

    def resume_reading(self) -> None:
        """Pass on bytes again."""

    def close(self) -> None:
        """Close once everything is written."""

    def reset(self) -> None:
        """Drop the connection at once."""


class Conversation:
    """The server's side of one connection, above the AMQP engine. Implements `endpoints.base.ClientConnection`."""

    def __init__(self, host: Host, transport: Transport) -> None:
        self.host = host
        self.transport = transport
        self.connection = Connection(
            f"{host.namespace.name}-emulator", max_message_size=MAX_INCOMING, authenticate=self._authenticate
        )
        self.grants = access.Grants()
        self.is_paused = False
        self.waiting = Waiting()
        self.transactions = Transactions(host.expiries, host.namespace.hold)
        self.drops_early_responses = False
        self._is_client_slow = False
        self._is_output_full = False
        self._is_muted = False  # nothing is read or answered any more
        self._is_withheld = False  # answers are held back for now
        self._closes_on_open: tuple[str, str] | None = None
        effects = FaultEffects(self)
        self.attempt, self.apply_fault = effects.attempt, effects.apply

    @property
    def is_open(self) -> bool:
        """Whether the AMQP connection is open, or a fault keeps it from being opened."""
        return self.connection.state is State.OPEN or self._is_muted or self._is_withheld

    @property
    def is_over(self) -> bool:
        """Whether nothing is answered any more."""
        return self.connection.is_closed or self._is_muted

    def pause(self) -> None:
        """Stop delivering, as the client reads too slowly."""
        self.is_paused = self._is_client_slow = True

    def resume(self) -> None:
        """Deliver again, as the client has caught up."""
        self._is_client_slow = False
        self._deliver_again()

    def _deliver_again(self) -> None:
        if self._is_client_slow or self._is_output_full:
            return
        self.is_paused = False
        try:
            for link in [link for session in self.connection.sessions.values() for link in session.links.values()]:
                if isinstance(link.owner, Endpoint):
                    link.owner.resumed()
        except Exception:
            self._fail()
        if not self._is_behind:
            self.transport.resume_reading()
        self.request_flush()

    @property
    def _is_behind(self) -> bool:
        """Whether requests wait for what is written first: no more of them are read meanwhile."""
        return self.is_paused and self.waiting.requests > 0

    # --- bytes -----------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Process bytes from the socket. Answers are written by `flush`."""
        if self._is_muted:
            return
        self.host.begin_turn()
        try:
            for event in self.connection.receive(data):
                self._on(event)
        except Exception:
            self._fail()
        self.request_flush()
        self.host.end_turn()

    def _fail(self) -> None:
        """End this connection with an error after a defect of the emulator: never the namespace or another client."""
        log.exception("a connection of %s failed", self.host.namespace.name)
        self.close("amqp:internal-error", "The emulator failed; see its log.")

    def request_flush(self) -> None:
        """Have the output written at the end of this turn; deliveries pause once it is large."""
        if self.connection.output_bytes > MAX_OUTPUT:
            self.is_paused = self._is_output_full = True
        if self.connection.has_output or self.connection.is_closed:
            self.host.request_flush(self)

    def flush(self) -> None:
        """Write the output; the host calls it once the journal is durable."""
        if self._is_muted or self._is_withheld:
            return
        output = self.connection.take_output()
        if output:
            self.transport.write(output)
        if self._is_output_full:
            self._is_output_full = False
            if self._is_behind:
                self.transport.pause_reading()
            self.host.later(0, self._deliver_again)
        if self.connection.is_closed:
            self.transport.close()

    def lost(self) -> None:
        """The socket was lost."""
        self.host.expiries.discard(self)
        for event in self.connection.abort():
            self._on(event)

    def close(self, condition: str | None = None, description: str = "") -> None:
        """End the connection from our side."""
        for event in self.connection.close(condition, description):
            self._on(event)
        self.request_flush()

    def reset(self) -> None:
        """Abort the connection without answering."""
        self._is_muted = True
        self.lost()
        self.transport.reset()

    # --- events ----------------------------------------------------------------------------------------------------

    def _on(self, event: e.Event) -> None:
        match event:
            case e.MessageReceived(link=link) if isinstance(link.owner, Endpoint):
                link.owner.message(event)
            case e.Settled(link=link) if isinstance(link.owner, Endpoint):
                link.owner.settled(event)
            case e.CreditGranted(link=link) if isinstance(link.owner, Endpoint):
                link.owner.credit(event)
            case e.WindowOpened(link=link) if isinstance(link.owner, Endpoint):
                link.owner.resumed()
            case e.LinkRequested(link=link):
                self._attach(link)
            case e.LinkDetached(link=link) if isinstance(link.owner, Endpoint):
                link.owner.detached()
            case e.ConnectionOpened():
                self._opened(event)
            case e.ConnectionClosed():
                self.request_flush()

    def _opened(self, event: e.ConnectionOpened) -> None:
        is_with_uamqp = str(event.properties.get("version", "")).startswith(UAMQP_VERSIONS)
        self.drops_early_responses = event.properties.get("product") == PYTHON_SDK and not is_with_uamqp
        self.trigger("open")
        if self._closes_on_open is not None:
            self.close(*self._closes_on_open)
        elif event.heartbeat_s is not None:
            self._keep_alive(event.heartbeat_s)

    def trigger(self, operation: str) -> None:
        """Apply a fault of `connect` or `open`: the answer is withheld, or the connection ends after it."""
        fault = self.host.faults.trigger(operation, None, self.host.clock()) if self.host.faults else None
        if fault is None:
            return
        match fault.effect:
            case "silent":
                self._is_muted = True
                fault.add_unanswered(self.reset)
            case "delay":
                self._is_withheld = True
                self.host.later(fault.delay_s, self._release)
            case "close":
                self._closes_on_open = (fault.condition, f"Fault {fault.id}: close.")
            case _:
                self.reset()

    def _release(self) -> None:
        self._is_withheld = False
        self.request_flush()

    def _keep_alive(self, interval_s: float) -> None:
        """Send a heartbeat now and after each interval, to a client that announced an idle time-out."""
        if not self.is_over:
            self.connection.send_empty_frame()
            self.request_flush()
            self.host.later(interval_s, lambda: self._keep_alive(interval_s))

    # --- links -----------------------------------------------------------------------------------------------------

    def _attach(self, link: Link) -> None:
        if link.address == access.CBS_NODE:
            link.owner = (ResponseEndpoint if link.client_receives else CbsEndpoint)(self, link)
            link.owner.open()
            return
        self.attempt(
            "attach",
            parse_address(link.address).path,
            link,
            lambda answered: self._open(link),
            lambda condition, text: link.refuse(condition, text),
        )

    def _open(self, link: Link) -> None:
        if not link.is_open:  # the client detached while a fault delayed the answer
            return
        try:
            link.owner = self._endpoint(link)
            link.owner.open()
        except BrokerError as error:
            link.owner = None
            link.refuse(error.condition, str(error))
        except AmqpError as error:
            link.owner = None
            link.refuse(error.condition, str(error))
        self.request_flush()

    def _endpoint(self, link: Link) -> Endpoint:
        if link.target is not None and link.target.code == p.COORDINATOR and not link.client_receives:
            return CoordinatorEndpoint(self, link)
        address = parse_address(link.address)
        if not address.path:
            raise ArgumentError("The link names no entity.")
        if address.management:
            self.authorize(address.node, LISTEN, SEND)
            self.host.namespace.resolve(link.address)
            return (ResponseEndpoint if link.client_receives else ManagementEndpoint)(self, link)
        self.authorize(address.node, LISTEN if link.client_receives else SEND)
        if not link.client_receives:
            return SenderEndpoint(self, link)
        return (SessionReceiverEndpoint if has_session_filter(link.source) else ReceiverEndpoint)(self, link)

    def authorize(self, path: str, *rights: str) -> None:
        """Raise Unauthorized unless a token put on this connection gives one of these rights to the entity."""
        if not self.grants.rights(path, self.host.clock()).intersection(rights):
            claims = " or ".join(rights)
            raise Unauthorized(
                f"Unauthorized access. '{claims}' claim(s) are required to perform this operation. Resource: '{path}'."
            )

    def _authenticate(self, name: str, key: str) -> bool:
        """Whether a shared access key is valid; the connection then has its rights without any token."""
        ring = next((ring for ring in self.host.all_key_rings() if ring.has(name, key)), None)
        if ring is not None:
            self.add_grant(access.Grant("", float("inf"), ring.rights, ring.entity))
        return ring is not None

    def add_grant(self, grant: access.Grant) -> None:
        """Record what a token that was put allows, and until when."""
        self.grants.add(grant)
        self._watch_grants()

    def expire(self, now: float) -> None:
        """Detach the links whose tokens have expired, as the service does."""
        self.grants.drop_expired(now)
        for session in self.connection.sessions.values():
            for link in list(session.links.values()):
                nodes = link.owner.nodes() if isinstance(link.owner, Endpoint) else ()
                if not all(self.grants.rights(node, now) for node in nodes):
                    self.detach(link, Unauthorized.condition, "The token has expired.")
        self._watch_grants()
        self.request_flush()

    def _watch_grants(self) -> None:
        end = self.grants.next_end()
        if end < float("inf") and not self.connection.is_closed:
            self.host.expiries.set(self, end)

    def detach(self, link: Link, condition: str, text: str) -> None:
        """Detach a link with an error."""
        if not link.is_attached:
            link.accept()
        owner, link.owner = link.owner, None
        link.detach(condition, text)
        if isinstance(owner, Endpoint):
            owner.detached()

    def end_session(self, link: Link, condition: str, text: str) -> None:
        """End the session of a link with an error."""
        for event in self.connection.fail_session(link.session.channel, condition, text):
            self._on(event)
