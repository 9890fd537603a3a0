"""Nodes that answer requests: a pair of links, one for requests and one for responses."""

from __future__ import annotations

import uuid
from typing import Any

from emulator.amqp import events as e
from emulator.amqp import performatives as p
from emulator.encoding.codec import decode, encode
from emulator.encoding.sections import APPLICATION_PROPERTIES, PROPERTIES, VALUE, split
from emulator.encoding.types import AmqpError, DecodeError
from emulator.endpoints.base import Endpoint


class Request:
    """A request message to a node: the parts that `$cbs` and `$management` read."""

    def __init__(self, payload: bytes) -> None:
        self.message_id: Any = None
        self.properties: dict[Any, Any] = {}
        self.reply_to: str | None = None
        self.body: Any = None
        for part in split(payload):
            if part.code == PROPERTIES:
                fields = decode(payload, part.value)[0]
                self.message_id = fields[0] if fields else None
                self.reply_to = fields[4] if len(fields) > 4 else None
            elif part.code == APPLICATION_PROPERTIES:
                self.properties = decode(payload, part.value)[0]
            elif part.code == VALUE:
                self.body = decode(payload, part.value)[0]
        if not isinstance(self.properties, dict):
            raise DecodeError("application properties are a map")


def response(request: Request, properties: dict[str, Any], body: Any = None) -> bytes:
    """The response to a request: its correlation id is the request's message id, in the same type."""
    head = [None, None, None, None, None, request.message_id]
    return b"\x00\x53\x73" + encode(head) + b"\x00\x53\x74" + encode(properties) + b"\x00\x53\x77" + encode(body)


class RequestEndpoint(Endpoint):
    """The link on which a client sends requests to a node. Responses go out on the node's other link of the session."""

    def message(self, event: e.MessageReceived) -> None:
        session = self.link.session
        try:
            request = Request(event.payload)
        except AmqpError as error:
            session.settle(event.delivery_id, encode(p.rejected(p.error(error.condition, str(error)))))
            return
        if not event.settled:
            session.accept(event.delivery_id)
        self.process(request)

    def process(self, request: Request) -> None:
        """Process a request and respond to it."""

    def respond(self, payload: bytes) -> None:
        """Send a response on the link on which the client receives this node's responses, whatever its credit."""
        for link in self.link.session.links.values():
            if link.client_receives and link.address == self.link.address and link.is_attached:
                link.deliver(payload, uuid.uuid4().bytes, settled=True)
                break
        self.client.request_flush()


class ResponseEndpoint(Endpoint):
    """The link on which a client receives a node's responses."""
