"""AMQP types that Python has no name for; values are decoded to them, so that they are encoded as they came.

A plain `int` is encoded as an int or a long, a `str` as a string, `bytes` as a binary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class Symbol(str):
    """An ASCII name from a constrained domain: conditions, capabilities, annotation keys."""

    __slots__ = ()


class UByte(int):
    """0 to 255."""


class UShort(int):
    """0 to 65535."""


class UInt(int):
    """0 to 2**32 - 1."""


class ULong(int):
    """0 to 2**64 - 1."""


class Byte(int):
    """-128 to 127."""


class Short(int):
    """-32768 to 32767."""


class Int(int):
    """-2**31 to 2**31 - 1."""


class Long(int):
    """-2**63 to 2**63 - 1."""


INTEGERS: frozenset[type] = frozenset({int, UByte, UShort, UInt, ULong, Byte, Short, Int, Long})


class Timestamp(int):
    """Milliseconds since 1970, UTC."""


class Float32(float):
    """A float of four bytes."""


class Char(str):
    """One Unicode character."""

    __slots__ = ()


class Array(list[Any]):
    """Values of one type, sent with one constructor."""


@dataclass(frozen=True, slots=True)
class Described:
    """A value with a descriptor."""

    descriptor: Any
    value: Any


@dataclass(frozen=True, slots=True)
class Raw:
    """An encoded value; `encode` writes it as it is."""

    encoded: bytes


class AmqpError(Exception):
    """The peer violated the protocol. `condition` is sent to it; only its connection, session or link ends."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(description)
        self.condition = condition


class DecodeError(AmqpError):
    """Bytes that are not a valid AMQP value."""

    def __init__(self, description: str) -> None:
        super().__init__("amqp:decode-error", description)
