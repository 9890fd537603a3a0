"""What happens to a message that is given up: why, and how the copy in the dead-letter queue says so."""

from __future__ import annotations

from dataclasses import replace

from emulator.broker.descriptions import QueueDescription
from emulator.broker.message import Message
from emulator.encoding.types import DecodeError

DEAD_LETTER_SUFFIX = "/$DeadLetterQueue"
TRANSFER_SUFFIX = "/$Transfer/$DeadLetterQueue"

REASON = "DeadLetterReason"
DESCRIPTION = "DeadLetterErrorDescription"

EXPIRED = ("TTLExpiredException", "The message expired and was dead lettered.")


def too_many_deliveries(limit: int) -> tuple[str, str]:
    """Reason and description for a message that was delivered as often as its entity allows."""
    return (
        "MaxDeliveryCountExceeded",
        f"Message could not be consumed after {limit} delivery attempts.",
    )


def with_reason(message: Message, reason: str | None, description: str | None) -> Message:
    """The message with its dead-letter reason in the application properties; what is None stays away."""
    said = {REASON: reason, DESCRIPTION: description}
    try:
        changed = message.with_application_properties({key: value for key, value in said.items() if value is not None})
    except DecodeError:
        changed = message  # its application properties are no map: nothing can be added to them
    # A dead-letter queue keeps its messages until somebody looks: their time to live has ended or no longer counts.
    return replace(changed, ttl_s=None)


def sub_queue_description(of: QueueDescription, path: str) -> QueueDescription:
    """How a dead-letter queue behaves: its parent's lock duration, no sessions, no end to deliveries or to time."""
    return QueueDescription(name=path, lock_duration_s=of.lock_duration_s, max_delivery_count=2**31 - 1)
