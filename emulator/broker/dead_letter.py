"""Dead-lettering: the reasons, and how they are recorded in the dead-lettered copy."""

from __future__ import annotations

from dataclasses import replace

from amqp10.types import DecodeError
from emulator.broker.descriptions import QueueDescription
from emulator.broker.message import Message

DEAD_LETTER_SUFFIX = "/$DeadLetterQueue"
TRANSFER_SUFFIX = "/$Transfer/$DeadLetterQueue"

REASON = "DeadLetterReason"
DESCRIPTION = "DeadLetterErrorDescription"

EXPIRED = ("TTLExpiredException", "The message expired and was dead lettered.")


def too_many_deliveries(limit: int) -> tuple[str, str]:
    """Reason and description for a message that reached the maximum delivery count."""
    return (
        "MaxDeliveryCountExceeded",
        f"Message could not be consumed after {limit} delivery attempts.",
    )


def with_reason(message: Message, reason: str | None, description: str | None) -> Message:
    """The message with its dead-letter reason in the application properties; None is left out."""
    properties = {REASON: reason, DESCRIPTION: description}
    try:
        changed = message.with_application_properties(
            {key: value for key, value in properties.items() if value is not None}
        )
    except DecodeError:
        changed = message  # its application properties are not a map, so nothing can be added
    # Messages in a dead-letter queue do not expire.
    return replace(changed, ttl_s=None)


def sub_queue_description(of: QueueDescription, path: str) -> QueueDescription:
    """The description of a dead-letter queue: the lock duration of its parent, no sessions, no limits."""
    return QueueDescription(name=path, lock_duration_s=of.lock_duration_s, max_delivery_count=2**31 - 1)
