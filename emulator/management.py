"""The `$management` node of an entity: renewing locks, peeking, settling, scheduling, sessions."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from emulator.amqp.types import Array, Int, Symbol, Timestamp
from emulator.broker.errors import ArgumentError, BrokerError, NotImplementedByTheService
from emulator.broker.message import encode_delivery
from emulator.endpoints import Endpoint, Request, Requests, response

PREFIX = "com.microsoft:"
NO_CONTENT = 204

Answer = tuple[int, Any]


class ManagementResponses(Endpoint):
    """The link on which a client gets a node's answers."""


class ManagementRequests(Requests):
    """The link on which a client asks an entity's `$management` node."""

    def ask(self, request: Request) -> None:
        self.conversation.attempt(
            "manage",
            self.entity,
            self.link,
            lambda answered: self._work(request, answered),
            lambda condition, text: None,
            lambda status: self._respond(request, status, "A fault said so.", None),
        )

    def _work(self, request: Request, answered: bool) -> None:
        try:
            status, body = self._operation(request)(request.body if isinstance(request.body, dict) else {})
        except BrokerError as error:
            self._respond(request, error.status, str(error), None, error.condition)
            return
        if answered:
            self._respond(request, status, "OK" if status == 200 else "No content", body)

    def _operation(self, request: Request) -> Callable[[dict[Any, Any]], Answer]:
        name = str(request.properties.get("operation", ""))
        known = {
            "peek-message": self._peek,
            "renew-lock": self._renew_lock,
            "update-disposition": self._update_disposition,
        }
        operation = known.get(name.removeprefix(PREFIX))
        if operation is None:
            raise NotImplementedByTheService(f"The operation '{name}' is not offered.")
        self.queue = self.host.namespace.resolve(self.link.address)
        return operation

    def _respond(self, request: Request, status: int, description: str, body: Any, condition: str = "") -> None:
        properties: dict[str, Any] = {"statusCode": Int(status), "statusDescription": description}
        if condition:
            properties["errorCondition"] = Symbol(condition)
        self.answer(response(request, properties, body))

    # --- operations ------------------------------------------------------------------------------------------------

    def _peek(self, body: dict[Any, Any]) -> Answer:
        first, count = _number(body, "from-sequence-number"), _number(body, "message-count")
        found = self.queue.peek(first, count, self.host.clock())
        if not found:
            return NO_CONTENT, None
        return 200, {"messages": [{"message": encode_delivery(stored, locked=False)} for stored in found]}

    def _renew_lock(self, body: dict[Any, Any]) -> Answer:
        now = self.host.clock()
        ends = [self.queue.renew(token, now) for token in _tokens(body)]
        return 200, {"expirations": Array(Timestamp(int(end * 1000)) for end in ends)}

    def _update_disposition(self, body: dict[Any, Any]) -> Answer:
        now, status = self.host.clock(), body.get("disposition-status")
        for token in _tokens(body):
            match status:
                case "completed":
                    self.queue.complete(token, now)
                case "abandoned":
                    self.queue.abandon(token, now)
                case "defered":
                    self.queue.defer(token, now)
                case "suspended":
                    reason, text = body.get("deadletter-reason"), body.get("deadletter-description")
                    self.queue.dead_letter(token, reason, text, now)
                case _:
                    raise ArgumentError(f"The disposition status {status!r} is unknown.")
        return 200, None


def _number(body: dict[Any, Any], name: str) -> int:
    value = body.get(name)
    if not isinstance(value, int) or value < 0:
        raise ArgumentError(f"The field '{name}' is missing or wrong.")
    return value


def _tokens(body: dict[Any, Any]) -> list[uuid.UUID]:
    tokens = body.get("lock-tokens")
    if not isinstance(tokens, list) or not all(isinstance(token, uuid.UUID) for token in tokens):
        raise ArgumentError("The field 'lock-tokens' is missing or wrong.")
    return tokens
