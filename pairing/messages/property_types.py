"""The AMQP types that decoding loses, as a compact text stored with the message, and their restoration.

The SDK decodes timestamp and long to ``int``, symbol, binary and string to ``bytes``, and cannot decode decimals.
``describe`` lists the types in an outgoing message that a receiver would guess wrongly; ``retype`` restores them in a
decoded value. Without a description, types are guessed: text stays text, a number beyond 32 bits becomes a long. A type
is one letter; for a list or a map there is an object, by position.
"""

import calendar
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

Types = str | dict[str, Any]
"""One letter of ``LETTERS``, or of a list, map, array or described value what is in it; JSON as it stands."""

LETTERS = {
    "t": "TIMESTAMP",
    "l": "LONG",
    "L": "ULONG",
    "I": "UINT",
    "s": "SHORT",
    "S": "USHORT",
    "b": "BYTE",
    "B": "UBYTE",
    "f": "FLOAT",
    "y": "SYMBOL",
    "x": "BINARY",
    "d": "DECIMAL128",
}
_LETTER_OF = {name: letter for letter, name in LETTERS.items()}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class CannotEncodeError(ValueError):
    """The SDK cannot encode this value in this place, although it could decode it."""


def typed(name: str, value: Any) -> dict[str, Any]:
    """A value with its AMQP type, in the form of the SDK's encoder."""
    return {"TYPE": name, "VALUE": value}


def describe(value: Any) -> tuple[Any, Types | None]:
    """The value to encode in place of ``value``, and its types if a receiver could not guess them (otherwise None)."""
    match value:
        case None | bool() | int() | float() | str():
            return value, None
        case datetime():
            return value, "t"
        case bytes() | bytearray():
            return value, "x"
        case Decimal():
            return str(value), "d"  # the SDK encodes decimals, but cannot decode them
        case {"TYPE": str(name), "VALUE": inner}:
            return _describe_typed(name, inner, value)
        case dict() | list() | tuple():
            return describe_whole(value)
    return value, None


def describe_whole(value: Any) -> tuple[Any, Types | None]:
    """``describe`` for the body of a message, where the SDK treats ``{"TYPE": …, "VALUE": …}`` as a map."""
    match value:
        case dict():
            return _describe_map(value)
        case list():
            return _describe_list(value)
        case (descriptor, inner):
            sent, types = describe(inner)
            return (descriptor, sent), None if types is None else {"v": types}
    return describe(value)


def _describe_typed(name: str, inner: Any, value: Any) -> tuple[Any, Types | None]:
    match name:
        case "DECIMAL128":
            return str(inner), "d"
        case "ARRAY":
            items, item_types = _describe_list(list(inner))
            return typed(name, items), {"a": item_types or {}}
        case "LIST" | "MAP" | "DESCRIBED":
            sent, types = describe_whole(dict(inner) if name == "MAP" else inner)
            return typed(name, sent), types
    return value, _LETTER_OF.get(name)


def _describe_list(values: list[Any]) -> tuple[list[Any], dict[str, Any] | None]:
    pairs = [describe(value) for value in values]
    types = {str(i): types for i, (_, types) in enumerate(pairs) if types is not None}
    return [sent for sent, _ in pairs], types or None


def _describe_map(mapping: dict[Any, Any]) -> tuple[dict[Any, Any], dict[str, Any] | None]:
    sent: dict[Any, Any] = {}
    types: dict[str, Any] = {}
    for i, (key, value) in enumerate(mapping.items()):
        key_sent, key_types = describe(key)
        sent[key_sent], value_types = describe(value)
        types |= {f"k{i}": key_types} if key_types is not None else {}
        types |= {str(i): value_types} if value_types is not None else {}
    return sent, types or None


def retype(value: Any, types: Types | None = None) -> Any:
    """The decoded ``value`` in the form that makes the SDK encode it with its types again."""
    if isinstance(types, str):
        return _retype_leaf(value, types)
    inner = types or {}
    match value:
        case _ if hasattr(value, "descriptor"):
            return _described(value, inner.get("v"))
        case bool() | float() | None:
            return value
        case int():
            return _number(value)
        case bytes():
            return _text(value, lambda: typed("BINARY", value))
        case list() if "a" in inner:
            return typed("ARRAY", [retype(item, inner["a"].get(str(i))) for i, item in enumerate(value)])
        case list():
            return [retype(item, inner.get(str(i))) for i, item in enumerate(value)]
        case dict():
            return _retype_map(value, inner)
    return value


def retype_whole(value: Any, types: Types | None = None) -> Any:
    """``retype`` for the body of a message or a map's key: plain Python values only, without ``{"TYPE": …}``."""
    if isinstance(value, dict) and not hasattr(value, "descriptor"):
        return _retype_items(value, types if isinstance(types, dict) else {})
    match retype(value, types):
        case {"TYPE": "BINARY", "VALUE": inner}:
            return inner
        case {"TYPE": "TIMESTAMP", "VALUE": inner} if (when := from_milliseconds(inner)) is not None:
            return when
        case {"TYPE": name, "VALUE": inner}:
            raise CannotEncodeError(f"a body or a map's key cannot be sent as {name.lower()}: {inner!r:.80}")
        case plain:
            return plain


def from_milliseconds(milliseconds: int) -> datetime | None:
    """The time of an AMQP timestamp; None outside of the years 1 to 9999."""
    try:
        return _EPOCH + milliseconds * _MILLISECOND
    except OverflowError:
        return None


def to_milliseconds(when: datetime) -> int:
    """The AMQP timestamp of a time as the SDK encodes it, with its rounding of distant years; naive times are UTC."""
    return int(calendar.timegm(when.utctimetuple()) * 1000 + when.microsecond / 1000)


def text(value: bytes | str) -> str:
    """A decoded string; UnicodeDecodeError if it is invalid."""
    return value if isinstance(value, str) else value.decode()


def _text(value: bytes, otherwise: Callable[[], Any]) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return otherwise()


def _number(value: int) -> Any:
    if -(2**31) <= value < 2**31:
        return value
    return typed("LONG" if value < 2**63 else "ULONG", value)


def _retype_leaf(value: Any, letter: str) -> Any:
    if letter == "d":
        return Decimal(text(value))
    return typed(LETTERS[letter], value)


def _described(value: Any, types: Types | None) -> tuple[Any, Any]:
    descriptor = typed("SYMBOL" if isinstance(value.descriptor, bytes) else "ULONG", value.descriptor)
    if isinstance(value, int) and types is None:
        return descriptor, typed("LONG", int(value))  # .NET encodes described times as longs, even small ones
    kinds: tuple[type[Any], ...] = (int, float, bytes, list, dict)
    plain = next(kind(value) for kind in kinds if isinstance(value, kind))
    return descriptor, retype(plain, types)


def _retype_map(mapping: dict[Any, Any], types: dict[str, Any]) -> dict[Any, Any]:
    restored = _retype_items(mapping, types)
    return typed("MAP", restored) if "TYPE" in restored and "VALUE" in restored else restored


def _retype_items(mapping: dict[Any, Any], types: dict[str, Any]) -> dict[Any, Any]:
    return {
        retype_whole(key, types.get(f"k{i}")): retype(value, types.get(str(i)))
        for i, (key, value) in enumerate(mapping.items())
    }
