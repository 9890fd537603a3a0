"""A message with every property that it can have, and what is compared of it on arrival. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage
from azure.servicebus.amqp import AmqpMessageHeader

_FIELDS = (
    *("content_type", "correlation_id", "partition_key", "reply_to", "reply_to_session_id", "session_id"),
    *("subject", "time_to_live", "to"),
)
_OF_THE_SERVICE = b"x-opt-"


def full_message() -> ServiceBusMessage:
    """The same message at each call, except for its id."""
    properties: dict[Any, Any] = {
        "text": "Grüße",
        "bytes": b"\x00\x01",
        "int": -7,
        "long": {"TYPE": "LONG", "VALUE": 2**40},
        "float": 1.25,
        "flag": True,
        "time": datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC),
        "uuid": UUID(int=7),
        "nothing": None,
    }
    message = ServiceBusMessage(
        b"\x00body\xff",
        application_properties=properties,
        content_type="application/x-check",
        correlation_id="correlation",
        partition_key="partition",
        reply_to="reply-to",
        reply_to_session_id="reply-to-session",
        subject="subject",
        time_to_live=timedelta(days=2),
        to="to",
    )
    raw = message.raw_amqp_message
    header = raw.header or AmqpMessageHeader()
    header.priority, header.durable = 7, True
    raw.header = header
    raw.annotations = {**(raw.annotations or {}), "of-the-user": "kept"}
    return message


def snapshot(message: ServiceBusReceivedMessage) -> dict[str, Any]:
    """What a receiver sees of it, without what the service adds."""
    raw = message.raw_amqp_message
    annotations = {key: value for key, value in (raw.annotations or {}).items() if not _is_of_the_service(key)}
    properties = message.application_properties or {}
    return {
        **{name: getattr(message, name) for name in _FIELDS},
        "body": b"".join(message.body),
        "priority": raw.header.priority if raw.header else None,
        "durable": raw.header.durable if raw.header else None,
        **{f"property {_name(key)}": value for key, value in properties.items()},
        **{f"annotation {_name(key)}": value for key, value in annotations.items()},
    }


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The names of what is different, or only in one of them."""
    missing = object()
    names = dict.fromkeys((*one, *other))
    return [name for name in names if one.get(name, missing) != other.get(name, missing)]


def _is_of_the_service(key: Any) -> bool:
    return _name(key).startswith(_OF_THE_SERVICE.decode())


def _name(key: Any) -> str:
    return key.decode(errors="replace") if isinstance(key, bytes) else str(key)
