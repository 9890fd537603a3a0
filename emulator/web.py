"""A connection that speaks HTTP: the administration, the emulator's own interface, and the way to a WebSocket."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from emulator import control, websocket
from emulator.administration import Administration, AdminRequest, AdminResponse
from emulator.administration.messages import refusal
from emulator.broker.errors import ServerBusy
from emulator.faults import Fault
from emulator.host import Host
from emulator.http import HttpError, Request, RequestReader, response
from emulator.throttle import ADMINISTRATION_CREDITS

WHOLE_NAMESPACE = "*"
# Answers to requests that came together are made up to this size; the others wait until these are written.
MAX_ANSWERS = 1024 * 1024


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
    def begin_websocket(self, data: bytes) -> None: ...


class WebConversation:
    """Answers requests in order; each answer is written after the journal is committed."""

    is_open = True

    def __init__(self, server: HttpServer, transport: Transport) -> None:
        self.server = server
        self.transport = transport
        self._reader = RequestReader()
        self._requests: deque[Request] = deque()
        self._answers: list[bytes] = []
        self._size = 0  # of the answers that are not written
        self._is_paused = False
        self._closes = False
        self._is_websocket = False

    def receive(self, data: bytes) -> None:
        """Process bytes from the socket."""
        if self._closes:
            return
        try:
            self._requests += self._reader.feed(data)
        except HttpError as error:
            self._refuse(error)
        self._go_on()

    def lost(self) -> None:
        """The socket was lost."""
        self._requests.clear()

    def pause(self) -> None:
        """Answer no more, as the client reads too slowly."""
        self._is_paused = True

    def resume(self) -> None:
        """Answer again, as the client has caught up."""
        self._is_paused = False
        self._go_on()

    def _go_on(self) -> None:
        """Process the requests that came, as far as their answers have room."""
        while self._requests and not self._is_paused and not self._closes and self._size < MAX_ANSWERS:
            try:
                self._handle(self._requests.popleft())
            except HttpError as error:
                self._refuse(error)
        if not self._requests:
            self.transport.resume_reading()

    def flush(self) -> None:
        """Write the answers; the host calls it once the journal is durable."""
        answers, self._answers, self._size = self._answers, [], 0
        for answer in answers:
            self.transport.write(answer)
        if self._closes:
            self.transport.close()
        elif self._is_websocket:
            self.transport.begin_websocket(self._reader.take_rest())
        elif self._requests:
            self.transport.pause_reading()
            self.server.host.later(0, self._go_on)

    def _handle(self, request: Request) -> None:
        host = self.server.host
        close = not request.keeps_alive
        if request.asks_for_websocket:
            self._write_later(websocket.accepted(request))
            self._is_websocket = True
            return
        if control.handles(request):
            self._answer(control.handle(host, request, requires_key=self.server.requires_key), close=close)
            return
        entity = control.administered_entity(request)
        fault = host.faults.trigger("admin", entity, host.clock()) if host.faults else None
        if fault is None:
            self._administer(request, answered=True)
        else:
            self._apply_fault(fault, request)

    def _administer(self, request: Request, *, answered: bool) -> None:
        host = self.server.host
        asked = AdminRequest(request.method, request.target, request.headers, request.body)
        try:
            host.admit(ADMINISTRATION_CREDITS)
            answer = self.server.administration.handle(asked, host.clock())
        except ServerBusy as busy:
            answer = refusal(busy.status, str(busy))
        self._count(request, answer.status)
        if answered:
            self._answer(answer, close=not request.keeps_alive)
        else:
            host.request_flush(self)

    def _count(self, request: Request, status: int) -> None:
        """Bill each call as one operation of its entity, or of the namespace if it concerns no single entity."""
        host, entity = self.server.host, control.administered_entity(request)
        path = host.namespace.resolve(entity).path if host.namespace.knows(entity) else WHOLE_NAMESPACE
        if status < 400:
            host.meter.call(path, "manage")
        else:
            host.meter.refused(path, "manage")

    def _apply_fault(self, fault: Fault, request: Request) -> None:
        match fault.effect:
            case "status":
                answer = refusal(fault.status, f"Fault {fault.id}: status.")
                self._answer(answer, close=not request.keeps_alive)
            case "delay":
                self.server.host.later(fault.delay_s, lambda: self._administer(request, answered=True))
            case "silent":
                fault.add_unanswered(self.transport.reset)
            case "lose_ack":
                self._administer(request, answered=False)
                fault.add_unanswered(self.transport.reset)
            case _:
                self.transport.reset()

    def _refuse(self, error: HttpError) -> None:
        self._answer(control.refusal(error.status, str(error)), close=True)

    def _answer(self, answer: AdminResponse, *, close: bool = False) -> None:
        self._closes = self._closes or close
        self._write_later(response(answer.status, answer.body, answer.content_type, close=close))

    def _write_later(self, answer: bytes) -> None:
        self._answers.append(answer)
        self._size += len(answer)
        self.server.host.request_flush(self)
