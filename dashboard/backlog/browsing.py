"""Browsing of backlog queues and their dead letters by peeking, by destination, session, age, size and text.

Message content is untrusted: it is decoded leniently, truncated, and shown as text only.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.amqp import AmqpMessageBodyType

from dashboard.fleet.pairs.namespaces import Namespace, NamespaceError
from pairing.messages.rewriting import PATH, RESERVED, SESSION_ID
from pairing.messages.sizes import received_size

SHOWN = 50
EPOCH = datetime.fromtimestamp(0, UTC)
MOST_SCANNED = 5_000
SCAN_S = 6.0
MOST_QUEUES = 32
MOST_WHOLE, MOST_BYTES = 1_000, 32 * 1024**2
_PEEKED, _PEEKED_WHOLE = 250, 100
_LONGEST_BODY, _LONGEST_VALUE, _MOST_PROPERTIES = 2_000, 200, 40
_AT_ONCE = 4
_MARKS = ("DeadLetterReason", "DeadLetterErrorDescription")  # shown separately


@dataclass(frozen=True, slots=True)
class Shown:
    """One message as a page shows it; all texts are truncated."""

    queue: str
    number: int
    message_id: str = ""
    entity: str = ""
    session: str = ""
    subject: str = ""
    enqueued_at: datetime | None = None
    size: int = 0
    reason: str = ""
    about: str = ""
    deliveries: int = 0
    body: str = ""
    is_cut: bool = False
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Wanted:
    """Filters of messages. Empty: all messages."""

    words: str = ""
    entity: str = ""
    session: str = ""
    older_than: datetime | None = None
    larger_than: int = 0

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Self:
        """The filters of a form or a query, by the names of its fields."""
        minutes = given.get("older_min")
        return cls(
            words=given.get("q") or "",
            entity=given.get("entity") or "",
            session=given.get("session") or "",
            older_than=datetime.now(UTC) - timedelta(minutes=minutes) if minutes else None,
            larger_than=(given.get("larger_kb") or 0) * 1024,
        )

    def fits(self, one: Shown) -> bool:
        """Whether a message matches. Pure."""
        said = (one.message_id, one.subject, one.reason, one.about, one.body, one.entity, *sum(one.properties, ()))
        return (
            (not self.words or any(self.words.lower() in text.lower() for text in said))
            and (not self.entity or one.entity.lower() == self.entity.lower())
            and (not self.session or one.session == self.session)
            and (self.older_than is None or (one.enqueued_at is not None and one.enqueued_at <= self.older_than))
            and one.size >= self.larger_than
        )


@dataclass(slots=True)
class Slice:
    """Matching messages, number of messages examined, and where to continue; None at the end."""

    messages: list[Shown] = field(default_factory=list)
    scanned: int = 0
    goes_on_at: int | None = None
    trouble: str = ""
    places: Mapping[str, int] = field(default_factory=dict)
    """Of several queues: where each one goes on, if one of them does."""
    left_out: int = 0
    """Of several queues: how many were not examined, because there are too many."""


@dataclass(slots=True)
class Whole:
    """Messages with their full bodies, and where to continue; None at the end."""

    messages: list[tuple[Shown, bytes]] = field(default_factory=list)
    goes_on_at: int | None = None


def scan(
    here: Namespace,
    queue: str,
    wanted: Wanted,
    *,
    dead: bool,
    after: int = 0,
    now: Callable[[], float] = time.monotonic,
) -> Slice:
    """The next matching messages of one queue from a sequence number, in bounded time. Raises NamespaceError."""
    found, number, until = Slice(), after, now() + SCAN_S
    while page := here.peek(queue, number, _PEEKED, dead=dead):
        for message in page:
            one = shown(queue, message)
            number = one.number + 1
            found.scanned += 1
            if wanted.fits(one):
                found.messages.append(one)
            if len(found.messages) >= SHOWN:
                break
        if len(found.messages) >= SHOWN or found.scanned >= MOST_SCANNED or now() >= until:
            found.goes_on_at = number
            break
    return found


def take(
    here: Namespace,
    queue: str,
    wanted: Wanted,
    *,
    dead: bool,
    after: int = 0,
    chosen: Sequence[int] = (),
) -> Whole:
    """The next matching messages of one queue, or the selected ones, bounded in number, bytes and time.

    Raises NamespaceError.
    """
    found, size, scanned, until = Whole(), 0, 0, time.monotonic() + SCAN_S
    number = _following(chosen, after)
    while number is not None and (page := here.peek(queue, number, _PEEKED_WHOLE, dead=dead)):
        for message in page:
            one = shown(queue, message)
            number, scanned = one.number + 1, scanned + 1
            if one.number in chosen if chosen else wanted.fits(one):
                found.messages.append((one, body_bytes(message)))
                size += len(found.messages[-1][1])
            is_full = len(found.messages) >= MOST_WHOLE or size >= MOST_BYTES
            if is_full:
                break
        number = _following(chosen, number)
        if is_full or scanned >= MOST_SCANNED or time.monotonic() >= until:
            found.goes_on_at = number
            break
    return found


def _following(chosen: Sequence[int], number: int) -> int | None:
    """The sequence number to continue at; there can be millions of numbers between two selected ones."""
    return min((one for one in chosen if one >= number), default=None) if chosen else number


def scan_all(
    here: Namespace, queues: Sequence[str], wanted: Wanted, *, dead: bool, places: Mapping[str, int] | None = None
) -> Slice:
    """The next matching messages of several queues, oldest first, and the errors of queues that cannot be peeked.

    `places`: the sequence number in each queue to go on at; a queue without one begins at its first message.
    """
    begun = places or {}

    def one(queue: str) -> Slice:
        try:
            return scan(here, queue, wanted, dead=dead, after=begun.get(queue, 0))
        except NamespaceError as error:
            return Slice(trouble=str(error))

    examined = queues[:MOST_QUEUES]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        slices = dict(zip(examined, pool.map(one, examined), strict=True))
    return merged(slices, begun, left_out=len(queues) - len(examined))


def merged(slices: Mapping[str, Slice], begun: Mapping[str, int], *, left_out: int = 0) -> Slice:
    """One slice of those of several queues: the oldest messages, and where each queue goes on. Pure."""
    messages = [message for part in slices.values() for message in part.messages]
    messages.sort(key=lambda message: (message.enqueued_at or EPOCH, message.number))
    chosen = {(message.queue, message.number) for message in messages[:SHOWN]}
    places, is_more = {}, False
    for queue, part in slices.items():
        rest = next((one.number for one in part.messages if (queue, one.number) not in chosen), part.goes_on_at)
        is_more = is_more or rest is not None
        last = part.messages[-1].number + 1 if part.messages else begun.get(queue, 0)
        places[queue] = last if rest is None else rest
    return Slice(
        messages[:SHOWN],
        sum(part.scanned for part in slices.values()),
        None,
        next((part.trouble for part in slices.values() if part.trouble), ""),
        places if is_more else {},
        left_out,
    )


def highest_number(here: Namespace, queue: str, *, dead: bool) -> int:
    """The highest current sequence number, -1 for an empty queue; found by bisection with some dozens of peeks."""

    def first_from(number: int) -> int | None:
        page = here.peek(queue, number, 1, dead=dead)
        return page[0].sequence_number if page else None

    known = first_from(0)
    if known is None:
        return -1
    step = 1
    while (further := first_from(known + step)) is not None:
        known, step = further, step * 2
    low, high = known, known + step  # low has a message; from high on there is none
    while high - low > 1:
        middle = (low + high) // 2
        further = first_from(middle)
        low, high = (further, high) if further is not None else (low, middle)
    return low


def shown(queue: str, message: ServiceBusReceivedMessage) -> Shown:
    """A message as text; unreadable parts are marked."""
    try:
        return _shown(queue, message)
    except Exception as error:  # one unreadable message must not hide the others
        return Shown(queue, message.sequence_number or 0, about=f"cannot be read: {type(error).__name__}")


def _shown(queue: str, message: ServiceBusReceivedMessage) -> Shown:
    raw = message.raw_amqp_message
    carried = {_text(key, 100): value for key, value in (message.application_properties or {}).items()}
    body = body_bytes(message)
    text = _text(body, _LONGEST_BODY)
    own = [(name, value) for name, value in carried.items() if name not in (*RESERVED, *_MARKS)]
    return Shown(
        queue=queue,
        number=message.sequence_number or 0,
        message_id=_text(message.message_id, _LONGEST_VALUE),
        entity=_text(carried.get(PATH), 300),
        session=_text(carried.get(SESSION_ID), _LONGEST_VALUE),
        subject=_text(message.subject, _LONGEST_VALUE),
        enqueued_at=message.enqueued_time_utc,
        size=received_size(message),
        reason=_text(message.dead_letter_reason, _LONGEST_VALUE),
        about=_text(message.dead_letter_error_description, 500),
        deliveries=message.delivery_count or (raw.header.delivery_count if raw.header else 0) or 0,
        body=text,
        is_cut=len(body) > len(text.encode()),
        properties=tuple((name, _text(value, _LONGEST_VALUE)) for name, value in own[:_MOST_PROPERTIES]),
    )


def body_bytes(message: ServiceBusReceivedMessage) -> bytes:
    """The body as bytes; for other than data sections, the text as UTF-8."""
    raw = message.raw_amqp_message
    if raw.body_type is AmqpMessageBodyType.DATA:
        return b"".join(raw.body)
    body: Any = raw.body if raw.body_type is AmqpMessageBodyType.VALUE else list(raw.body)
    return body if isinstance(body, bytes) else str(body).encode(errors="replace")


def _text(value: Any, most: int) -> str:
    """The text truncated to this length, without terminal control or bidirectional override characters."""
    if value is None:
        return ""
    text = value[: 4 * most].decode(errors="replace") if isinstance(value, bytes) else str(value)
    return "".join(
        char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in text[:most]
    )
