"""One client's conversation with a namespace: AMQP events to endpoints, and the faults that come between."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from emulator import cbs
from emulator.amqp import events as e
from emulator.amqp import performatives as p
from emulator.amqp.codec import encode
from emulator.amqp.connection import Connection, State
from emulator.amqp.link import Link
from emulator.amqp.types import AmqpError
from emulator.broker.errors import ArgumentError, BrokerError, Unauthorized
from emulator.broker.namespace import parse_address
from emulator.consuming import Consuming, SessionConsuming, has_session_filter
from emulator.endpoints import CbsRequests, CbsResponses, Endpoint, Producing
from emulator.host import MAX_MESSAGE_SIZE, Host
from emulator.management import ManagementRequests, ManagementResponses
from emulator.outages import Fault

log = logging.getLogger("emulator")

SHORTEST_PAUSE_S = 0.5
_OUTCOMES = {"released": encode(p.released()), "modified": encode(p.modified(True, False))}
MAX_INCOMING = MAX_MESSAGE_SIZE + 64 * 1024


class Transport(Protocol):
    """The socket below a conversation."""

    def write(self, data: bytes) -> None:
        """Send bytes."""

    def close(self) -> None:
        """Close once everything is written."""

    def reset(self) -> None:
        """Drop the connection at once."""


class Conversation:
    """Everything one connection asks of the namespace."""

    def __init__(self, host: Host, transport: Transport) -> None:
        self.host = host
        self.transport = transport
        self.connection = Connection(f"{host.namespace.name}-emulator", max_message_size=MAX_INCOMING)
        self.grants = cbs.Grants()
        self.is_paused = False
        self._is_muted = False
        self._is_withheld = False
        self.close_on_open: tuple[str, str] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the client has got as far as opening its connection."""
        return self.connection.state is State.OPEN

    def pause(self) -> None:
        """The client reads too slowly: deliver nothing until it has caught up."""
        self.is_paused = True

    def resume(self) -> None:
        """The client has caught up."""
        self.is_paused = False
        for session in self.connection.sessions.values():
            for link in session.links.values():
                if isinstance(link.owner, Endpoint):
                    link.owner.resumed()
        self.touch()

    # --- bytes -----------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Work on what came from the socket. Answers leave with `flush`."""
        if self._is_muted:
            return
        self.host.begin_turn()
        try:
            for event in self.connection.receive(data):
                self._on(event)
        except Exception:
            # An error of our own ends this connection with an answer, never the namespace or another client.
            log.exception("a connection of %s failed", self.host.namespace.name)
            self.close("amqp:internal-error", "The emulator failed; its log says why.")
        self.touch()
        self.host.end_turn()

    def touch(self) -> None:
        """Have the output written at the end of this turn."""
        if self.connection.has_output or self.connection.is_closed:
            self.host.touch(self)

    def flush(self) -> None:
        """Write the output; the host calls it once the journal is durable."""
        if self._is_muted or self._is_withheld:
            return
        output = self.connection.take_output()
        if output:
            self.transport.write(output)
        if self.connection.is_closed:
            self.transport.close()

    def lost(self) -> None:
        """The socket is gone."""
        self.host.expiries.discard(self)
        for event in self.connection.abort():
            self._on(event)

    def close(self, condition: str | None = None, description: str = "") -> None:
        """End the connection from our side."""
        for event in self.connection.close(condition, description):
            self._on(event)
        self.touch()

    def reset(self) -> None:
        """Drop the connection without a word."""
        self._is_muted = True
        self.lost()
        self.transport.reset()

    def mute(self) -> None:
        """Never read or answer again; the socket stays open."""
        self._is_muted = True

    # --- events ----------------------------------------------------------------------------------------------------

    def _on(self, event: e.Event) -> None:
        match event:
            case e.MessageReceived(link=link):
                if isinstance(link.owner, Endpoint):
                    link.owner.message(event)
            case e.Settled(link=link):
                if isinstance(link.owner, Endpoint):
                    link.owner.settled(event)
            case e.CreditGranted(link=link):
                if isinstance(link.owner, Endpoint):
                    link.owner.credit(event)
            case e.WindowOpened(link=link):
                if isinstance(link.owner, Endpoint):
                    link.owner.resumed()
            case e.LinkRequested(link=link):
                self._attach(link)
            case e.LinkDetached(link=link):
                if isinstance(link.owner, Endpoint):
                    link.owner.detached()
            case e.ConnectionOpened():
                self._opened(event)
            case e.ConnectionClosed():
                self.touch()

    def _opened(self, event: e.ConnectionOpened) -> None:
        fault = self.host.outages.strike("open", None, self.host.clock()) if self.host.outages else None
        if fault is not None:
            self._open_under(fault)
        if self.close_on_open is not None:
            self.close(*self.close_on_open)
        elif event.idle_time_out_ms:
            self._keep_alive(max(event.idle_time_out_ms / 2000, SHORTEST_PAUSE_S))

    def _open_under(self, fault: Fault) -> None:
        """SASL is over; the answer to `open`, and what may follow it, is withheld or taken back."""
        match fault.effect:
            case "silent":
                self._is_muted = True
                fault.silence(self.reset)
            case "delay":
                self._is_withheld = True
                self.host.later(fault.delay_s, self._release)
            case "close":
                self.close_on_open = (fault.condition, f"Fault {fault.id}: close.")
            case _:
                self.reset()

    def _release(self) -> None:
        self._is_withheld = False
        self.touch()

    def _keep_alive(self, pause_s: float) -> None:
        """Give a sign of life now and after each pause, to clients that would take silence for a failure."""
        if not self.connection.is_closed and not self._is_muted:
            self.connection.send_empty_frame()
            self.touch()
            self.host.later(pause_s, lambda: self._keep_alive(pause_s))

    # --- links -----------------------------------------------------------------------------------------------------

    def _attach(self, link: Link) -> None:
        if link.address == cbs.NODE:
            link.owner = (CbsResponses if link.client_receives else CbsRequests)(self, link)
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
        if not link.is_open:  # the client gave up while a fault delayed the answer
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
        self.touch()

    def _endpoint(self, link: Link) -> Endpoint:
        if link.target is not None and link.target.code == p.COORDINATOR:
            raise AmqpError("amqp:not-implemented", "Transactions are not offered by this namespace.")
        address = parse_address(link.address)
        if not address.path:
            raise ArgumentError("The link names no entity.")
        if address.management:
            self.authorize(address.node, cbs.LISTEN, cbs.SEND)
            self.host.namespace.resolve(link.address)
            return (ManagementResponses if link.client_receives else ManagementRequests)(self, link)
        self.authorize(address.node, cbs.LISTEN if link.client_receives else cbs.SEND)
        if not link.client_receives:
            return Producing(self, link)
        return (SessionConsuming if has_session_filter(link.source) else Consuming)(self, link)

    def authorize(self, path: str, *rights: str) -> None:
        """Raise Unauthorized unless a token put on this connection gives one of these rights to the entity."""
        if not self.grants.rights(path, self.host.clock()).intersection(rights):
            raise Unauthorized(f"Unauthorized access: '{path}' asks for the right {' or '.join(rights)}.")

    def granted(self, grant: cbs.Grant) -> None:
        """A token was put: remember what it opens and until when."""
        self.grants.add(grant)
        self._watch_grants()

    def expire(self, now: float) -> None:
        """A token is over, and with it the links that no other token opens, as in the service."""
        self.grants.drop_expired(now)
        for session in self.connection.sessions.values():
            for link in list(session.links.values()):
                if link.address != cbs.NODE and not self.grants.rights(parse_address(link.address).node, now):
                    self._detach(link, Unauthorized.condition, "The token has expired.")
        self._watch_grants()
        self.touch()

    def _watch_grants(self) -> None:
        end = self.grants.next_end()
        if end < float("inf") and not self.connection.is_closed:
            self.host.expiries.set(self, end)

    # --- faults ----------------------------------------------------------------------------------------------------

    def attempt(
        self,
        operation: str,
        entity: str | None,
        link: Link | None,
        perform: Callable[[bool], Any],
        refuse: Callable[[str, str], Any],
        status: Callable[[Fault], Any] | None = None,
        outcome: Callable[[bytes], Any] | None = None,
    ) -> None:
        """Do something, unless a fault strikes it.

        `perform` gets whether to answer; the others say no: with a condition, a status, or another encoded outcome.
        """
        fault = self.host.outages.strike(operation, entity, self.host.clock()) if self.host.outages else None
        if fault is None:
            perform(True)
        else:
            self.suffer(fault, link, perform, refuse, status, outcome)

    def suffer(
        self,
        fault: Fault,
        link: Link | None,
        perform: Callable[[bool], Any],
        refuse: Callable[[str, str], Any],
        status: Callable[[Fault], Any] | None = None,
        outcome: Callable[[bytes], Any] | None = None,
    ) -> None:
        """Let a fault that struck have its effect."""
        text = f"Fault {fault.id}: {fault.effect}."
        match fault.effect:
            case "silent":
                fault.silence(self.reset)
            case "lose_ack":
                perform(False)
                fault.silence(self.reset)
            case "reset":
                self.reset()
            case "reject" | "refuse":
                refuse(fault.condition, text)
            case "released" | "modified" if outcome is not None:
                outcome(_OUTCOMES[fault.effect])
                if fault.operation == "send":  # the SDK goes on waiting for another answer
                    fault.silence(self.reset)
            case "status" if status is not None:
                status(fault)
            case "delay":
                self.host.later(fault.delay_s, lambda: self._resume(perform))
            case "detach" if link is not None:
                self._detach(link, fault.condition, text)
            case "end" if link is not None:
                for event in self.connection.abandon(link.session, fault.condition, text):
                    self._on(event)
            case "close":
                self.close(fault.condition, text)
        self.touch()

    def _resume(self, perform: Callable[[bool], Any]) -> None:
        if not self.connection.is_closed and not self._is_muted:
            perform(True)
            self.touch()

    def _detach(self, link: Link, condition: str, text: str) -> None:
        if not link.is_attached:
            link.accept()
        owner, link.owner = link.owner, None
        link.detach(condition, text)
        if isinstance(owner, Endpoint):
            owner.detached()
