"""Messages as the broker stores them: the bare message as received, and the data the broker adds to it.

Properties, application properties, body and footer are never re-encoded, so that no type is lost. Only the header and
the annotations are rewritten on delivery, and single application properties where Service Bus itself sets some
(dead-lettering, rule actions).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from random import Random
from typing import Any, NamedTuple

from amqp10 import sections
from amqp10.codec import decode, encode, encode_list, encode_map, list_items, map_items
from amqp10.types import INTEGERS, DecodeError, Symbol, Timestamp

PING_CONTENT_TYPE = "application/vnd.ms-servicebus-ping"
BATCH_FORMAT = 0x80013700
NEVER = float("inf")
MAX_UBYTE, MAX_UINT = 2**8 - 1, 2**32 - 1

PARTITION_KEY = "x-opt-partition-key"
SCHEDULED_TIME = "x-opt-scheduled-enqueue-time"
# Ids need to be unique, not secret, and bytes of the system cost a call each.
_random = Random()  # noqa: S311
_DECIMAL, _DECIMAL_BIAS = b"\x94", 6176
# Written by the broker on delivery; values set by another broker are dropped on arrival.
BROKER_ANNOTATIONS = frozenset(
    {
        "x-opt-sequence-number",
        "x-opt-enqueued-time",
        "x-opt-locked-until",
        "x-opt-enqueue-sequence-number",
        "x-opt-message-state",
        "x-opt-deadletter-source",
        "x-opt-lock-token",
        SCHEDULED_TIME,
    }
)


class MessageState(IntEnum):
    """The value of `x-opt-message-state`."""

    ACTIVE = 0
    DEFERRED = 1
    SCHEDULED = 2


class Properties(NamedTuple):
    """The properties section, decoded. Ids have the type they were sent with: text, int, UUID or bytes."""

    message_id: Any = None
    user_id: Any = None
    to: str | None = None
    subject: str | None = None
    reply_to: str | None = None
    correlation_id: Any = None
    content_type: str | None = None
    content_encoding: str | None = None
    absolute_expiry_time: int | None = None
    creation_time: int | None = None
    group_id: str | None = None
    group_sequence: int | None = None
    reply_to_group_id: str | None = None


_NO_PROPERTIES = Properties()


@dataclass(slots=True)
class Message:
    """One message as it was sent. It is never modified; `frozen=True` would make creating it three times as slow.

    `bare` holds properties, application properties, body, footer and delivery annotations that follow them;
    `annotations` the encoded pairs of the sender's own message annotations, without the map around them. `size` is
    the encoded size of the message as sent, `message_id` the id given by its sender, for duplicate detection. Times
    are unix seconds; `ttl_s` is None if unlimited.
    """

    bare: bytes
    durable: bool | None = None
    priority: int | None = None
    header_ttl_ms: int | None = None
    ttl_s: float | None = None
    annotations: bytes = b""
    annotation_count: int = 0
    scheduled_at: float | None = None
    partition_key: str | None = None
    message_id: str | None = None
    session_id: str | None = None
    is_ping: bool = False
    size: int = 0

    @property
    def properties(self) -> Properties:
        """The properties section, decoded at each call."""
        return _properties_of(self.bare)

    @property
    def application_properties(self) -> dict[str, Any]:
        """The application properties, decoded at each call; timestamps are `Timestamp` (unix milliseconds)."""
        return {key: decode(raw)[0] for key, raw in _application_items(self.bare)}

    def with_application_properties(self, changes: Mapping[str, Any], removed: frozenset[str] = frozenset()) -> Message:
        """A copy with these application properties set and those removed; all others keep their bytes."""
        items = [(key, raw) for key, raw in _application_items(self.bare) if key not in changes and key not in removed]
        items += [(key, encode(value)) for key, value in changes.items()]
        bare = _with_application_items(self.bare, items)
        return replace(self, bare=bare, size=self.size + len(bare) - len(self.bare))

    def with_properties(self, **changes: Any) -> Message:
        """A copy with these fields of the properties section set, by their names; others keep their bytes."""
        bare = _with_property_fields(self.bare, changes)
        properties = _properties_of(bare)
        return replace(
            self,
            bare=bare,
            size=self.size + len(bare) - len(self.bare),
            message_id=_id_text(properties.message_id),
            session_id=properties.group_id,
        )


@dataclass(slots=True, eq=False)
class StoredMessage:
    """A message in a queue, with its broker properties. Mutable; only its queue changes it."""

    message: Message
    sequence_number: int
    enqueued_at: float
    expires_at: float = NEVER
    state: MessageState = MessageState.ACTIVE
    delivery_count: int = 0
    scheduled_at: float | None = None
    enqueue_sequence_number: int | None = None
    dead_letter_source: str | None = None
    hops: int = 0
    lock_token: bytes | None = field(default=None)
    locked_until: float = 0.0
    is_removed: bool = False


def parse(data: bytes, *, assigns_id: bool = False) -> Message:
    """A message from its encoded form, with `assigns_id` given a message id if it has none. Raises DecodeError."""
    parts = sections.split(data)
    header: list[Any] = []
    annotations: list[tuple[Any, bytes]] = []
    first_bare = len(parts)
    for index, part in enumerate(parts):
        if part.code == sections.HEADER:
            header = _decoded_list(data, part.value, "header")
        elif part.code == sections.MESSAGE_ANNOTATIONS:
            annotations = map_items(data, part.value)[0]
        elif part.code >= sections.PROPERTIES:
            first_bare = index
            break
    bare = sections.with_short_descriptors(data, parts[first_bare:])
    if _DECIMAL in bare:
        bare = _with_decimals_of_the_service(bare)
    message = _build(bare, header, annotations, len(data))
    if assigns_id and message.message_id is None:
        message.bare = _with_new_id(bare)
    return message


def parse_batch(data: bytes, *, assigns_ids: bool = False) -> list[Message]:
    """The messages of a batch transfer: one in each data section. Raises DecodeError."""
    messages = []
    for part in sections.split(data):
        if part.code == sections.DATA:
            inner = decode(data, part.value)[0]
            if not isinstance(inner, bytes):
                raise DecodeError("a batch with a data section that is not a binary")
            messages.append(parse(inner, assigns_id=assigns_ids))
    return messages


def _build(bare: bytes, header: list[Any], annotations: list[tuple[Any, bytes]], size: int) -> Message:
    properties = _properties_of(bare)
    durable, priority, ttl_ms = [*header, None, None, None][:3]
    if ttl_ms is not None and (type(ttl_ms) not in INTEGERS or not 0 <= ttl_ms <= MAX_UINT):
        raise DecodeError("the header's ttl is not an unsigned int")
    kept: list[bytes] = []
    scheduled_at = partition_key = None
    for key, raw in annotations:
        if key.__class__ not in _KEYS:
            raise DecodeError("the key of an annotation is neither a symbol nor a number")
        if key == SCHEDULED_TIME:
            scheduled_at = _seconds(decode(raw)[0])
        elif key == PARTITION_KEY:
            value = decode(raw)[0]
            partition_key = value if isinstance(value, str) else None
        if key not in BROKER_ANNOTATIONS:
            kept.append(_encoded_key(key) + raw)
    return Message(
        bare=bare,
        durable=durable if type(durable) is bool else None,
        priority=priority if type(priority) in INTEGERS and 0 <= priority <= MAX_UBYTE else None,
        header_ttl_ms=ttl_ms,
        ttl_s=_time_to_live(ttl_ms, properties),
        annotations=b"".join(kept),
        annotation_count=len(kept),
        scheduled_at=scheduled_at,
        partition_key=partition_key,
        message_id=_id_text(properties.message_id),
        session_id=properties.group_id,
        is_ping=properties.content_type == PING_CONTENT_TYPE,
        size=size,
    )


def _with_new_id(bare: bytes) -> bytes:
    """The bare message with a generated message id, in the format of the service: 32 hexadecimal digits."""
    encoded = b"\xa1\x20%032x" % _random.getrandbits(128)
    if bare[:3] != b"\x00\x53\x73":
        return b"\x00\x53\x73\xc0\x23\x01" + encoded + bare
    if bare[3] == 0xC0 and bare[5] and bare[4] + len(encoded) <= 256:  # a short list whose first field is null
        return b"\x00\x53\x73\xc0" + bytes((bare[4] + len(encoded) - 1, bare[5])) + encoded + bare[7:]
    return _with_property_fields(bare, {"message_id": encoded[2:].decode()})


def _with_decimals_of_the_service(bare: bytes) -> bytes:
    """The bare message with the exponents of decimals in application properties as the service delivers them.

    The service shifts the exponent two bits further than IEEE 754 does, and SDKs read it so. The two forms differ in
    the first byte for the decimals of .NET, those with 0 to 28 digits behind the point; others stay as they are.
    """
    part, changed = _find(bare, sections.APPLICATION_PROPERTIES), bytearray(bare)
    try:
        places = [start for start, _ in list_items(bare, part.value)][1::2] if part is not None else []
    except DecodeError:  # delivered as it is, like all that only a filter would read
        return bare
    for place in places:
        if bare[place] != _DECIMAL[0]:  # it may be the last byte
            continue
        sign, exponent = bare[place + 1] & 0x80, (bare[place + 1] & 0x7F) << 7 | bare[place + 2] >> 1
        if 0 <= _DECIMAL_BIAS - exponent <= 28:
            changed[place + 1] = sign | exponent >> 9
    return bytes(changed)


def _time_to_live(ttl_ms: int | None, properties: Properties) -> float | None:
    """The header holds at most 49 days; a longer time to live is the difference of the two timestamps."""
    created, expires = properties.creation_time, properties.absolute_expiry_time
    if created is not None and expires is not None and expires > created:
        return max(ttl_ms or 0, expires - created) / 1000
    return None if ttl_ms is None else ttl_ms / 1000


def _seconds(value: Any) -> float | None:
    return value / 1000 if isinstance(value, int) else None


def _id_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return value.hex() if isinstance(value, bytes) else str(value)


def _decoded_list(data: bytes, position: int, what: str) -> list[Any]:
    value, _ = decode(data, position)
    if type(value) is not list:
        raise DecodeError(f"the {what} is not a list")
    return value


_KEYS: frozenset[type] = INTEGERS | {Symbol, str}
_TEXT: frozenset[type] = frozenset({str, Symbol, type(None)})
_NUMBER: frozenset[type] = INTEGERS | {Timestamp, type(None)}
# None: an id may have any type.
_PROPERTY_TYPES: tuple[frozenset[type] | None, ...] = (
    None,
    None,
    _TEXT,
    _TEXT,
    _TEXT,
    None,
    _TEXT,
    _TEXT,
    _NUMBER,
    _NUMBER,
    _TEXT,
    _NUMBER,
    _TEXT,
)


# The classes of fields that were already found valid: most messages are alike.
_known_properties: set[tuple[type, ...]] = set()
_MAX_KNOWN = 4096


def _properties_of(bare: bytes) -> Properties:
    if bare[:3] != b"\x00\x53\x73":
        return _NO_PROPERTIES
    fields = _decoded_list(bare, 3, "properties section")
    classes = tuple([value.__class__ for value in fields])
    if classes not in _known_properties:
        _check_properties(fields)
        if len(_known_properties) < _MAX_KNOWN:
            _known_properties.add(classes)
    return Properties(*fields)


def _check_properties(fields: list[Any]) -> None:
    if len(fields) > len(_PROPERTY_TYPES):
        raise DecodeError("the properties section has too many fields")
    for value, allowed in zip(fields, _PROPERTY_TYPES, strict=False):
        if allowed is not None and value.__class__ not in allowed:
            raise DecodeError("a field of the properties section has the wrong type")


def _find(bare: bytes, code: int) -> sections.Section | None:
    return next((part for part in sections.split(bare) if part.code == code), None)


def _application_items(bare: bytes) -> list[tuple[Any, bytes]]:
    part = _find(bare, sections.APPLICATION_PROPERTIES)
    return [] if part is None else map_items(bare, part.value)[0]


def _with_application_items(bare: bytes, items: list[tuple[Any, bytes]]) -> bytes:
    section = b"\x00\x53\x74" + encode_map([(encode(key), raw) for key, raw in items]) if items else b""
    part = _find(bare, sections.APPLICATION_PROPERTIES)
    if part is not None:
        return bare[: part.start] + section + bare[part.end :]
    properties = _find(bare, sections.PROPERTIES)
    position = properties.end if properties is not None else 0
    return bare[:position] + section + bare[position:]


def _with_property_fields(bare: bytes, changes: Mapping[str, Any]) -> bytes:
    part = _find(bare, sections.PROPERTIES)
    fields = [] if part is None else [bare[start:end] for start, end in list_items(bare, part.value)]
    fields += [b"\x40"] * (len(Properties._fields) - len(fields))
    for name, value in changes.items():
        fields[Properties._fields.index(name)] = encode(value)
    section = b"\x00\x53\x73" + encode_list(fields)
    return section + (bare if part is None else bare[part.end :])


def _encoded_key(key: str | int) -> bytes:
    """The key of an annotation; a sender may write a string where the protocol asks for a symbol."""
    if isinstance(key, int):
        return encode(key)
    if not key.isascii():
        raise DecodeError("the key of an annotation has characters other than ASCII")
    return encoded_symbol(key)


def encoded_symbol(text: str) -> bytes:
    """The bytes of a symbol, such as the key of an annotation."""
    return encode(Symbol(text))
