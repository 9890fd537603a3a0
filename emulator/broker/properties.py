"""The properties of a message in the types of SQL, decoded once, with names compared without case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from amqp10.types import DecodeError, Described, Long, Symbol, Timestamp
from emulator.broker.message import Message, Properties
from emulator.broker.sql import FilterError, Value

TIME_SPAN, DATE_TIME_OFFSET = "com.microsoft:timespan", "com.microsoft:datetime-offset"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_TICKS = 621_355_968_000_000_000


class MessageProperties:
    """The properties that conditions and actions read; `arrived_at` in seconds since the epoch."""

    def __init__(self, message: Message, sequence_number: int = 0, arrived_at: float = 0.0) -> None:
        self.message = message
        self.sequence_number = sequence_number
        self.arrived_at = arrived_at

    def user(self, name: str) -> Value:
        """The application property, None if there is none or its value is null. Raises FilterError if unreadable."""
        return self._user.get(name.casefold())

    def has_user(self, name: str) -> bool:
        """Whether the message has this application property."""
        return name.casefold() in self._user

    def spelling(self, name: str) -> str:
        """The name as spelled in the message, or as given if it has no such property."""
        return self._spellings.get(name.casefold(), name)

    def system(self, name: str) -> Value:
        """The system property of this lower-case name, None if the message does not have it."""
        return _SYSTEM[name](self)

    @cached_property
    def standard(self) -> Properties:
        """The properties section of the message."""
        return self.message.properties

    @cached_property
    def _application(self) -> Mapping[str, Any]:
        try:
            return {str(key): value for key, value in self.message.application_properties.items()}
        except DecodeError:
            raise FilterError("The application properties of the message cannot be read.") from None

    @cached_property
    def _user(self) -> dict[str, Value]:
        return {key.casefold(): from_amqp(value) for key, value in self._application.items()}

    @cached_property
    def _spellings(self) -> dict[str, str]:
        return {key.casefold(): key for key in self._application}


def from_amqp(value: Any) -> Value:
    """Convert an AMQP value to the types of SQL; a value without such a type stays as it is and never compares."""
    match value:
        case Timestamp():
            return _from_milliseconds(value)
        case Described(descriptor, int() as ticks) if descriptor == TIME_SPAN:
            return timedelta(microseconds=ticks / 10)
        case Described(descriptor, int() as ticks) if descriptor == DATE_TIME_OFFSET:
            return _time((ticks - _EPOCH_TICKS) / 10_000_000)
        case _:
            return value


def to_amqp(value: Value) -> Any:
    """Convert a value of SQL to its AMQP type."""
    match value:
        case datetime():
            aware = value if value.tzinfo else value.replace(tzinfo=UTC)
            return Timestamp((aware - _EPOCH) // timedelta(milliseconds=1))
        case timedelta():
            return Described(Symbol(TIME_SPAN), value // timedelta(microseconds=1) * 10)
        case int() if type(value) is int:
            return Long(value)  # whole numbers of SQL have 64 bits
        case _:
            return value


def _from_milliseconds(milliseconds: int) -> datetime | None:
    """Exact where a float of seconds would lose microseconds."""
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None


def _time(seconds: float) -> datetime | None:
    try:
        return _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return None


def _text(value: Any) -> str | None:
    """The text of a message id, which may be a number, a GUID or binary."""
    if value is None or isinstance(value, str):
        return value
    return value.hex() if isinstance(value, bytes) else str(value)


def _time_to_live(subject: MessageProperties) -> timedelta | None:
    seconds = subject.message.ttl_s
    try:
        return None if seconds is None else timedelta(seconds=seconds)
    except OverflowError:
        return timedelta.max


def _scheduled(subject: MessageProperties) -> datetime | None:
    at = subject.message.scheduled_at
    return None if at is None else _time(at)


def _expires(subject: MessageProperties) -> datetime | None:
    seconds = subject.message.ttl_s
    return None if seconds is None else _time(subject.arrived_at + seconds)


_SYSTEM: Mapping[str, Callable[[MessageProperties], Value]] = {
    "contenttype": lambda subject: subject.standard.content_type,
    "correlationid": lambda subject: _text(subject.standard.correlation_id),
    "deadlettersource": lambda _: None,
    "deliverycount": lambda _: 0,
    "enqueuedsequencenumber": lambda subject: subject.sequence_number,
    "enqueuedtimeutc": lambda subject: _time(subject.arrived_at),
    "expiresatutc": _expires,
    "forcepersistence": lambda _: False,
    "label": lambda subject: subject.standard.subject,
    "lockeduntilutc": lambda _: None,
    "messageid": lambda subject: _text(subject.standard.message_id),
    "partitionkey": lambda subject: subject.message.partition_key,
    "replyto": lambda subject: subject.standard.reply_to,
    "replytosessionid": lambda subject: subject.standard.reply_to_group_id,
    "scheduledenqueuetimeutc": _scheduled,
    "sequencenumber": lambda subject: subject.sequence_number,
    "sessionid": lambda subject: subject.standard.group_id,
    "size": lambda subject: subject.message.size,
    "state": lambda _: 0,
    "timetolive": _time_to_live,
    "to": lambda subject: subject.standard.to,
    "viapartitionkey": lambda _: None,
}
