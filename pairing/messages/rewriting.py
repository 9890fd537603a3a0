"""Rewrites a message for a backlog queue, with its path, session, times and types, and restores it.

Many entities and sessions share one backlog queue without sessions, so properties that the broker would act upon are
moved into application properties (docs/specification.md, section 6). ``restore`` is the inverse of ``to_backlog``.
"""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType, AmqpMessageHeader, AmqpMessageProperties

from pairing.messages.property_types import (
    Types,
    describe,
    describe_whole,
    from_milliseconds,
    retype,
    retype_whole,
    text,
    to_milliseconds,
    typed,
)

PATH = "x-ms-path"
SESSION_ID = "x-ms-sessionid"
TIME_TO_LIVE = "x-ms-timetolive"
SCHEDULED_ENQUEUE_TIME = "x-ms-scheduledenqueuetimeutc"
PROPERTY_TYPES = "x-ms-proptypes"
RESERVED = (PATH, SESSION_ID, TIME_TO_LIVE, SCHEDULED_ENQUEUE_TIME, PROPERTY_TYPES)
"""Application properties that only this library sets."""

PING_CONTENT_TYPE = "application/vnd.ms-servicebus-ping"

_SCHEDULED_ANNOTATION = b"x-opt-scheduled-enqueue-time"
_BROKER_ANNOTATIONS = frozenset(
    b"x-opt-" + name
    for name in (
        b"sequence-number",
        b"enqueued-time",
        b"locked-until",
        b"lock-token",
        b"enqueue-sequence-number",
        b"message-state",
        b"deadletter-source",
        b"partition-id",
    )
)
_DEAD_LETTER_MARKS = ("DeadLetterReason", "DeadLetterErrorDescription")
_DATA = AmqpMessageBodyType.DATA
_TICKS_PER_MILLISECOND = 10_000
LONGEST_TTL_MS = 2**32 - 1
"""The limit of an AMQP header, 49 days."""
_FOREVER_TICKS = 2**63 - 1  # TimeSpan.MaxValue

Sendable = ServiceBusMessage | AmqpAnnotatedMessage | Mapping[str, Any]
"""The types that the SDK's senders accept as one message."""


class PoisonedMessage(ValueError):
    """A message in a backlog queue that cannot be restored, because a reserved property is missing or invalid.

    ``property`` names it; the text also contains its type and value.
    """

    def __init__(self, name: str, value: Any) -> None:
        problem = "is missing" if value is None else f"is {type(value).__name__} {value!r:.200}"
        super().__init__(f"{name} {problem}")
        self.property = name


def as_message(message: Sendable) -> ServiceBusMessage:
    """One message to send, from any form that the SDK accepts; a received one as from ``copy_for_send``."""
    match message:
        case ServiceBusReceivedMessage():
            return copy_for_send(message)
        case ServiceBusMessage():
            return message
        case AmqpAnnotatedMessage():
            return _wrap(message)
        case Mapping():
            return ServiceBusMessage(**message)
    raise TypeError(f"cannot send a {type(message).__name__}: it is neither a message nor a mapping")


def check_reserved(message: ServiceBusMessage) -> None:
    """Raise a ValueError that names the property if a message already has one of ``RESERVED``."""
    for key in message.application_properties or ():
        if (name := text(key)) in RESERVED:
            raise ValueError(f"application property {name} is reserved for messages on their way through a backlog")


def copy_for_send(received: ServiceBusMessage) -> ServiceBusMessage:
    """A received message as a new one: equal body and properties, without the annotations of its broker.

    Property types are guessed from the decoded values; a past schedule is dropped.
    """
    raw = received.raw_amqp_message
    header = _header(raw)
    header.time_to_live = None if raw.header is None else raw.header.time_to_live
    properties = _properties(raw, {})
    return _build(raw, header, properties, _retyped(raw.application_properties, None), _annotations(raw, None), {})


def to_backlog(message: ServiceBusMessage, path: str) -> ServiceBusMessage:
    """A copy of ``message`` for a backlog queue, which ``restore`` converts back; ``message`` is not changed.

    ``path`` is its destination. ValueError names a reserved property that the message already has.
    """
    check_reserved(message)
    raw = message.raw_amqp_message
    types: dict[str, Any] = {}
    carried = _described(raw.application_properties, "p", types)
    annotations = dict(raw.annotations or {})
    when = _take_schedule(annotations)
    annotations = _described(annotations, "a", types)
    carried[PATH] = path
    properties = _copy(raw.properties)
    for letter, name in (("m", "message_id"), ("c", "correlation_id")):
        if isinstance(getattr(properties, name), bytes):
            types[letter] = "x"
    if properties.group_id is not None:
        carried[SESSION_ID], properties.group_id = text(properties.group_id), None
    if raw.header is not None and raw.header.time_to_live is not None:
        carried[TIME_TO_LIVE] = typed("LONG", raw.header.time_to_live * _TICKS_PER_MILLISECOND)
        properties.absolute_expiry_time = None  # the SDK computes it from the time-to-live on every send
    if when is not None:
        carried[SCHEDULED_ENQUEUE_TIME] = typed("TIMESTAMP", when)
    return _build(raw, _header(raw), properties, carried, annotations, types, outward=True)


def restore(received: ServiceBusMessage) -> tuple[str, ServiceBusMessage]:
    """The destination of a message from a backlog queue, and the message as it was sent there.

    Raises ``PoisonedMessage`` if a reserved property is missing or invalid, ``CannotEncodeError`` if the SDK could
    decode the message but cannot encode it again.
    """
    raw = received.raw_amqp_message
    carried = {text(key): value for key, value in (raw.application_properties or {}).items()}
    path = _take_text(carried, PATH)
    if not path:
        raise PoisonedMessage(PATH, path)
    session_id = _take_text(carried, SESSION_ID)
    ttl_ticks = _take_number(carried, TIME_TO_LIVE)
    scheduled = _take_number(carried, SCHEDULED_ENQUEUE_TIME)
    written = _take_text(carried, PROPERTY_TYPES)
    header = _header(raw)
    header.time_to_live = _ttl_ms(ttl_ticks)
    try:
        types = _read_types(written)
        properties = _properties(raw, types)
        properties.group_id = session_id
        annotations = _annotations(raw, types.get("a"))
        if scheduled is not None:
            annotations[_SCHEDULED_ANNOTATION] = _time(SCHEDULED_ENQUEUE_TIME, scheduled)
        return path, _build(raw, header, properties, _retyped(carried, types.get("p")), annotations, types)
    except (LookupError, AttributeError, TypeError, ArithmeticError, UnicodeDecodeError) as error:
        raise PoisonedMessage(PROPERTY_TYPES, written) from error  # types that do not match the values


def resubmission(dead_lettered: ServiceBusMessage) -> ServiceBusMessage:
    """A copy of a backlog queue's dead letter for that queue, without the dead-letter properties."""
    message = copy_for_send(dead_lettered)
    kept = message.application_properties or {}
    message.application_properties = {key: value for key, value in kept.items() if key not in _DEAD_LETTER_MARKS}
    return message


def ping_message() -> ServiceBusMessage:
    """A message that tests whether an entity accepts sends: empty, expires after a second, valid with sessions too."""
    return ServiceBusMessage(
        None, content_type=PING_CONTENT_TYPE, time_to_live=timedelta(seconds=1), session_id=uuid4().hex
    )


def is_ping(message: ServiceBusMessage) -> bool:
    """Whether a sent or received message is a ping: empty, and with the content type of pings."""
    return message.content_type == PING_CONTENT_TYPE and not _has_body(message.raw_amqp_message)


def _has_body(raw: AmqpAnnotatedMessage) -> bool:
    if raw.body_type == AmqpMessageBodyType.VALUE:
        return raw.body is not None
    return any(raw.body)


def _wrap(raw: AmqpAnnotatedMessage) -> ServiceBusMessage:
    return ServiceBusMessage(None, message=None, raw_amqp_message=raw)  # the SDK's own way to wrap one


def _build(
    raw: AmqpAnnotatedMessage,
    header: AmqpMessageHeader,
    properties: AmqpMessageProperties,
    application_properties: dict[Any, Any],
    annotations: dict[Any, Any],
    types: dict[str, Any],
    *,
    outward: bool = False,
) -> ServiceBusMessage:
    body = _outward_body(raw, types) if outward else _inward_body(raw, types)
    footer = _described(raw.footer, "f", types) if outward else _retyped_annotations(raw.footer, types.get("f"))
    if outward and types:
        application_properties[PROPERTY_TYPES] = json.dumps(types, separators=(",", ":"))
    built = AmqpAnnotatedMessage(**body)
    built.header, built.properties = header, properties
    built.application_properties = application_properties or None
    built.annotations = annotations or None
    built.footer = footer or None
    return _wrap(built)


def _outward_body(raw: AmqpAnnotatedMessage, types: dict[str, Any]) -> dict[str, Any]:
    if raw.body_type is _DATA:
        return {"data_body": list(raw.body)}
    whole = list(raw.body) if raw.body_type == AmqpMessageBodyType.SEQUENCE else raw.body
    sent, body_types = describe_whole(whole)
    if body_types is not None:
        types["b"] = body_types
    return {"sequence_body" if raw.body_type == AmqpMessageBodyType.SEQUENCE else "value_body": sent}


def _inward_body(raw: AmqpAnnotatedMessage, types: dict[str, Any]) -> dict[str, Any]:
    if raw.body_type is _DATA:
        return {"data_body": list(raw.body)}
    if raw.body_type == AmqpMessageBodyType.SEQUENCE:
        return {"sequence_body": retype_whole(list(raw.body), types.get("b"))}
    return {"value_body": retype_whole(raw.body, types.get("b"))}


def _header(raw: AmqpAnnotatedMessage) -> AmqpMessageHeader:
    """A header with the durability and the priority of a message, and without its time-to-live."""
    header = AmqpMessageHeader()
    if raw.header is not None:
        header.durable, header.priority = raw.header.durable, raw.header.priority
    return header


def _copy(properties: AmqpMessageProperties | None) -> AmqpMessageProperties:
    copy = AmqpMessageProperties()
    if properties is not None:
        vars(copy).update(vars(properties))
    return copy


def _properties(raw: AmqpAnnotatedMessage, types: dict[str, Any]) -> AmqpMessageProperties:
    """A copy of decoded properties: an id stays a string unless ``types`` says that it is binary."""
    properties = _copy(raw.properties)
    for letter, name in (("m", "message_id"), ("c", "correlation_id")):
        value = getattr(properties, name)
        if isinstance(value, bytes) and letter not in types:
            plain = retype(value)
            setattr(properties, name, plain if isinstance(plain, str) else value)
    return properties


def _described(values: dict[Any, Any] | None, section: str, types: dict[str, Any]) -> dict[Any, Any]:
    """The values of a section as they are sent; types that a receiver could not guess are added to ``types``."""
    sent, noted = {}, {}
    for key, value in (values or {}).items():
        if isinstance(value, bytes) and section == "p":
            value = value.decode()  # like the SDK: in application properties bytes are text
        sent[key], value_types = describe(value)
        if value_types is not None:
            noted[_name(key)] = value_types
    if noted:
        types[section] = noted
    return sent


def _name(key: Any) -> str:
    return f"#{key}" if isinstance(key, int) else text(key)


def _retyped(values: Mapping[Any, Any] | None, types: Types | None) -> dict[str, Any]:
    known: dict[str, Any] = types if isinstance(types, dict) else {}
    return {(name := text(key)): retype(value, known.get(name)) for key, value in (values or {}).items()}


def _retyped_annotations(values: Mapping[Any, Any] | None, types: Types | None) -> dict[Any, Any]:
    known: dict[str, Any] = types if isinstance(types, dict) else {}
    return {key: retype(value, known.get(_name(key))) for key, value in (values or {}).items()}


def _annotations(raw: AmqpAnnotatedMessage, types: Types | None) -> dict[Any, Any]:
    """The user's own annotations, and a schedule that the user has set afterwards."""
    kept = {key: value for key, value in (raw.annotations or {}).items() if key not in _BROKER_ANNOTATIONS}
    if isinstance(kept.get(_SCHEDULED_ANNOTATION), int):
        del kept[_SCHEDULED_ANNOTATION]
    when = kept.pop(_SCHEDULED_ANNOTATION, None)
    return _retyped_annotations(kept, types) | ({} if when is None else {_SCHEDULED_ANNOTATION: when})


def _take_schedule(annotations: dict[Any, Any]) -> int | None:
    """Remove the schedule from ``annotations`` and return it, in milliseconds."""
    for key in (_SCHEDULED_ANNOTATION, _SCHEDULED_ANNOTATION.decode()):
        match annotations.pop(key, None):
            case datetime() as when:
                return to_milliseconds(when)
            case {"VALUE": datetime() as when}:
                return to_milliseconds(when)
            case {"VALUE": int(when)} | int(when):
                return when
    return None


def _ttl_ms(ticks: int | None) -> int | None:
    if ticks is None or ticks == _FOREVER_TICKS:
        return None
    if ticks < 0:
        raise PoisonedMessage(TIME_TO_LIVE, ticks)
    return min(ticks // _TICKS_PER_MILLISECOND, LONGEST_TTL_MS)


def _time(name: str, milliseconds: int) -> datetime:
    when = from_milliseconds(milliseconds)
    if when is None:
        raise PoisonedMessage(name, milliseconds)
    return when


def _take_text(carried: dict[str, Any], name: str) -> str | None:
    value = carried.pop(name, None)
    if value is None:
        return None
    try:
        return text(value)
    except (UnicodeDecodeError, AttributeError) as error:
        raise PoisonedMessage(name, value) from error


def _take_number(carried: dict[str, Any], name: str) -> int | None:
    value = carried.pop(name, None)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise PoisonedMessage(name, value)
    return None if value is None else int(value)


def _read_types(written: str | None) -> dict[str, Any]:
    try:
        types = json.loads(written) if written is not None else {}
    except ValueError as error:
        raise PoisonedMessage(PROPERTY_TYPES, written) from error
    if not isinstance(types, dict):
        raise PoisonedMessage(PROPERTY_TYPES, written)
    return types
