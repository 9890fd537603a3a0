"""The nine performatives of AMQP 1.0 and the four of its SASL layer, checked when they are decoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

from amqp10.codec import decode, encode, encode_list
from amqp10.types import (
    AmqpError,
    Array,
    DecodeError,
    Described,
    Raw,
    Symbol,
    UByte,
    UInt,
    ULong,
    UShort,
)

_NONE = type(None)
# The types a field may have when it is read (None: any), and how it is written.
Kind = tuple[frozenset[type] | None, Callable[[Any], Any]]


def _same(value: Any) -> Any:
    return value


_TEXT: Kind = (frozenset({str, Symbol, _NONE}), str)
_SYMBOL: Kind = (frozenset({str, Symbol, _NONE}), Symbol)
_SYMBOLS: Kind = (frozenset({str, Symbol, list, Array, _NONE}), _same)
_UBYTE: Kind = (frozenset({UByte, _NONE}), UByte)
_USHORT: Kind = (frozenset({UByte, UShort, _NONE}), UShort)
_UINT: Kind = (frozenset({UByte, UShort, UInt, _NONE}), UInt)
_ULONG: Kind = (frozenset({UByte, UShort, UInt, ULong, _NONE}), ULong)
# Numbers of other types that have a value of the field's are read too.
_LIMITS = {_UBYTE[0]: 2**8, _USHORT[0]: 2**16, _UINT[0]: 2**32, _ULONG[0]: 2**64}
_FLAG: Kind = (frozenset({bool, _NONE}), bool)
_BINARY: Kind = (frozenset({bytes, _NONE}), bytes)
_MAP: Kind = (frozenset({dict, _NONE}), _same)
_ANY: Kind = (None, _same)


@dataclass(slots=True)
class Open:
    """A connection begins."""

    CODE: ClassVar[int] = 0x10
    KINDS: ClassVar[tuple[Kind, ...]] = (
        _TEXT,
        _TEXT,
        _UINT,
        _USHORT,
        _UINT,
        _SYMBOLS,
        _SYMBOLS,
        _SYMBOLS,
        _SYMBOLS,
        _MAP,
    )
    MANDATORY: ClassVar[tuple[int, ...]] = (0,)

    container_id: str = ""
    hostname: str | None = None
    max_frame_size: int | None = None
    channel_max: int | None = None
    idle_time_out: int | None = None
    outgoing_locales: Any = None
    incoming_locales: Any = None
    offered_capabilities: Any = None
    desired_capabilities: Any = None
    properties: dict[Any, Any] | None = None


@dataclass(slots=True)
class Begin:
    """A session begins."""

    CODE: ClassVar[int] = 0x11
    KINDS: ClassVar[tuple[Kind, ...]] = (_USHORT, _UINT, _UINT, _UINT, _UINT, _SYMBOLS, _SYMBOLS, _MAP)
    MANDATORY: ClassVar[tuple[int, ...]] = (1, 2, 3)

    remote_channel: int | None = None
    next_outgoing_id: int = 0
    incoming_window: int = 0
    outgoing_window: int = 0
    handle_max: int | None = None
    offered_capabilities: Any = None
    desired_capabilities: Any = None
    properties: dict[Any, Any] | None = None


@dataclass(slots=True)
class Attach:
    """A link begins. `role` is True for a receiver."""

    CODE: ClassVar[int] = 0x12
    KINDS: ClassVar[tuple[Kind, ...]] = (
        _TEXT,
        _UINT,
        _FLAG,
        _UBYTE,
        _UBYTE,
        _ANY,
        _ANY,
        _MAP,
        _FLAG,
        _UINT,
        _ULONG,
        _SYMBOLS,
        _SYMBOLS,
        _MAP,
    )
    MANDATORY: ClassVar[tuple[int, ...]] = (0, 1, 2)

    name: str = ""
    handle: int = 0
    role: bool = False
    snd_settle_mode: int | None = None
    rcv_settle_mode: int | None = None
    source: Any = None
    target: Any = None
    unsettled: dict[Any, Any] | None = None
    incomplete_unsettled: bool | None = None
    initial_delivery_count: int | None = None
    max_message_size: int | None = None
    offered_capabilities: Any = None
    desired_capabilities: Any = None
    properties: dict[Any, Any] | None = None


@dataclass(slots=True)
class Flow:
    """Windows of a session, and credit of a link where `handle` is given."""

    CODE: ClassVar[int] = 0x13
    KINDS: ClassVar[tuple[Kind, ...]] = (
        _UINT,
        _UINT,
        _UINT,
        _UINT,
        _UINT,
        _UINT,
        _UINT,
        _UINT,
        _FLAG,
        _FLAG,
        _MAP,
    )
    MANDATORY: ClassVar[tuple[int, ...]] = (1, 2, 3)

    next_incoming_id: int | None = None
    incoming_window: int = 0
    next_outgoing_id: int = 0
    outgoing_window: int = 0
    handle: int | None = None
    delivery_count: int | None = None
    link_credit: int | None = None
    available: int | None = None
    drain: bool | None = None
    echo: bool | None = None
    properties: dict[Any, Any] | None = None


@dataclass(slots=True)
class Transfer:
    """A message, or a fragment of one; its bytes follow the performative."""

    CODE: ClassVar[int] = 0x14
    KINDS: ClassVar[tuple[Kind, ...]] = (
        _UINT,
        _UINT,
        _BINARY,
        _UINT,
        _FLAG,
        _FLAG,
        _UBYTE,
        _ANY,
        _FLAG,
        _FLAG,
        _FLAG,
    )
    MANDATORY: ClassVar[tuple[int, ...]] = (0,)

    handle: int = 0
    delivery_id: int | None = None
    delivery_tag: bytes | None = None
    message_format: int | None = None
    settled: bool | None = None
    more: bool | None = None
    rcv_settle_mode: int | None = None
    state: Any = None
    resume: bool | None = None
    aborted: bool | None = None
    batchable: bool | None = None


@dataclass(slots=True)
class Disposition:
    """The state of the deliveries first..last."""

    CODE: ClassVar[int] = 0x15
    KINDS: ClassVar[tuple[Kind, ...]] = (_FLAG, _UINT, _UINT, _FLAG, _ANY, _FLAG)
    MANDATORY: ClassVar[tuple[int, ...]] = (0, 1)

    role: bool = False
    first: int = 0
    last: int | None = None
    settled: bool | None = None
    state: Any = None
    batchable: bool | None = None


@dataclass(slots=True)
class Detach:
    """A link ends."""

    CODE: ClassVar[int] = 0x16
    KINDS: ClassVar[tuple[Kind, ...]] = (_UINT, _FLAG, _ANY)
    MANDATORY: ClassVar[tuple[int, ...]] = (0,)

    handle: int = 0
    closed: bool | None = None
    error: Any = None


@dataclass(slots=True)
class End:
    """A session ends."""

    CODE: ClassVar[int] = 0x17
    KINDS: ClassVar[tuple[Kind, ...]] = (_ANY,)
    MANDATORY: ClassVar[tuple[int, ...]] = ()

    error: Any = None


@dataclass(slots=True)
class Close:
    """A connection ends."""

    CODE: ClassVar[int] = 0x18
    KINDS: ClassVar[tuple[Kind, ...]] = (_ANY,)
    MANDATORY: ClassVar[tuple[int, ...]] = ()

    error: Any = None


@dataclass(slots=True)
class SaslMechanisms:
    """The mechanisms the server offers."""

    CODE: ClassVar[int] = 0x40
    KINDS: ClassVar[tuple[Kind, ...]] = (_SYMBOLS,)
    MANDATORY: ClassVar[tuple[int, ...]] = (0,)

    mechanisms: Any = None


@dataclass(slots=True)
class SaslInit:
    """The mechanism the client chose."""

    CODE: ClassVar[int] = 0x41
    KINDS: ClassVar[tuple[Kind, ...]] = (_SYMBOL, _BINARY, _TEXT)
    MANDATORY: ClassVar[tuple[int, ...]] = (0,)

    mechanism: str = ""
    initial_response: bytes | None = None
    hostname: str | None = None


@dataclass(slots=True)
class SaslOutcome:
    """The result; 0 is success."""

    CODE: ClassVar[int] = 0x44
    KINDS: ClassVar[tuple[Kind, ...]] = (_UBYTE, _BINARY)
    MANDATORY: ClassVar[tuple[int, ...]] = (0,)

    code: int = 0
    additional_data: bytes | None = None


_AMQP: dict[int, type[Any]] = {
    kind.CODE: kind for kind in (Open, Begin, Attach, Flow, Transfer, Disposition, Detach, End, Close)
}
_SASL: dict[int, type[Any]] = {kind.CODE: kind for kind in (SaslMechanisms, SaslInit, SaslOutcome)}
_NAMES = {f"amqp:{kind.__name__.lower()}:list": code for code, kind in _AMQP.items()} | {
    "amqp:sasl-mechanisms:list": 0x40,
    "amqp:sasl-init:list": 0x41,
    "amqp:sasl-outcome:list": 0x44,
}

T = TypeVar("T")


def decode_performative(frame: bytes, *, sasl: bool = False) -> tuple[Any, int]:
    """The performative a frame body begins with, and where its payload begins. Raises AmqpError."""
    if frame[:2] == b"\x00\x53" and len(frame) > 3:
        code: Any = frame[2]
        values, end = decode(frame, 3)
    else:
        described, end = decode(frame)
        if not isinstance(described, Described):
            raise DecodeError("a frame without a performative")
        code, values = described.descriptor, described.value
    kind = (_SASL if sasl else _AMQP).get(code_of(code))
    if kind is None or values.__class__ is not list:
        raise AmqpError("amqp:not-implemented", f"unknown performative {code!r}")
    return _checked(kind, values), end


def code_of(descriptor: Any) -> int:
    """The code of a performative, by its descriptor; -1 if that is neither a number nor a known name."""
    return _code(descriptor, _NAMES)


# Computed once, not for each frame.
_ALLOWED: dict[type, tuple[frozenset[type] | None, ...]] = {
    kind: tuple(field[0] for field in kind.KINDS) for kind in (*_AMQP.values(), *_SASL.values())
}


# The classes of fields that were already found valid: the frames of a client are much alike.
_known: set[tuple[type, ...]] = set()
_MAX_KNOWN = 4096


def _checked(kind: type[T], values: list[Any]) -> T:
    classes = (kind, *[value.__class__ for value in values])
    if classes not in _known:
        _check(kind, values)
        if len(_known) < _MAX_KNOWN:
            _known.add(classes)
    return kind(*values)


def _check(kind: type[Any], values: list[Any]) -> None:
    """Raise AmqpError unless all mandatory fields are present and all fields have the right type."""
    allowed_classes = _ALLOWED[kind]
    if len(values) > len(allowed_classes):
        raise AmqpError("amqp:invalid-field", f"{kind.__name__.lower()} has too many fields")
    for index in kind.MANDATORY:
        if index >= len(values) or values[index] is None:
            raise AmqpError("amqp:invalid-field", f"{kind.__name__.lower()} lacks field {index}")
    for value, allowed in zip(values, allowed_classes, strict=False):
        if allowed is None or value.__class__ in allowed:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _LIMITS.get(allowed, 0):
            raise AmqpError("amqp:invalid-field", f"a field of {kind.__name__.lower()} has the wrong type")


def encode_performative(performative: Any) -> bytes:
    """The bytes of a performative with all its fields: SDKs before 7.15 read fields without checking their number."""
    return b"\x00\x53" + bytes((performative.CODE,)) + encode_list(_encoded_fields(performative))


def _encoded_fields(performative: Any) -> list[bytes]:
    encoded = []
    for field, (_, convert) in zip(fields(performative), performative.KINDS, strict=True):
        value = getattr(performative, field.name)
        encoded.append(b"\x40" if value is None else encode(convert(value)))
    return encoded


# --- termini, outcomes and errors, as bytes or as plain values ------------------------------------------------------

RECEIVED, ACCEPTED, REJECTED, RELEASED, MODIFIED = 0x23, 0x24, 0x25, 0x26, 0x27
DECLARE, DISCHARGE, DECLARED, TRANSACTIONAL = 0x31, 0x32, 0x33, 0x34
_OUTCOME_NAMES = {
    "amqp:received:list": RECEIVED,
    "amqp:accepted:list": ACCEPTED,
    "amqp:rejected:list": REJECTED,
    "amqp:released:list": RELEASED,
    "amqp:modified:list": MODIFIED,
    "amqp:declare:list": DECLARE,
    "amqp:discharge:list": DISCHARGE,
    "amqp:declared:list": DECLARED,
    "amqp:transactional-state:list": TRANSACTIONAL,
}
SOURCE, TARGET, COORDINATOR = 0x28, 0x29, 0x30
_TERMINUS_NAMES = {"amqp:source:list": SOURCE, "amqp:target:list": TARGET, "amqp:coordinator:list": COORDINATOR}


def error(condition: str, description: str) -> Described:
    """An AMQP error with all three fields: the Python SDK reads the third without checking that it is present."""
    return Described(ULong(0x1D), [Symbol(condition), description, {}])


def accepted() -> Described:
    return Described(ULong(ACCEPTED), [])


def rejected(reason: Described | None = None) -> Described:
    return Described(ULong(REJECTED), [] if reason is None else [reason])


def released() -> Described:
    return Described(ULong(RELEASED), [])


def modified(failed: bool, undeliverable: bool) -> Described:
    return Described(ULong(MODIFIED), [failed, undeliverable])


def declared(transaction: bytes) -> Described:
    return Described(ULong(DECLARED), [transaction])


def transactional(transaction: bytes, outcome: Any) -> Described:
    return Described(ULong(TRANSACTIONAL), [transaction, outcome])


@dataclass(frozen=True, slots=True)
class Terminus:
    """A source or target as a peer sent it."""

    code: int
    address: str | None
    fields: list[Any]

    @property
    def filters(self) -> dict[Any, Any]:
        """The filter map of a source; empty if there is none."""
        value = self.fields[7] if self.code == SOURCE and len(self.fields) > 7 else None
        return value if isinstance(value, dict) else {}

    def encoded(self, filters: dict[Any, Any] | None = None) -> Raw:
        """The same terminus to be sent back, with other filters if they are given."""
        values = list(self.fields)
        if filters is not None:
            values += [None] * (8 - len(values))
            values[7] = filters or None
        kinds = _SOURCE_KINDS if self.code == SOURCE else _TARGET_KINDS
        items = [encode(None if v is None else k[1](v)) for v, k in zip(values, kinds, strict=False)]
        return Raw(b"\x00\x53" + bytes((self.code,)) + encode_list(items))


_SOURCE_KINDS = (_ANY, _UINT, _SYMBOL, _UINT, _FLAG, _MAP, _SYMBOL, _MAP, _ANY, _SYMBOLS, _SYMBOLS)
_TARGET_KINDS = (_ANY, _UINT, _SYMBOL, _UINT, _FLAG, _MAP, _SYMBOLS)


def terminus(value: Any) -> Terminus | None:
    """Read a source or target; None for null. Raises AmqpError."""
    if value is None:
        return None
    if not isinstance(value, Described) or type(value.value) is not list:
        raise AmqpError("amqp:invalid-field", "a terminus is a described list")
    code = _code(value.descriptor, _TERMINUS_NAMES)
    if code not in (SOURCE, TARGET, COORDINATOR):
        raise AmqpError("amqp:invalid-field", "an unknown kind of terminus")
    address = value.value[0] if value.value and code != COORDINATOR else None
    return Terminus(code, address if isinstance(address, str) else None, value.value)


def outcome(value: Any) -> tuple[int, list[Any]] | None:
    """Read a delivery state: its code and its fields; None for null or something else."""
    if not isinstance(value, Described) or type(value.value) is not list:
        return None
    return _code(value.descriptor, _OUTCOME_NAMES), value.value


def within_transaction(state: Any) -> tuple[bytes | None, Any]:
    """The id of the transaction that a delivery state names, and the state in it; None and the state if it names none.

    An id that is missing or of another type is read as an empty one, which no transaction has.
    """
    read = outcome(state)
    if read is None or read[0] != TRANSACTIONAL:
        return None, state
    transaction, inner = [*read[1], None, None][:2]
    return (transaction if isinstance(transaction, bytes) else b""), inner


def error_parts(value: Any) -> tuple[str, str, dict[Any, Any]]:
    """Condition, description and info map of an error value; empty if there is none."""
    parts = value.value if isinstance(value, Described) and type(value.value) is list else []
    condition, description, info = [*parts, None, None, None][:3]
    return str(condition or ""), str(description or ""), info if isinstance(info, dict) else {}


def reason(value: Any) -> tuple[str | None, str]:
    """Condition and description of an error value; no condition if there is none."""
    condition, description, _ = error_parts(value)
    return condition or None, description


def _code(descriptor: Any, names: dict[str, int]) -> int:
    if isinstance(descriptor, str):
        return names.get(descriptor, -1)
    return descriptor if isinstance(descriptor, int) else -1
