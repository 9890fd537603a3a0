"""The sections of an encoded message, located without decoding them."""

from __future__ import annotations

from typing import NamedTuple

from amqp10.codec import decode, skip
from amqp10.types import DecodeError, Described

HEADER, DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS, PROPERTIES = 0x70, 0x71, 0x72, 0x73
APPLICATION_PROPERTIES, DATA, SEQUENCE, VALUE, FOOTER = 0x74, 0x75, 0x76, 0x77, 0x78

_NAMES = {
    "amqp:header:list": HEADER,
    "amqp:delivery-annotations:map": DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": MESSAGE_ANNOTATIONS,
    "amqp:properties:list": PROPERTIES,
    "amqp:application-properties:map": APPLICATION_PROPERTIES,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": SEQUENCE,
    "amqp:amqp-value:*": VALUE,
    "amqp:footer:map": FOOTER,
}
_REPEATABLE = (DATA, SEQUENCE)
_END = FOOTER + 1  # no section may follow it


class Section(NamedTuple):
    """One section: its code, where its descriptor starts, where its value starts, where it ends."""

    code: int
    start: int
    value: int
    end: int


def split(data: bytes, until: int | None = None) -> list[Section]:
    """The sections of a message in order, or those before `until`. Raises DecodeError for what is not a message.

    Delivery annotations may also be the last section, where the Python SDK writes them.
    """
    sections: list[Section] = []
    position, last, size = 0, 0, len(data)
    while position < size:
        if data[position : position + 2] == b"\x00\x53" and position + 3 < size:
            code, value = data[position + 2], position + 3
        else:
            code, value = _long_descriptor(data, position)
        if code == until:
            break
        place = _END if code == DELIVERY_ANNOTATIONS and last >= DATA else code
        if not HEADER <= code <= FOOTER or place < last or (place == last and code not in _REPEATABLE):
            raise DecodeError(f"section 0x{code:02x} does not belong here")
        end = skip(data, value)
        sections.append(Section(code, position, value, end))
        position, last = end, place
    return sections


def with_short_descriptors(data: bytes, sections: list[Section]) -> bytes:
    """These sections with `00 53 7x` before each value, the only form some decoders read."""
    for section in sections:
        if section.value - section.start != 3:
            break
    else:
        return data[sections[0].start : sections[-1].end] if sections else b""
    return b"".join([b"\x00\x53" + bytes((s.code,)) + data[s.value : s.end] for s in sections])


def _long_descriptor(data: bytes, position: int) -> tuple[int, int]:
    if data[position] != 0:
        raise DecodeError("a message section without a descriptor")
    descriptor, value = decode(data, position + 1)
    if isinstance(descriptor, Described | list | dict):
        raise DecodeError("a message section with a compound descriptor")
    code = _NAMES.get(descriptor, -1) if isinstance(descriptor, str) else descriptor
    if not isinstance(code, int):
        raise DecodeError("a message section with an unknown descriptor")
    return code, value
