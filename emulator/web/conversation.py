"""A connection that speaks HTTP: the administration, the emulator's own interface, and the way to a WebSocket."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from http.client import NO_CONTENT, responses
from typing import Protocol

import h11

from amqp10.transport.origin import objection
from amqp10.transport.websocket import WebSocketChannel, WebSocketRefused
from emulator.administration import Administration, AdminRequest, AdminResponse
from emulator.administration.messages import refusal
from emulator.broker.errors import ServerBusy
from emulator.faults import Fault
from emulator.host import Host
from emulator.throttle import ADMINISTRATION_CREDITS
from emulator.web import control

WHOLE_NAMESPACE = "*"
MAX_HEAD = 32 * 1024
MAX_BODY = 1024 * 1024


class HttpServer(Protocol):
    """The server of a namespace, as its HTTP connections see it."""

    host: Host
    administration: Administration
    requires_key: bool


class Transport(Protocol):
    """The socket of a connection."""

    def write(self, data: bytes) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close(self) -> None: ...
    def reset(self) -> None: ...
    def begin_websocket(self, channel: WebSocketChannel, data: bytes) -> None: ...


class WebConversation:
    """Answers one request after the other; each answer is written after the journal is committed."""

    is_open = True

    def __init__(self, server: HttpServer, transport: Transport) -> None:
        self.server = server
        self.transport = transport
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        self._request = AdminRequest("", "")
        self._body = bytearray()
        self._output = b""
        self._is_paused = False
        self._websocket: WebSocketChannel | None = None

    def receive(self, data: bytes) -> None:
        """Process bytes from the socket."""
        if not data:  # what came is TLS's own
            return
        self._http.receive_data(data)
        if self._awaits_request:
            self._go_on()
        else:
            self.transport.pause_reading()

    def lost(self) -> None:
        """The socket was lost."""

    def pause(self) -> None:
        """Answer no more, as the client reads too slowly."""
        self._is_paused = True

    def resume(self) -> None:
        """Answer again, as the client has caught up."""
        self._is_paused = False
        self._go_on()

    def flush(self) -> None:
        """Write the answer; the host calls it once the journal is durable."""
        output, self._output = self._output, b""
        self.transport.write(output)
        if self._websocket is not None:
            self.transport.resume_reading()
            self.transport.begin_websocket(self._websocket, self._http.trailing_data[0])
        elif self._http.our_state is h11.MUST_CLOSE:
            self.transport.close()
        elif self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
            self._go_on()

    # --- requests --------------------------------------------------------------------------------------------------

    @property
    def _awaits_request(self) -> bool:
        """Whether a request, or the rest of one, is still to come; it is not while one is being answered."""
        states = self._http.states
        return states[h11.CLIENT] in (h11.IDLE, h11.SEND_BODY) and states[h11.SERVER] is not h11.MUST_CLOSE

    def _go_on(self) -> None:
        """Handle the next request once it is complete."""
        try:
            while self._awaits_request and not self._is_paused:
                if not self._on(self._http.next_event()):
                    self.transport.resume_reading()
                    break
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint, str(error))

    def _on(self, event: h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]) -> bool:
        """Process a part of a request; False if there is none yet."""
        match event:
            case h11.Request():
                headers = {name.decode(): value.decode("latin-1") for name, value in event.headers}
                self._request = AdminRequest(event.method.decode(), event.target.decode(), headers)
                self._body.clear()
            case h11.Data(data=data):
                self._body += data
                if len(self._body) > MAX_BODY:
                    self._refuse(413, f"A body has at most {MAX_BODY} bytes.")
            case h11.EndOfMessage():
                self._handle(replace(self._request, body=bytes(self._body)))
            case _:
                return False
        return True

    def _handle(self, request: AdminRequest) -> None:
        host = self.server.host
        reason = objection(request.headers, host.namespace.name, is_local=not self.server.requires_key)
        if reason is not None:
            self._refuse(403, reason)
        elif request.headers.get("upgrade", "").lower() == "websocket":
            self._begin_websocket(request)
        elif control.handles(request):
            self._answer(control.handle(host, request, requires_key=self.server.requires_key))
        elif host.faults and (
            fault := host.faults.trigger("admin", control.administered_entity(request), host.clock())
        ):
            self._apply_fault(fault, request)
        else:
            self._administer(request, answered=True)

    def _begin_websocket(self, request: AdminRequest) -> None:
        channel = WebSocketChannel()
        try:
            self._write_later(channel.accept(request.target, request.headers))
            self._websocket = channel
        except WebSocketRefused as refused:
            self._refuse(refused.status, str(refused), refused.headers)

    def _administer(self, request: AdminRequest, *, answered: bool) -> None:
        host = self.server.host
        try:
            host.admit(ADMINISTRATION_CREDITS)
            answer = self.server.administration.handle(request, host.clock())
        except ServerBusy as busy:
            answer = refusal(busy.status, str(busy))
        self._count(request, answer.status)
        if answered:
            self._answer(answer)
        else:
            host.request_flush(self)

    def _count(self, request: AdminRequest, status: int) -> None:
        """Bill each call as one operation of its entity, or of the namespace if it concerns no single entity."""
        host, entity = self.server.host, control.administered_entity(request)
        path = host.namespace.resolve(entity).path if host.namespace.knows(entity) else WHOLE_NAMESPACE
        if status < 400:
            host.meter.call(path, "manage")
        else:
            host.meter.refused(path, "manage")

    def _apply_fault(self, fault: Fault, request: AdminRequest) -> None:
        match fault.effect:
            case "status":
                self._answer(refusal(fault.status, f"Fault {fault.id}: status."))
            case "delay":
                self.server.host.later(fault.delay_s, lambda: self._administer(request, answered=True))
            case "silent":
                fault.add_unanswered(self.transport.reset)
            case "lose_ack":
                self._administer(request, answered=False)
                fault.add_unanswered(self.transport.reset)
            case _:
                self.transport.reset()

    # --- answers ---------------------------------------------------------------------------------------------------

    def _refuse(self, status: int, reason: str, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        """Answer with the reason, and end the connection."""
        self._answer(control.refusal(status, reason), (*headers, (b"Connection", b"close")))

    def _answer(self, answer: AdminResponse, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        if answer.status != NO_CONTENT:
            headers = [*headers, (b"Content-Length", b"%d" % len(answer.body))]
        if answer.content_type:
            headers = [*headers, (b"Content-Type", answer.content_type.encode())]
        head = h11.Response(status_code=answer.status, headers=list(headers), reason=responses.get(answer.status, ""))
        parts = [self._http.send(event) or b"" for event in (head, h11.Data(data=answer.body), h11.EndOfMessage())]
        self._write_later(b"".join(parts))

    def _write_later(self, answer: bytes) -> None:
        self._output = answer
        self.server.host.request_flush(self)
