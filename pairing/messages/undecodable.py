"""Messages that the SDK cannot decode: it drops them, and the link may not receive anything afterwards.

The lock and, if possible, the sequence number of such a message are read from unpublished attributes of the SDK. If
those are missing, nothing is found, and the message waits until its lock expires (docs/wire.md, section 4).
"""

import contextlib
from dataclasses import dataclass
from typing import Any
from uuid import UUID

_ANNOTATIONS = 0x72
_SEQUENCE_NUMBER = b"x-opt-sequence-number"


@dataclass(frozen=True, slots=True)
class Undecoded:
    """The known data of a message that could not be decoded."""

    lock_token: UUID
    sequence_number: int
    """0 if unreadable."""


def undecoded(receiver: Any, received: list[Any], held: set[bytes]) -> list[Undecoded]:
    """The messages that the receiver received and did not return, because they cannot be decoded.

    ``held`` keeps, between the calls, the tags of messages that were returned and are not settled.
    """
    with contextlib.suppress(AttributeError, LookupError, TypeError, ValueError):
        handler = receiver._handler
        link = handler._link
        waiting = handler._received_messages
        taken = waiting.queue if hasattr(waiting, "queue") else waiting._queue
        held.update(message._delivery_tag for message in received)
        held &= link._received_delivery_tags
        lost = link._received_delivery_tags - held - {frame[2] for frame, _ in list(taken)}
        return [Undecoded(UUID(bytes_le=bytes(tag)), _number(link, tag)) for tag in lost]
    return []


def dead_lettering(found: Undecoded, reason: str, description: str) -> dict[str, Any]:
    """The arguments with which the SDK dead-letters a message by its lock."""
    details = {"deadletter-reason": reason, "deadletter-description": description}
    return {"settlement": "suspended", "lock_tokens": [found.lock_token], "dead_letter_details": details}


def _number(link: Any, tag: bytes) -> int:
    """The sequence number in the annotations, which precede the undecodable part, while the SDK keeps it."""
    with contextlib.suppress(Exception):
        from azure.servicebus._pyamqp._decode import _DECODE_BY_CONSTRUCTOR

        frame = link._first_frame
        buffer = memoryview(bytes(link._received_payload) or bytes(frame[11])) if frame[2] == tag else memoryview(b"")
        while buffer:
            section = buffer[2]
            buffer, value = _DECODE_BY_CONSTRUCTOR[buffer[3]](buffer[4:])
            if section == _ANNOTATIONS:
                return int(value[_SEQUENCE_NUMBER])
    return 0
