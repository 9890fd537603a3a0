"""Messages as they are delivered to receivers."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from amqp10.codec import encode
from emulator.broker.message import SCHEDULED_TIME, MessageState, StoredMessage, encoded_symbol

MAX_PAGE = 1024 * 1024
_I64 = struct.Struct(">q")
_U32 = struct.Struct(">I")

_SEQUENCE_NUMBER = encoded_symbol("x-opt-sequence-number") + b"\x81"
_ENQUEUED_TIME = encoded_symbol("x-opt-enqueued-time") + b"\x83"
_LOCKED_UNTIL = encoded_symbol("x-opt-locked-until") + b"\x83"
_ENQUEUE_SEQUENCE = encoded_symbol("x-opt-enqueue-sequence-number") + b"\x81"
_STATE = encoded_symbol("x-opt-message-state") + b"\x71"
_DEAD_LETTER_SOURCE = encoded_symbol("x-opt-deadletter-source")
_SCHEDULED = encoded_symbol(SCHEDULED_TIME) + b"\x83"
# The delivery annotations section up to the value of its only entry, a UUID of 16 bytes.
_TOKEN_KEY = encoded_symbol("x-opt-lock-token") + b"\x98"
_LOCK_TOKEN = b"\x00\x53\x71\xc1" + bytes((len(_TOKEN_KEY) + 17, 2)) + _TOKEN_KEY
_NO_LOCK_TOKEN = b"\x00\x53\x71\xc1\x01\x00"  # the service writes the section even if it is empty
_DURABLE = {None: b"\x40", True: b"\x41", False: b"\x42"}


def encode_delivery(stored: StoredMessage, locked_until: float | None = None) -> bytes:
    """The message as it is delivered: header, annotations, and the bare message unchanged.

    A locked one contains the lock token, which clients need without a delivery tag, and the end of the lock.
    """
    annotations = _encoded_annotations(stored, locked_until)
    if locked_until is None or stored.lock_token is None:
        return _encoded_header(stored) + _NO_LOCK_TOKEN + annotations + stored.message.bare
    token = stored.lock_token
    guid = token[3::-1] + token[5:3:-1] + token[7:5:-1] + token[8:]  # .NET writes the first three fields reversed
    return _encoded_header(stored) + _LOCK_TOKEN + guid + annotations + stored.message.bare


def _encoded_header(stored: StoredMessage) -> bytes:
    message, count = stored.message, stored.delivery_count
    durable = _DURABLE[message.durable]
    priority = b"\x40" if message.priority is None else bytes((0x50, message.priority & 255))
    ttl = b"\x40" if message.header_ttl_ms is None else b"\x70" + _U32.pack(message.header_ttl_ms)
    body = durable + priority + ttl + b"\x40" + (b"\x43" if count == 0 else b"\x70" + _U32.pack(count))
    return b"\x00\x53\x70\xc0" + bytes((len(body) + 1, 5)) + body


def _encoded_annotations(stored: StoredMessage, locked_until: float | None) -> bytes:
    message = stored.message
    parts = [_SEQUENCE_NUMBER, _I64.pack(stored.sequence_number), _ENQUEUED_TIME, _millis(stored.enqueued_at)]
    count = 2
    if locked_until is not None:
        parts += (_LOCKED_UNTIL, _millis(locked_until))
        count += 1
    if stored.state is not MessageState.ACTIVE:
        parts += (_STATE, int(stored.state).to_bytes(4, "big"))
        count += 1
    if stored.enqueue_sequence_number is not None:
        parts += (_ENQUEUE_SEQUENCE, _I64.pack(stored.enqueue_sequence_number))
        count += 1
    if stored.scheduled_at is not None:
        parts += (_SCHEDULED, _millis(stored.scheduled_at))
        count += 1
    if stored.dead_letter_source is not None:
        parts += (_DEAD_LETTER_SOURCE, encode(stored.dead_letter_source))
        count += 1
    parts.append(message.annotations)
    body = b"".join(parts)
    count = 2 * (count + message.annotation_count)
    if len(body) < 255 and count < 256:
        return b"\x00\x53\x72\xc1" + bytes((len(body) + 1, count)) + body
    return b"\x00\x53\x72\xd1" + _U32.pack(len(body) + 4) + _U32.pack(count) + body


def _millis(seconds: float) -> bytes:
    return _I64.pack(int(seconds * 1000))


def encode_page(found: Sequence[StoredMessage]) -> list[bytes]:
    """The first of these messages as one answer to a peek: at least one, then as many as MAX_PAGE bytes hold.

    An answer is one message in memory, for each client that is slow to read it. Clients peek on from the last number.
    """
    page: list[bytes] = []
    room = MAX_PAGE
    for stored in found:
        room -= stored.message.size
        if page and room < 0:
            break
        page.append(encode_delivery(stored))
    return page
