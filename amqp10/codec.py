"""AMQP values to Python and back, bounded in depth and size.

`decode` and `skip` take a buffer and a position and return the position after the value. Both dispatch on one byte in a
table of 256 entries, the fastest way in pure Python. Invalid bytes raise DecodeError and nothing else.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from typing import Any

from amqp10.types import (
    Array,
    Byte,
    Char,
    DecodeError,
    Described,
    Float32,
    Int,
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

MAX_DEPTH = 32
# Elements of zero width (null, true) would otherwise allow arrays of 2**32 elements in a few bytes.
MAX_EMPTY_ELEMENTS = 16
_EMPTY_LIST = 0x45

Decoder = Callable[[bytes, int, int], tuple[Any, int]]
Encoder = Callable[[Any], bytes]

_U16, _U32, _U64 = struct.Struct(">H"), struct.Struct(">I"), struct.Struct(">Q")
_I16, _I32, _I64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
_F32, _F64 = struct.Struct(">f"), struct.Struct(">d")
_COMPOUND8, _COMPOUND32 = struct.Struct(">BB"), struct.Struct(">II")
_MALFORMED = (IndexError, struct.error, ValueError, TypeError, OverflowError)


def decode(data: bytes, position: int = 0) -> tuple[Any, int]:
    """The value at `position` and the position after it. Raises DecodeError."""
    try:
        return _DECODERS[data[position]](data, position + 1, MAX_DEPTH)
    except _MALFORMED as error:
        raise DecodeError(f"not an AMQP value: {error}") from None


def skip(data: bytes, position: int = 0) -> int:
    """The position after the value at `position`, which is not decoded. Raises DecodeError."""
    try:
        end = _skip(data, position, MAX_DEPTH)
    except _MALFORMED as error:
        raise DecodeError(f"not an AMQP value: {error}") from None
    if end > len(data):
        raise DecodeError("a value is longer than its frame")
    return end


def map_items(data: bytes, position: int = 0) -> tuple[list[tuple[Any, bytes]], int]:
    """The keys of a map with the encoded bytes of their values, and the position after the map."""
    try:
        body, end, count = _compound(data, position)
        items = []
        for _ in range(count // 2):
            key, value = _DECODERS[data[body]](data, body + 1, MAX_DEPTH)
            body = skip(data, value)
            items.append((key, data[value:body]))
    except _MALFORMED as error:
        raise DecodeError(f"not a map: {error}") from None
    if body != end or count % 2:
        raise DecodeError("a map does not end where it says")
    return items, end


def list_items(data: bytes, position: int = 0) -> list[tuple[int, int]]:
    """Where each item of a list or map begins and ends. Raises DecodeError."""
    if data[position : position + 1] == b"\x45":
        return []
    items = []
    try:
        body, whole, count = _compound(data, position)
        for _ in range(count):
            end = _skip(data, body, MAX_DEPTH)
            items.append((body, end))
            body = end
    except _MALFORMED as error:  # the count, or an item's size, may lie beyond the end
        raise DecodeError(f"not a list: {error}") from None
    if body != whole:
        raise DecodeError("a list does not end where it says")
    return items


def _compound(data: bytes, position: int) -> tuple[int, int, int]:
    code = data[position]
    if code in (0xC0, 0xC1):
        size, count = _COMPOUND8.unpack_from(data, position + 1)
        body, end = position + 3, position + 2 + size
    elif code in (0xD0, 0xD1):
        size, count = _COMPOUND32.unpack_from(data, position + 1)
        body, end = position + 9, position + 5 + size
    else:
        raise DecodeError(f"constructor 0x{code:02x} where a list or map was expected")
    if end > len(data) or end < body or count > size:
        raise DecodeError("a list or map is longer than its frame")
    return body, end, count


# --- decoding ------------------------------------------------------------------------------------------------------


def _constant(value: Any) -> Decoder:
    return lambda data, position, depth: (value, position)


def _fixed(layout: struct.Struct, convert: Callable[[Any], Any] | None = None) -> Decoder:
    unpack, size = layout.unpack_from, layout.size
    if convert is None:
        return lambda data, position, depth: (unpack(data, position)[0], position + size)
    return lambda data, position, depth: (convert(unpack(data, position)[0]), position + size)


def _byte(kind: type[int], *, is_signed: bool = False) -> Decoder:
    values = [kind(number - 256 if is_signed and number > 127 else number) for number in range(256)]
    return lambda data, position, depth: (values[data[position]], position + 1)


def _boolean(data: bytes, position: int, depth: int) -> tuple[bool, int]:
    value = data[position]
    if value > 1:
        raise DecodeError("a boolean is neither 0 nor 1")
    return value == 1, position + 1


def _opaque(size: int, convert: Callable[[bytes], Any]) -> Decoder:
    def decoder(data: bytes, position: int, depth: int) -> tuple[Any, int]:
        end = position + size
        if end > len(data):
            raise DecodeError("a value is longer than its frame")
        return convert(bytes(data[position:end])), end

    return decoder


def _variable8(convert: Callable[[bytes], Any]) -> Decoder:
    def decoder(data: bytes, position: int, depth: int) -> tuple[Any, int]:
        start = position + 1
        end = start + data[position]
        if end > len(data):
            raise DecodeError("a value is longer than its frame")
        return convert(data[start:end]), end

    return decoder


def _variable32(convert: Callable[[bytes], Any]) -> Decoder:
    unpack = _U32.unpack_from

    def decoder(data: bytes, position: int, depth: int) -> tuple[Any, int]:
        start = position + 4
        end = start + unpack(data, position)[0]
        if end > len(data):
            raise DecodeError("a value is longer than its frame")
        return convert(data[start:end]), end

    return decoder


def _text(data: bytes) -> str:
    return data.decode("utf-8")


def _symbol(data: bytes) -> Symbol:
    return Symbol(data.decode("ascii"))


def _list(data: bytes, body: int, end: int, count: int, depth: int) -> tuple[list[Any], int]:
    if depth <= 0:
        raise DecodeError("values are nested too deeply")
    if end > len(data) or count > end - body:
        raise DecodeError("a list is longer than its frame")
    items: list[Any] = []
    append, decoders = items.append, _DECODERS
    depth -= 1
    for _ in range(count):
        value, body = decoders[data[body]](data, body + 1, depth)
        append(value)
    if body != end:
        raise DecodeError("a list does not end where it says")
    return items, end


def _list8(data: bytes, position: int, depth: int) -> tuple[list[Any], int]:
    return _list(data, position + 2, position + 1 + data[position], data[position + 1], depth)


def _list32(data: bytes, position: int, depth: int) -> tuple[list[Any], int]:
    size, count = _COMPOUND32.unpack_from(data, position)
    return _list(data, position + 8, position + 4 + size, count, depth)


def _as_map(items: list[Any], end: int) -> tuple[dict[Any, Any], int]:
    if len(items) % 2:
        raise DecodeError("a map with a key that has no value")
    return dict(zip(items[::2], items[1::2], strict=True)), end


def _map8(data: bytes, position: int, depth: int) -> tuple[dict[Any, Any], int]:
    return _as_map(*_list8(data, position, depth))


def _map32(data: bytes, position: int, depth: int) -> tuple[dict[Any, Any], int]:
    return _as_map(*_list32(data, position, depth))


def _array(data: bytes, body: int, end: int, count: int, depth: int) -> tuple[Array, int]:
    if depth <= 0 or end > len(data):
        raise DecodeError("an array is nested too deeply or longer than its frame")
    descriptor = None
    described = data[body] == 0
    if described:
        descriptor, body = _DECODERS[data[body + 1]](data, body + 2, depth - 1)
    constructor, body = data[body], body + 1
    decoder = _DECODERS[constructor]
    has_allocated = described or constructor == _EMPTY_LIST  # for each element, even of zero width
    if count > max(end - body, 0) and (body != end or has_allocated or count > MAX_EMPTY_ELEMENTS):
        raise DecodeError("an array claims more values than it has")
    items = Array()
    for _ in range(count):
        value, body = decoder(data, body, depth - 1)
        items.append(Described(descriptor, value) if described else value)
    if body != end:
        raise DecodeError("an array does not end where it says")
    return items, end


def _array8(data: bytes, position: int, depth: int) -> tuple[Array, int]:
    return _array(data, position + 2, position + 1 + data[position], data[position + 1], depth)


def _array32(data: bytes, position: int, depth: int) -> tuple[Array, int]:
    size, count = _COMPOUND32.unpack_from(data, position)
    return _array(data, position + 8, position + 4 + size, count, depth)


def _described(data: bytes, position: int, depth: int) -> tuple[Described, int]:
    if depth <= 0:
        raise DecodeError("values are nested too deeply")
    descriptor, position = _DECODERS[data[position]](data, position + 1, depth - 1)
    value, position = _DECODERS[data[position]](data, position + 1, depth - 1)
    return Described(descriptor, value), position


def _unknown(data: bytes, position: int, depth: int) -> tuple[Any, int]:
    raise DecodeError(f"unknown constructor 0x{data[position - 1]:02x}")


_DECODERS: list[Decoder] = [_unknown] * 256
for _code, _decoder in {
    0x00: _described,
    0x40: _constant(None),
    0x41: _constant(True),
    0x42: _constant(False),
    0x56: _boolean,
    0x50: _byte(UByte),
    0x60: _fixed(_U16, UShort),
    0x70: _fixed(_U32, UInt),
    0x52: _byte(UInt),
    0x43: _constant(UInt(0)),
    0x80: _fixed(_U64, ULong),
    0x53: _byte(ULong),
    0x44: _constant(ULong(0)),
    0x51: _byte(Byte, is_signed=True),
    0x61: _fixed(_I16, Short),
    0x71: _fixed(_I32, Int),
    0x54: _byte(Int, is_signed=True),
    0x81: _fixed(_I64, Long),
    0x55: _byte(Long, is_signed=True),
    0x72: _fixed(_F32, Float32),
    0x82: _fixed(_F64),
    0x73: _fixed(_U32, lambda code: Char(chr(code))),
    0x74: _opaque(4, lambda data: Raw(b"\x74" + data)),  # decimals are passed on as they are
    0x84: _opaque(8, lambda data: Raw(b"\x84" + data)),
    0x94: _opaque(16, lambda data: Raw(b"\x94" + data)),
    0x83: _fixed(_I64, Timestamp),
    0x98: _opaque(16, lambda data: uuid.UUID(bytes=data)),
    0xA0: _variable8(bytes),
    0xB0: _variable32(bytes),
    0xA1: _variable8(_text),
    0xB1: _variable32(_text),
    0xA3: _variable8(_symbol),
    0xB3: _variable32(_symbol),
    _EMPTY_LIST: lambda data, position, depth: ([], position),
    0xC0: _list8,
    0xD0: _list32,
    0xC1: _map8,
    0xD1: _map32,
    0xE0: _array8,
    0xF0: _array32,
}.items():
    _DECODERS[_code] = _decoder


# --- skipping ------------------------------------------------------------------------------------------------------

_DESCRIBED, _SIZE8, _SIZE32 = 0, -1, -4
_BY_CATEGORY = dict(zip(range(4, 16), (1, 2, 3, 5, 9, 17, *(_SIZE8, _SIZE32) * 3), strict=True))
# How many bytes a value of each constructor takes, or how it says that; None if nobody knows.
_WIDTHS = [_BY_CATEGORY.get(code >> 4) if _DECODERS[code] is not _unknown else None for code in range(256)]
_WIDTHS[0] = _DESCRIBED


def _skip(data: bytes, position: int, depth: int) -> int:
    width = _WIDTHS[data[position]]
    if width is None or depth <= 0:
        raise DecodeError(f"unknown constructor 0x{data[position]:02x} or values nested too deeply")
    if width > 0:
        return position + width
    if width == _SIZE8:
        return position + 2 + data[position + 1]
    if width == _SIZE32:
        size: int = _U32.unpack_from(data, position + 1)[0]
        return position + 5 + size
    return _skip(data, _skip(data, position + 1, depth - 1), depth - 1)


# --- encoding ------------------------------------------------------------------------------------------------------


def encode(value: Any) -> bytes:
    """The bytes of a value. Raises TypeError for a type AMQP does not have, OverflowError for an int beyond 64 bits."""
    encoder = _ENCODERS.get(type(value))
    if encoder is None:
        encoder = _inherited(type(value))
    return encoder(value)


def _inherited(kind: type) -> Encoder:
    for parent in kind.__mro__:
        if parent in _ENCODERS:
            return _ENCODERS[parent]
    raise TypeError(f"AMQP has no type for {kind.__name__}")


def _encode_ulong(value: int) -> bytes:
    if value == 0:
        return b"\x44"
    return b"\x53" + bytes((value,)) if value < 256 else b"\x80" + _U64.pack(value)


def _encode_uint(value: int) -> bytes:
    if value == 0:
        return b"\x43"
    return b"\x52" + bytes((value,)) if value < 256 else b"\x70" + _U32.pack(value)


def _encode_int(value: int) -> bytes:
    return b"\x71" + _I32.pack(value)


def _encode_long(value: int) -> bytes:
    return b"\x81" + _I64.pack(value)


def _encode_plain_int(value: int) -> bytes:
    if -(2**31) <= value < 2**31:
        return _encode_int(value)
    if -(2**63) <= value < 2**63:
        return _encode_long(value)
    raise OverflowError("an int beyond 64 bits")


def _encode_variable(code: int, data: bytes) -> bytes:
    if len(data) < 256:
        return bytes((code, len(data))) + data
    return bytes((code + 0x10,)) + _U32.pack(len(data)) + data


def _encode_compound(code: int, items: list[bytes]) -> bytes:
    body = b"".join(items)
    if len(body) < 255 and len(items) < 256:
        return bytes((code, len(body) + 1, len(items))) + body
    return bytes((code + 0x10,)) + _COMPOUND32.pack(len(body) + 4, len(items)) + body


def encode_list(items: list[bytes]) -> bytes:
    """A list of encoded values."""
    return _encode_compound(0xC0, items) if items else b"\x45"


def encode_map(items: list[tuple[bytes, bytes]]) -> bytes:
    """A map of encoded keys and values."""
    return _encode_compound(0xC1, [part for item in items for part in item])


def _encode_array(items: Array) -> bytes:
    """The longest form of each type, for all elements share one constructor."""
    if not items:
        return b"\xe0\x02\x00\x40"
    code, element = _ARRAY_ELEMENTS[type(items[0])]
    body = bytes((code,)) + b"".join([element(item) for item in items])
    return b"\xf0" + _COMPOUND32.pack(len(body) + 4, len(items)) + body


def _long_form(convert: Callable[[Any], bytes]) -> Encoder:
    def element(value: Any) -> bytes:
        data = convert(value)
        return _U32.pack(len(data)) + data

    return element


_ARRAY_ELEMENTS: dict[type, tuple[int, Encoder]] = {
    Symbol: (0xB3, _long_form(lambda value: value.encode("ascii"))),
    str: (0xB1, _long_form(lambda value: value.encode())),
    bytes: (0xB0, _long_form(bytes)),
    uuid.UUID: (0x98, lambda value: value.bytes),
    bool: (0x56, lambda value: b"\x01" if value else b"\x00"),
    float: (0x82, _F64.pack),
    Float32: (0x72, _F32.pack),
    Char: (0x73, lambda value: _U32.pack(ord(value))),
    UByte: (0x50, lambda value: bytes((value,))),
    UShort: (0x60, _U16.pack),
    Byte: (0x51, lambda value: bytes((value & 255,))),
    Short: (0x61, _I16.pack),
    Timestamp: (0x83, _I64.pack),
    Long: (0x81, _I64.pack),
    int: (0x81, _I64.pack),
    Int: (0x71, _I32.pack),
    UInt: (0x70, _U32.pack),
    ULong: (0x80, _U64.pack),
}

_ENCODERS: dict[type, Encoder] = {
    type(None): lambda value: b"\x40",
    bool: lambda value: b"\x41" if value else b"\x42",
    int: _encode_plain_int,
    UByte: lambda value: b"\x50" + bytes((value,)),
    UShort: lambda value: b"\x60" + _U16.pack(value),
    UInt: _encode_uint,
    ULong: _encode_ulong,
    Byte: lambda value: b"\x51" + bytes((value & 255,)),
    Short: lambda value: b"\x61" + _I16.pack(value),
    Int: _encode_int,
    Long: _encode_long,
    Timestamp: lambda value: b"\x83" + _I64.pack(value),
    float: lambda value: b"\x82" + _F64.pack(value),
    Float32: lambda value: b"\x72" + _F32.pack(value),
    Char: lambda value: b"\x73" + _U32.pack(ord(value)),
    str: lambda value: _encode_variable(0xA1, value.encode()),
    Symbol: lambda value: _encode_variable(0xA3, value.encode("ascii")),
    bytes: lambda value: _encode_variable(0xA0, value),
    uuid.UUID: lambda value: b"\x98" + value.bytes,
    list: lambda value: encode_list([encode(item) for item in value]),
    tuple: lambda value: encode_list([encode(item) for item in value]),
    dict: lambda value: encode_map([(encode(key), encode(item)) for key, item in value.items()]),
    Array: _encode_array,
    Described: lambda value: b"\x00" + encode(value.descriptor) + encode(value.value),
    Raw: lambda value: value.encoded,
}
