"""The tokens that a client puts on `$cbs`, on their way to the primary."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from amqp10.codec import decode, encode
from amqp10.frame_fields import FrameFields
from amqp10.sections import APPLICATION_PROPERTIES, VALUE, Section, split
from amqp10.types import AmqpError
from gateway.access import Access
from gateway.namespace import Namespace

MAX_REQUEST = 64 * 1024
_MAX_PARTS = 128


class TokenRequests:
    """The transfers of one link to `$cbs`: each request is held until it is whole, and passed on for the primary."""

    def __init__(self, access: Access, primary: Namespace, ask: Callable[[bytes], object]) -> None:
        self._access, self._primary, self._ask = access, primary, ask
        self._parts, self._size = list[FrameFields](), 0

    def transfer(self, transfer: FrameFields, max_size: int) -> Iterator[bytes]:
        """The frame bodies that go to the primary now. Raises AmqpError."""
        self._parts.append(transfer)
        self._size += len(transfer.body)
        if self._size > MAX_REQUEST or len(self._parts) > _MAX_PARTS:
            raise AmqpError("amqp:resource-limit-exceeded", "a request to $cbs is too large")
        if transfer.value("more"):
            return
        parts, self._parts, self._size = self._parts, [], 0
        asked = b"".join(part.body[part.payload :] for part in parts)
        changed = self._for_primary(asked)
        self._ask(changed or asked)
        if changed is None:
            yield from (part.body for part in parts)
        else:
            yield from FrameFields(parts[0].with_payload(changed, more=False)).split(max_size)

    def _for_primary(self, payload: bytes) -> bytes | None:
        """The request with the primary as its audience, and the gateway's token for one of its keys; None if equal."""
        sections = {section.code: section for section in split(payload)}
        try:
            properties = decode(payload, sections[APPLICATION_PROPERTIES].value)[0]
            token = decode(payload, sections[VALUE].value)[0]
            audience = str(properties["name"])
        except (KeyError, TypeError):
            return None  # the primary refuses it
        here = self._primary.address_here(audience)
        own = self._access.token(str(token), here)
        if own is None and here == audience:
            return None
        changed = {**properties, "name": here} if own is None else {**properties, "name": here, "type": own[0]}
        return _replaced(payload, sections, {APPLICATION_PROPERTIES: changed, VALUE: token if own is None else own[1]})


def _replaced(payload: bytes, sections: dict[int, Section], values: dict[int, object]) -> bytes:
    """The message with these values of its sections."""
    return b"".join(
        payload[each.start : each.value] + (encode(values[code]) if code in values else payload[each.value : each.end])
        for code, each in sections.items()
    )
