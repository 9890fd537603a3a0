"""Messages of nodes that answer requests, `$cbs` and `$management`: a request, and the response to it."""

from __future__ import annotations

from typing import Any

from amqp10.codec import decode, encode, list_items
from amqp10.sections import APPLICATION_PROPERTIES, PROPERTIES, VALUE, split
from amqp10.types import DecodeError, Raw


class Request:
    """A request to a node, or the response to one: the parts that `$cbs` and `$management` read."""

    def __init__(self, payload: bytes, transaction: bytes | None = None) -> None:
        self.size = len(payload)
        self.transaction = transaction
        self.message_id: Any = None
        self.correlation_id: Any = None
        self.properties: dict[Any, Any] = {}
        self.reply_to: str | None = None
        self.body: Any = None
        for part in split(payload):
            if part.code == PROPERTIES:
                fields = [payload[start:end] for start, end in list_items(payload, part.value)]
                self.message_id = Raw(fields[0]) if fields else None
                self.reply_to = decode(fields[4])[0] if len(fields) > 4 else None
                self.correlation_id = decode(fields[5])[0] if len(fields) > 5 else None
            elif part.code == APPLICATION_PROPERTIES:
                self.properties = decode(payload, part.value)[0]
            elif part.code == VALUE:
                self.body = decode(payload, part.value)[0]
        if not isinstance(self.properties, dict):
            raise DecodeError("application properties are a map")


def request(message_id: Any, properties: dict[str, Any], body: Any, reply_to: str) -> bytes:
    """A request, whose response goes to the link with this target."""
    head = [message_id, None, None, None, reply_to]
    return _message(head, properties, body)


def response(request: Request, properties: dict[str, Any], body: Any = None) -> bytes:
    """The response to a request: its correlation id is the request's message id, in the same type."""
    head = [None, None, None, None, None, request.message_id]
    return _message(head, properties, body)


def _message(head: list[Any], properties: dict[str, Any], body: Any) -> bytes:
    return b"\x00\x53\x73" + encode(head) + b"\x00\x53\x74" + encode(properties) + b"\x00\x53\x77" + encode(body)
