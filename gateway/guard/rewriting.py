"""Rewrites the bytes of a message for a backlog queue: the same format as `pairing.messages.rewriting`.

Only the sections that change are decoded; everything else stays as the client encoded it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from amqp10.codec import decode, encode, encode_list, encode_map, list_items, map_items
from amqp10.sections import (
    APPLICATION_PROPERTIES,
    DATA,
    FOOTER,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    SEQUENCE,
    VALUE,
    Section,
    split,
)
from amqp10.types import (
    Array,
    Byte,
    DecodeError,
    Described,
    Float32,
    Long,
    Raw,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from pairing.messages.payload import new_id
from pairing.messages.property_types import Types, describe, from_milliseconds, typed
from pairing.messages.rewriting import (
    PATH,
    PROPERTY_TYPES,
    RESERVED,
    SCHEDULED_ENQUEUE_TIME,
    SESSION_ID,
    TIME_TO_LIVE,
)

BATCH_FORMAT = 0x80013700
_MESSAGE_ID, _CORRELATION_ID, _EXPIRY, _GROUP_ID = 0, 5, 8, 10
_DURABLE_AND_PRIORITY = 2
_TTL = 2
_TICKS_PER_MILLISECOND = 10_000
_SCHEDULE = "x-opt-scheduled-enqueue-time"
_NULL = b"\x40"
_BINARY = {b"\x00\x53\x75\xa0": 5, b"\x00\x53\x75\xb0": 8}  # how a section of data begins: where its bytes do
_NAMES: dict[type, str] = {
    kind: kind.__name__.upper() for kind in (Timestamp, Long, ULong, UInt, Short, UShort, Byte, UByte, Symbol)
} | {Float32: "FLOAT"}
"""Those types of the codec that the SDK's decoder loses, as the SDK names them."""
_WHOLE = ("t", "x", "d")
_EXPONENT_AT, _EXPONENT_BIAS = 113, 6176


class EncodedMessage(bytes):
    """One message of a delivery; as bytes, it is none of the garbage collector's, to which each batch gave hundreds."""

    __slots__ = ()
    message_id = None  # for spans: its id is in that of the client's send

    @property
    def session_id(self) -> str | None:
        """Its session. Raises DecodeError."""
        sections = {section.code: section for section in split(self)}
        properties = _fields(self, sections.get(PROPERTIES))
        found = decode(properties[_GROUP_ID])[0] if len(properties) > _GROUP_ID else None
        return None if found is None else str(found)

    @property
    def application_properties(self) -> dict[Any, Any]:
        """Those of the client. Raises DecodeError."""
        sections = {section.code: section for section in split(self)}
        return {name: decode(value)[0] for name, value in _items(self, sections.get(APPLICATION_PROPERTIES))}


def inner_messages(payload: bytes, message_format: int) -> list[EncodedMessage]:
    """The messages of a delivery: those of a batch, or the one that it is. Raises DecodeError."""
    if message_format != BATCH_FORMAT:
        return [EncodedMessage(payload)]
    head = split(payload, until=DATA)
    found, position = [], head[-1].end if head else 0
    while (begins := payload[position : position + 4]) in _BINARY:
        start = position + _BINARY[begins]
        position = start + int.from_bytes(payload[position + 4 : start])
        found.append(EncodedMessage(payload[start:position]))
    if found and position == len(payload):
        return found
    data = [part for part in split(payload) if part.code == DATA]  # written in another way, or no batch
    if not data:
        raise DecodeError("a batch without messages")
    return [EncodedMessage(payload[at.value + (5 if payload[at.value] == 0xB0 else 2) : at.end]) for at in data]


def rewritten(message: bytes, path: str) -> bytes:
    """The bytes of a message for a backlog queue. Raises DecodeError, and ValueError for reserved properties."""
    parts = split(message)
    sections = {section.code: section for section in parts}
    properties = _fields(message, sections.get(PROPERTIES))
    header = _fields(message, sections.get(HEADER))
    annotations = _items(message, sections.get(MESSAGE_ANNOTATIONS))
    carried = _items(message, sections.get(APPLICATION_PROPERTIES))
    if reserved := [name for name, _ in carried if name in RESERVED]:
        raise ValueError(f"application property {reserved[0]} is reserved for messages on their way through a backlog")
    types = _types(message, parts, properties, carried, annotations)
    added: dict[str, Any] = {PATH: path}
    properties += [_NULL] * (_GROUP_ID + 1 - len(properties))
    if (session := decode(properties[_GROUP_ID])[0]) is not None:
        added[SESSION_ID], properties[_GROUP_ID] = str(session), _NULL
    if not decode(properties[_MESSAGE_ID])[0]:
        properties[_MESSAGE_ID] = encode(new_id())
    if len(header) > _TTL and (ttl_ms := decode(header[_TTL])[0]) is not None:
        added[TIME_TO_LIVE], properties[_EXPIRY] = Long(ttl_ms * _TICKS_PER_MILLISECOND), _NULL
    if (when := next((value for name, value in annotations if name == _SCHEDULE), None)) is not None:
        added[SCHEDULED_ENQUEUE_TIME] = decode(when)[0]
        annotations = [item for item in annotations if item[0] != _SCHEDULE]
    if types:
        added[PROPERTY_TYPES] = json.dumps(types, separators=(",", ":"))
    body = [_without_decimals(message, section) for section in parts if section.code >= DATA]
    return b"".join(
        [
            _section(HEADER, encode_list(header[:_DURABLE_AND_PRIORITY])) if header else b"",
            _section(MESSAGE_ANNOTATIONS, _map(annotations)) if annotations else b"",
            _section(PROPERTIES, encode_list(properties)),
            _section(APPLICATION_PROPERTIES, _map([*carried, *((name, encode(each)) for name, each in added.items())])),
            *body,
        ]
    )


def batches(payload: bytes, messages: list[bytes], limit: int) -> Iterator[bytes]:
    """These messages in the envelope of a batch, as often as one of at most `limit` bytes is full."""
    sections = {section.code: section for section in split(payload)}
    properties = _fields(payload, sections.get(PROPERTIES))[:_GROUP_ID]
    annotations = sections.get(MESSAGE_ANNOTATIONS)
    envelope = b"" if annotations is None else payload[annotations.start : annotations.end]
    envelope += _section(PROPERTIES, encode_list(properties)) if properties else b""
    size, full = len(envelope), [envelope]
    for message in messages:
        each = _section(DATA, encode(message))
        if len(full) > 1 and size + len(each) > limit:
            yield b"".join(full)
            size, full = len(envelope), [envelope]
        full.append(each)
        size += len(each)
    yield b"".join(full)


# --- sections --------------------------------------------------------------------------------------------------------


def _fields(message: bytes, section: Section | None) -> list[bytes]:
    """The encoded fields of a section that is a list."""
    return [] if section is None else [message[start:end] for start, end in list_items(message, section.value)]


def _items(message: bytes, section: Section | None) -> list[tuple[Any, bytes]]:
    """The keys of a section that is a map, with their encoded values."""
    if section is None or message[section.value] == 0x40:
        return []
    return map_items(message, section.value)[0]


def _section(code: int, value: bytes) -> bytes:
    return b"\x00\x53" + bytes((code,)) + value


def _map(items: list[tuple[Any, bytes]]) -> bytes:
    return encode_map([(encode(key), _as_text(value)) for key, value in items])


def _without_decimals(message: bytes, section: Section) -> bytes:
    """A section of the body, or the footer, in which decimals are text."""
    whole = message[section.start : section.end]
    return (
        whole
        if section.code == DATA
        else message[section.start : section.value] + _as_text(message[section.value : section.end])
    )


def _as_text(encoded: bytes) -> bytes:
    """A value in which decimals are text, as the library sends them: the SDK for Python cannot receive them."""
    return encode(_plain(decode(encoded)[0])) if b"\x94" in encoded else encoded


def _plain(value: Any) -> Any:
    match value:
        case Described():
            return Described(value.descriptor, _plain(value.value))
        case Array():
            return value
        case list():
            return [_plain(each) for each in value]
        case dict():
            return {_plain(key): _plain(each) for key, each in value.items()}
        case Raw():
            return str(number) if (number := _decimal(value.encoded)) is not None else value
    return value


def _decimal(encoded: bytes) -> Decimal | None:
    """The number of an encoded decimal128 with a binary significand; None for other decimals, and what is no number."""
    bits = int.from_bytes(encoded[1:])
    if encoded[:1] != b"\x94" or bits >> 125 & 3 == 3:
        return None
    digits = tuple(map(int, str(bits & (1 << _EXPONENT_AT) - 1)))
    return Decimal((bits >> 127, digits, (bits >> _EXPONENT_AT & 0x3FFF) - _EXPONENT_BIAS))


# --- types -----------------------------------------------------------------------------------------------------------


def _types(
    message: bytes,
    parts: list[Section],
    properties: list[bytes],
    carried: list[tuple[Any, bytes]],
    annotations: list[tuple[Any, bytes]],
) -> dict[str, Any]:
    """The types that the syphon could not guess, by the letters of their sections."""
    whole = {section.code: section for section in parts}
    named = {
        "p": carried,
        "a": [item for item in annotations if item[0] != _SCHEDULE],
        "f": _items(message, whole.get(FOOTER)),
    }
    types: dict[str, Any] = {letter: each for letter, items in named.items() if (each := _named_types(items))}
    for letter, place in (("m", _MESSAGE_ID), ("c", _CORRELATION_ID)):
        if len(properties) > place and isinstance(decode(properties[place])[0], bytes):
            types[letter] = "x"
    body = None
    if VALUE in whole:
        body = _whole_types(decode(message, whole[VALUE].value)[0])
    elif SEQUENCE in whole:
        body = _types_of([decode(message, part.value)[0] for part in parts if part.code == SEQUENCE])
    return types if body is None else {**types, "b": body}


def _named_types(items: list[tuple[Any, bytes]]) -> dict[str, Types]:
    found = {f"#{key}" if isinstance(key, int) else str(key): _types_of(decode(value)[0]) for key, value in items}
    return {name: types for name, types in found.items() if types is not None}


def _whole_types(value: Any) -> Types | None:
    """The types of a body, which the SDK cannot send with a type of its own unless it is in `_WHOLE`."""
    types = _types_of(value)
    return types if not isinstance(types, str) or types in _WHOLE else None


def _types_of(value: Any) -> Types | None:
    return describe(_typed(value))[1]


def _typed(value: Any) -> Any:
    """A value in the form in which the SDK sends its type."""
    match value:
        case Described():
            return value.descriptor, _typed(value.value)
        case Array():
            return typed("ARRAY", [_typed(each) for each in value])
        case list():
            return [_typed(each) for each in value]
        case dict():
            return typed("MAP", {_key(key): _typed(each) for key, each in value.items()})
        case Raw():
            return value if (number := _decimal(value.encoded)) is None else number
    name = _NAMES.get(type(value))
    return value if name is None else typed(name, value)


def _key(key: Any) -> Any:
    """A map's key, of which the SDK can only send the type of a time, of bytes or of a decimal."""
    if isinstance(key, Timestamp):
        return from_milliseconds(key) or key
    return key if not isinstance(key, Raw) or (number := _decimal(key.encoded)) is None else number
