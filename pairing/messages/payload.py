"""The messages of one send call, prepared for either namespace; shared by blocking and asyncio senders."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from operator import attrgetter
from os import urandom
from typing import Any

from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType, AmqpMessageProperties
from azure.servicebus.exceptions import MessageSizeExceededError

from pairing.messages.rewriting import LONGEST_TTL_MS, PATH, SESSION_ID, as_message, check_reserved, to_backlog
from pairing.messages.sizes import EMPTY_BATCH, ENTRY, backlog_overhead, backlog_size, envelope_size, message_size
from pairing.telemetry.metering import STEP, billing_units

STANDARD_LIMIT = 262_144
"""The message size limit of the Standard tier, assumed until a link to the backlog reports the real limit."""
REWRITTEN_AT_ONCE = 50
"""Messages of a batch, which take some milliseconds."""
_AT_ONCE = 64
_DATA = AmqpMessageBodyType.DATA
_TEXT = frozenset({str, type(None)})
_NAMES = ("application_properties", "annotations", "footer", "delivery_annotations", "body_type")
_KEPT_AS = tuple(f"_{name}" for name in _NAMES)  # the public ones are properties, which cost half a microsecond
_sections = attrgetter(*(_KEPT_AS if set(_KEPT_AS) <= vars(AmqpAnnotatedMessage(data_body=b"")).keys() else _NAMES))
_PLAIN_SECTIONS: tuple[tuple[Any, ...], ...] = ((None, {}, None, None, _DATA), (None, None, None, None, _DATA))
_PLAIN = 104 + 13 * 5  # the sections, and the length of each of the 13 properties

_ONE = (ServiceBusMessage, AmqpAnnotatedMessage, Mapping)
OneMessage = ServiceBusMessage | AmqpAnnotatedMessage | Mapping[str, Any]
Messages = OneMessage | Iterable[OneMessage]


class PairedMessageBatch(ServiceBusMessageBatch):
    """A batch that keeps its messages, and stays within the limit of a backlog queue after rewriting."""

    def __init__(
        self,
        max_size_in_bytes: int,
        *,
        path: str,
        backlog_limit: Callable[[], int] | None,
        create: Callable[[ServiceBusMessage, str], None] | None = None,
    ) -> None:
        super().__init__(max_size_in_bytes=max_size_in_bytes)
        self._path = path
        self._backlog_limit = backlog_limit
        self._create = create  # called with each message before it is measured
        self._reserved = 0
        self.units = 0
        """Billing units of the messages so far."""
        self.messages: list[ServiceBusMessage] = []
        """The messages as they were added."""

    def add_message(self, message: OneMessage) -> None:
        """Add one message; MessageSizeExceededError if it does not fit, as it is or rewritten for the backlog."""
        ready = ready_message(message)
        if self._create is not None:
            self._create(ready, self._path)
        reserve = backlog_overhead(ready, self._path) if self._backlog_limit is not None else 0
        if not self.messages:
            reserve += envelope_size(ready)
        before, whole = self.size_in_bytes, self.max_size_in_bytes
        if self._backlog_limit is not None:  # the primary, a Premium one for example, may accept more
            self._max_size_in_bytes = min(whole, self._backlog_limit() - self._reserved - reserve)
        try:
            super().add_message(ready)
        finally:
            self._max_size_in_bytes = whole
        self._reserved += reserve
        self.units += billing_units(self.size_in_bytes - before)
        self.messages.append(ready)


class Payload:
    """One message, or several that are sent as a batch."""

    __slots__ = ("_copies", "_rewritten", "messages", "outgoing", "path", "size", "units")

    def __init__(self, messages: list[ServiceBusMessage], outgoing: Any, path: str) -> None:
        self.messages = messages
        self.outgoing = outgoing
        """The argument of the SDK's sender for the primary."""
        self.path = path
        self._rewritten: Any = None
        self._copies: list[ServiceBusMessage] = []
        self.size = 0
        self.units = 0

    def measure(self, backlog_limit: int, require_headroom: bool) -> None:
        """Determine size and billing units; MessageSizeExceededError if the backlog could not accept the message."""
        if isinstance(self.outgoing, PairedMessageBatch):
            self.size, self.units = self.outgoing.size_in_bytes, self.outgoing.units
            return
        total = units = 0
        for message in self.messages:
            size = small_bound(message) or message_size(message, backlog_limit)
            total += size
            units += 1 if size < STEP else billing_units(size)
        self.size, self.units = total, units
        if require_headroom and total * 2 > backlog_limit:
            self._check_headroom(backlog_limit)

    def _check_headroom(self, limit: int) -> None:
        needed = self.size + sum(backlog_overhead(message, self.path) for message in self.messages)
        if isinstance(self.outgoing, list):
            needed += EMPTY_BATCH + envelope_size(self.messages[0]) + ENTRY * len(self.messages)
            if needed > limit:  # a bound, which is far from the size of many small messages
                needed = backlog_size(self.messages, self.path)
        if needed > limit:
            # The sum of the sizes of a list's messages differs from the size of the transfer.
            is_list = isinstance(self.outgoing, list)
            what = "The messages take" if is_list else f"The message takes {self.size} bytes and"
            raise MessageSizeExceededError(
                message=f"{what} {needed} bytes in a backlog queue, which accepts {limit}; "
                "require_headroom=False sends them while the primary is healthy."
            )

    def rewritten(self) -> Any:
        """The argument of the SDK's sender for a backlog queue."""
        if self._rewritten is None:
            messages = self.messages
            if self.outgoing is messages[0]:
                self._rewritten = self._copy(messages[0])
            else:
                for _ in self.rewriting():
                    continue
                self._rewritten = self._copies
        return self._rewritten

    def rewriting(self) -> Iterator[None]:
        """Rewrite a list or a batch, some messages at a time; ``rewritten`` does what is left."""
        while self.outgoing is not self.messages[0] and len(self._copies) < len(self.messages):
            begin = len(self._copies)
            self._copies += [self._copy(message) for message in self.messages[begin : begin + REWRITTEN_AT_ONCE]]
            yield

    def _copy(self, message: ServiceBusMessage) -> ServiceBusMessage:
        return rewritten_plainly(message, self.path) or to_backlog(message, self.path)

    def parts(self) -> "list[tuple[str | None, Payload]]":
        """The messages of each session, in the order of their first messages.

        Messages without session, or with a scheduled time, have no order to keep: their session is None.
        """
        found: dict[str | None, list[ServiceBusMessage]] = {}
        for message in self.messages:
            session = message.session_id if message.scheduled_enqueue_time_utc is None else None
            found.setdefault(session, []).append(message)
        if len(found) == 1:
            return [(session, self) for session in found]
        return [(session, Payload(messages, messages, self.path)) for session, messages in found.items()]

    @property
    def session(self) -> str | None:
        """The session of the (first) message."""
        return self.messages[0].session_id


def small_bound(message: ServiceBusMessage) -> int | None:
    """An upper bound of the size of a small, plain message, within a microsecond; None for all others."""
    raw = message.raw_amqp_message
    properties = raw.properties  # evaluating its truth would cost a microsecond, because it counts fields
    if properties is None or _sections(raw) not in _PLAIN_SECTIONS:
        return None
    try:
        (data,) = getattr(raw, "_data_body", None) or raw.body  # the public one creates a generator each time
        text = "".join(filter(None, properties.__dict__.values()))
    except (TypeError, ValueError):  # an id that is no text, or several sections
        return None
    size = _PLAIN + len(data) + (len(text) if text.isascii() else 4 * len(text))
    return size if size < STEP else None


def plain_size(message: Any, backlog_limit: int) -> int:
    """The bound of a small, plain message, which gets an id; 0 for all others.

    Such a message can be sent as it is, is one billing unit, and fits the backlog.
    """
    if type(message) is not ServiceBusMessage:
        return 0
    properties = message.raw_amqp_message.properties
    if properties is not None and not properties.message_id:
        properties.message_id = new_id()
    size = small_bound(message)
    return 0 if size is None or size * 2 > backlog_limit else size


_ids: list[str] = []


def new_id() -> str:
    """A UUID4 as text; generated in hundreds, which takes a fifth of the time, and per process."""
    try:
        return _ids.pop()
    except IndexError:
        made = [_uuid4(digits) for digits in _in_sixteens(urandom(16 * _AT_ONCE))]
        _ids.extend(made[1:])
        return made[0]


def _in_sixteens(noise: bytes) -> list[str]:
    """The hexadecimal digits of each 16 bytes."""
    digits = noise.hex()
    return [digits[at : at + 32] for at in range(0, len(digits), 32)]


def _uuid4(digits: str) -> str:
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ids.clear)  # otherwise parent and child would use the same ids


def ready_message(message: OneMessage) -> ServiceBusMessage:
    """One message ready to be sent: with an id, and without reserved properties."""
    ready = message if type(message) is ServiceBusMessage else as_message(message)
    raw = ready.raw_amqp_message
    if raw.properties is None:
        ready.message_id = new_id()
    elif not raw.properties.message_id:
        raw.properties.message_id = new_id()
    if raw.application_properties:
        check_reserved(ready)
    ttl_ms = None if raw.header is None else raw.header.time_to_live
    if ttl_ms is not None and not 0 <= ttl_ms <= LONGEST_TTL_MS:
        raise ValueError(f"time_to_live must be from 0 to 49 days, not {ready.time_to_live}")
    return ready


def payload(messages: Messages | ServiceBusMessageBatch, path: str) -> Payload | None:
    """The payload of a call; None if there is nothing to send (an empty list or batch, which the SDK accepts, too)."""
    if isinstance(messages, _ONE):
        one = ready_message(messages)
        return Payload([one], one, path)
    if isinstance(messages, PairedMessageBatch):
        return Payload(messages.messages, messages, path) if messages.messages else None
    if isinstance(messages, ServiceBusMessageBatch):
        messages = _messages_of(messages)
    if isinstance(messages, str | bytes) or not isinstance(messages, Iterable):
        raise TypeError(
            f"cannot send a {type(messages).__name__}: not a message, a mapping, a list of these, or a batch"
        )
    ready = [ready_message(message) for message in messages]
    return Payload(ready, ready, path) if ready else None


def _messages_of(batch: ServiceBusMessageBatch) -> list[ServiceBusMessage]:
    kept = getattr(batch, "_messages", None)
    if not isinstance(kept, list) or len(kept) != len(batch):
        raise TypeError("the messages of this batch cannot be read: create it with the sender's create_message_batch")
    return kept


def rewritten_plainly(message: ServiceBusMessage, path: str) -> ServiceBusMessage | None:
    """``to_backlog`` for a message that has only data and text properties; None for all others."""
    raw, properties = message.raw_amqp_message, message.raw_amqp_message.properties
    header: Any = raw.header
    if raw.application_properties or raw.annotations or raw.footer or raw.body_type is not _DATA or properties is None:
        return None
    if header is not None and header.time_to_live is not None:
        return None
    if not _TEXT.issuperset(map(type, properties.__dict__.values())):
        return None
    carried: dict[str | bytes, Any] = {PATH: path}
    copied = AmqpMessageProperties.__new__(AmqpMessageProperties)
    copied.__dict__.update(properties.__dict__)
    if copied.group_id is not None:
        carried[SESSION_ID], copied.group_id = copied.group_id, None
    built = AmqpAnnotatedMessage.__new__(AmqpAnnotatedMessage)
    built.__dict__.update(raw.__dict__)
    built.properties, built.application_properties = copied, carried
    return ServiceBusMessage(None, message=None, raw_amqp_message=built)


def scheduled_payload(messages: Messages, when: datetime, path: str) -> Payload | None:
    """The payload of scheduled messages; the time is written into the messages, as the SDK does."""
    if not isinstance(when, datetime):
        raise TypeError(f"schedule_time_utc must be a datetime, not {type(when).__name__}")
    ready = payload(messages, path)
    for message in ready.messages if ready else ():
        message.scheduled_enqueue_time_utc = when
    return ready
