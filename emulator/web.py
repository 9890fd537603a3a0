"""A connection that speaks HTTP: the administration of entities, and the emulator's own interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from emulator import control
from emulator.administration import AdminRequest, AdminResponse
from emulator.administration.messages import refusal
from emulator.broker.errors import ServerBusy
from emulator.http import HttpError, Request, RequestReader, response
from emulator.outages import Fault
from emulator.throttle import ADMINISTRATION_CREDITS

if TYPE_CHECKING:
    from emulator.server import NamespaceServer


WHOLE_NAMESPACE = "*"


class Transport(Protocol):
    """The socket below."""

    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...
    def reset(self) -> None: ...


class WebConversation:
    """Requests in their order; each answer leaves after the journal is durable."""

    is_open = True

    def __init__(self, server: NamespaceServer, transport: Transport) -> None:
        self.server = server
        self.transport = transport
        self._reader = RequestReader()
        self._answers: list[bytes] = []
        self._closes = False

    def receive(self, data: bytes) -> None:
        """Work on what came from the socket."""
        try:
            for request in self._reader.feed(data):
                self._handle(request)
        except HttpError as error:
            self._answer(control.refusal(error.status, str(error)), close=True)

    def lost(self) -> None:
        """The socket is gone."""

    def pause(self) -> None:
        """Answers are small; nothing to hold back."""

    def resume(self) -> None:
        """See `pause`."""

    def flush(self) -> None:
        """Write the answers; the host calls it once the journal is durable."""
        answers, self._answers = self._answers, []
        for answer in answers:
            self.transport.write(answer)
        if self._closes:
            self.transport.close()

    def _handle(self, request: Request) -> None:
        host = self.server.host
        close = not request.keeps_alive
        if control.concerns(request):
            self._answer(control.handle(host, request, asks_for_key=self.server.asks_for_key), close=close)
            return
        entity = control.administered_entity(request)
        fault = host.outages.strike("admin", entity, host.clock()) if host.outages else None
        if fault is None:
            self._administer(request, answered=True)
        else:
            self._suffer(fault, request)

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
            host.touch(self)

    def _count(self, request: Request, status: int) -> None:
        """Each call is billed as one operation of its entity; lists are the namespace's own."""
        host, entity = self.server.host, control.administered_entity(request)
        path = host.namespace.resolve(entity).path if host.namespace.knows(entity) else WHOLE_NAMESPACE
        if status < 400:
            host.meter.call(path, "manage")
        else:
            host.meter.refused(path, "manage")

    def _suffer(self, fault: Fault, request: Request) -> None:
        match fault.effect:
            case "status":
                answer = refusal(fault.status, f"Fault {fault.id}: status.")
                self._answer(answer, close=not request.keeps_alive)
            case "delay":
                self.server.host.later(fault.delay_s, lambda: self._administer(request, answered=True))
            case "silent":
                fault.silence(self.transport.reset)
            case "lose_ack":
                self._administer(request, answered=False)
                fault.silence(self.transport.reset)
            case _:
                self.transport.reset()

    def _answer(self, answer: AdminResponse, *, close: bool = False) -> None:
        self._closes = self._closes or close
        self._answers.append(response(answer.status, answer.body, answer.content_type, close=close))
        self.server.host.touch(self)
