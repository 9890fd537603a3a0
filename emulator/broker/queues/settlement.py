"""How receivers settle messages, as a value that can be applied at once or when a transaction commits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from amqp10.types import DecodeError, Described
from emulator.broker.errors import ArgumentError
from emulator.broker.message import Message

MAX_MODIFIED = 64 * 1024


class Outcome(Enum):
    """What becomes of a settled message."""

    COMPLETED = auto()
    RELEASED = auto()
    ABANDONED = auto()
    DEFERRED = auto()
    DEAD_LETTERED = auto()


@dataclass(frozen=True, slots=True)
class Settlement:
    """An outcome, the application properties it sets, and for a dead letter its reason."""

    outcome: Outcome
    properties: Mapping[Any, Any] | None = None
    reason: str | None = None
    description: str | None = None


COMPLETE = Settlement(Outcome.COMPLETED)
RELEASE = Settlement(Outcome.RELEASED)


def modified(message: Message, properties: Mapping[Any, Any]) -> Message:
    """The message with the application properties that a receiver sets to settle it. Raises ArgumentError."""
    if any(isinstance(value, list | dict | Described) for value in properties.values()):
        raise ArgumentError("The value of a property to modify must be of a simple type.")
    try:
        changed = message.with_application_properties({str(key): value for key, value in properties.items()})
    except (DecodeError, TypeError, OverflowError) as error:
        raise ArgumentError(f"The properties of the message cannot be modified: {error}") from None
    if changed.size - message.size > MAX_MODIFIED:
        raise ArgumentError(f"The properties to modify are limited to {MAX_MODIFIED} bytes.")
    return changed
