"""The size of a message on the wire: a cheap bound, and the exact size near a billing step or a limit."""

from collections.abc import Collection, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch
from azure.servicebus.amqp import AmqpMessageBodyType

from pairing.messages.rewriting import to_backlog
from pairing.telemetry.metering import STEP

NEAR = 4_096
"""The distance from a step or limit within which the exact size is computed."""

_DATA = AmqpMessageBodyType.DATA
EMPTY_BATCH = ServiceBusMessageBatch().size_in_bytes
"""Size of an empty batch in bytes."""
ENTRY = 8
"""Bytes that a batch adds to a message of 256 bytes or more, as the SDK counts."""
_SMALL, _SMALL_ENTRY = 256, 5
_SECTIONS = 96  # descriptors and lengths of all sections, the header, two times
_VALUE = 5  # the longest constructor and length
_MANY = 200  # properties for which the bound would be too loose
_ENVELOPE = 29  # the properties of a batch: descriptor, list, the id's constructor, and what is left out
_ENVELOPE_KEY = 38  # its annotations: descriptor, map, the key's name and the value's constructor
_FIXED = {type(None): 2, bool: 3, int: 9, float: 9, datetime: 9, UUID: 17, Decimal: 17}
_GUESSED = frozenset({str, bytes, int, float, bool, UUID, type(None)})
_GUESSED_ANNOTATIONS = _GUESSED - {bytes} | {datetime}
_PATH, _SESSION, _TTL, _SCHEDULE, _LARGER_MAP = 16, 22, 28, 42, 6


def encoded_size(message: ServiceBusMessage) -> int:
    """The exact size in bytes, by the SDK's own encoder; takes some hundred microseconds."""
    batch = ServiceBusMessageBatch(max_size_in_bytes=2**62)
    batch.add_message(message)
    added = batch.size_in_bytes - EMPTY_BATCH
    return added - _SMALL_ENTRY if added - _SMALL_ENTRY < _SMALL else added - ENTRY


def message_size(message: ServiceBusMessage, limit: int | None = None) -> int:
    """An upper bound of the size in bytes: cheap, and exact within 4 KiB of a 64 KB step or of ``limit``."""
    bound = size_bound(message)
    if bound is None or _is_near(bound, limit):
        return encoded_size(message)
    return bound


def received_size(message: ServiceBusMessage) -> int:
    """``message_size``, or the length of its text if the SDK can decode but not encode it; never an error."""
    try:
        return message_size(message)
    except Exception:  # metering must not keep a received message from its receiver
        raw = message.raw_amqp_message
        body = raw.body if raw.body_type == AmqpMessageBodyType.VALUE else list(raw.body)
        return _SECTIONS + len(repr((body, raw.application_properties, raw.annotations, raw.footer)))


def size_bound(message: ServiceBusMessage) -> int | None:
    """An upper bound, less than 4 KiB above the encoded size, within microseconds; None if only encoding can determine
    it.
    """
    raw = message.raw_amqp_message
    size = _SECTIONS
    if raw.body_type is _DATA:
        size += sum([8 + len(data) for data in raw.body])
    elif raw.body is not None:
        return None
    try:
        if raw.properties is not None:
            size += _total(vars(raw.properties).values())
        for section in (raw.application_properties, raw.annotations, raw.footer):
            if section:
                size += _total(section) + _total(section.values())
    except _NotSimpleError:
        return None
    return size


def backlog_overhead(message: ServiceBusMessage, path: str) -> int:
    """The maximum number of bytes that rewriting for the backlog of ``path`` adds to ``message`` in a batch."""
    raw = message.raw_amqp_message
    if not _is_plain(message):
        before, after = encoded_size(message), encoded_size(to_backlog(message, path))
        return max(0, after - before + (ENTRY - _SMALL_ENTRY if before < _SMALL <= after else 0))
    overhead = _LARGER_MAP + _PATH + 4 * len(path)
    if raw.properties is not None and raw.properties.group_id is not None:
        overhead += _SESSION
    if raw.header is not None and raw.header.time_to_live is not None:
        overhead += _TTL
    if raw.annotations and message.scheduled_enqueue_time_utc is not None:
        overhead += _SCHEDULE
    return overhead


def backlog_size(messages: Sequence[ServiceBusMessage], path: str) -> int:
    """The exact size in bytes of a batch of messages that are sent to a backlog queue."""
    batch = ServiceBusMessageBatch(max_size_in_bytes=2**62)
    for message in messages:
        batch.add_message(to_backlog(message, path))
    return batch.size_in_bytes + envelope_size(messages[0])


def envelope_size(first: ServiceBusMessage) -> int:
    """The maximum number of bytes that the SDK adds to a batch for its first message, beyond its own count.

    A batch that was rewritten for the backlog has that message's id and partition key, but no session.
    """
    size = _ENVELOPE + len(str(first.message_id or "").encode())
    if first.partition_key is not None:
        size += _ENVELOPE_KEY + len(first.partition_key.encode())
    return size


class _NotSimpleError(Exception):
    pass


def _is_near(bound: int, limit: int | None) -> bool:
    return (bound > STEP and bound % STEP < NEAR) or (limit is not None and limit < bound < limit + NEAR)


def _is_plain(message: ServiceBusMessage) -> bool:
    """Whether no value needs a type description."""
    raw = message.raw_amqp_message
    if raw.footer or (raw.body_type is not _DATA and raw.body is not None):
        return False
    if raw.properties is not None and isinstance(raw.properties.message_id, bytes):
        return False
    plain = _GUESSED.issuperset(map(type, (raw.application_properties or {}).values()))
    return plain and (not raw.annotations or _GUESSED_ANNOTATIONS.issuperset(map(type, raw.annotations.values())))


def _total(values: Collection[Any]) -> int:
    if len(values) > _MANY:
        raise _NotSimpleError
    size = 0
    for value in values:
        kind = type(value)
        if kind is str:
            size += _VALUE + (len(value) if value.isascii() else len(value.encode()))
        elif kind is bytes:
            size += _VALUE + len(value)
        else:
            size += _FIXED[kind] if kind in _FIXED else _VALUE + _typed_length(value)
    return size


def _typed_length(value: Any) -> int:
    match value:
        case {"TYPE": str(), "VALUE": str() | bytes() as inner}:
            return 4 * len(inner)
        case {"TYPE": str(), "VALUE": int() | float() | UUID() | Decimal() | datetime()}:
            return 16
    raise _NotSimpleError
