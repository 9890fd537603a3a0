"""Frame bodies changed on their bytes: fields read and replaced one by one, all others kept as the peer encoded them.

A relay passes on fields, types and values that `performatives` does not know; decoding would lose or refuse them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from amqp10 import performatives as p
from amqp10.codec import decode, encode, encode_list, list_items, skip
from amqp10.types import AmqpError, DecodeError, Raw

_NULL = b"\x40"
_ALL: Any = (p.Open, p.Begin, p.Attach, p.Flow, p.Transfer, p.Disposition, p.Detach, p.End, p.Close)
_MANDATORY: dict[int, tuple[int, ...]] = {kind.CODE: kind.MANDATORY for kind in _ALL}
# The place of each field and how it is written, by the code of its performative.
_FIELDS: dict[int, dict[str, tuple[int, p.Kind]]] = {
    kind.CODE: {field.name: (place, kind.KINDS[place]) for place, field in enumerate(fields(kind))} for kind in _ALL
}


class FrameFields:
    """The performative in a frame body. Raises AmqpError if there is none."""

    __slots__ = ("_names", "body", "code", "payload", "places")

    def __init__(self, body: bytes) -> None:
        descriptor, value = (body[2], 3) if body[:2] == b"\x00\x53" and len(body) > 3 else _descriptor(body)
        code = p.code_of(descriptor)
        if code not in _FIELDS:
            raise AmqpError("amqp:not-implemented", f"unknown performative {descriptor!r}")
        self.body, self.code, self._names = body, code, _FIELDS[code]
        self.places = list_items(body, value)
        """Where each field that is there begins and ends."""
        self.payload = self.places[-1][1] if self.places else skip(body, value)
        """Where the payload begins."""

    def encoded(self, name: str) -> bytes:
        """A field as it is encoded: null if it is not there."""
        place, _ = self._names[name]
        start, end = self.places[place] if place < len(self.places) else (0, 0)
        return self.body[start:end] or _NULL

    def value(self, name: str) -> Any:
        """A field, decoded; None if it is not there and need not be. Raises DecodeError."""
        value, (place, (types, _)) = decode(self.encoded(name))[0], self._names[name]
        if (types is not None and type(value) not in types) or (value is None and place in _MANDATORY[self.code]):
            raise DecodeError(f"{name} has another type or is missing")
        return value

    def replaced(self, **values: Any) -> bytes:
        """The body with these fields, each a plain value, None or Raw, and everything else as it is."""
        return self.with_payload(self.body[self.payload :], **values)

    def with_payload(self, payload: bytes, **values: Any) -> bytes:
        """The body with another payload, and with these fields."""
        return self._performative(values) + payload

    def split(self, max_size: int) -> Iterator[bytes]:
        """A transfer as bodies of at most `max_size` bytes, each with a part of the payload and all of the fields.

        Raises AmqpError if the fields leave no room.
        """
        position, last = self.payload, self._performative({})
        head = self._performative({"more": True}) if self.code == p.Transfer.CODE else last
        room = max_size - len(head)
        while len(self.body) - position > max(0, max_size - len(last)):
            if head is last or room <= 0:
                raise AmqpError("amqp:connection:framing-error", f"a performative does not fit into {max_size} bytes")
            yield head + self.body[position : position + room]
            position += room
        yield last + self.body[position:]

    def _performative(self, values: dict[str, Any]) -> bytes:
        items = [self.body[start:end] for start, end in self.places]
        for name, value in values.items():
            place, (_, convert) = self._names[name]
            items += [_NULL] * (place + 1 - len(items))
            items[place] = encode(value if value is None or isinstance(value, Raw) else convert(value))
        return b"\x00\x53" + bytes((self.code,)) + encode_list(items)


def _descriptor(body: bytes) -> tuple[Any, int]:
    if body[:1] != b"\x00":
        raise DecodeError("a frame without a performative")
    return decode(body, 1)


def outcome_of(state: bytes) -> tuple[int, str | None, str]:
    """The code of an encoded outcome, and condition and description of its error."""
    read = p.outcome(decode(state)[0])
    code, fields = read if read is not None else (0, [])
    condition, description, _ = p.error_parts(fields[0] if code == p.REJECTED and fields else None)
    return code, condition or None, description


def with_address(terminus: bytes, address: str) -> Raw:
    """The encoded source or target with another address."""
    value = decode(terminus, 1)[1]
    items = [terminus[start:end] for start, end in list_items(terminus, value)]
    return Raw(terminus[:value] + encode_list([encode(address), *items[1:]]))
