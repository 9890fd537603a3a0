"""The properties a receiver sets when it abandons, defers or dead-letters a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from emulator.broker.errors import ArgumentError
from emulator.broker.message import Message
from emulator.encoding.types import DecodeError, Described

MAX_GROWTH = 64 * 1024


def with_modified_properties(message: Message, properties: Mapping[Any, Any]) -> Message:
    """The message with these application properties set, its others unchanged. Raises ArgumentError."""
    if any(isinstance(value, list | dict | Described) for value in properties.values()):
        raise ArgumentError("The value of a property to modify must be of a simple type.")
    try:
        modified = message.with_application_properties({str(key): value for key, value in properties.items()})
    except (DecodeError, TypeError, OverflowError) as error:
        raise ArgumentError(f"The properties of the message cannot be modified: {error}") from None
    if modified.size - message.size > MAX_GROWTH:
        raise ArgumentError(f"The properties to modify are limited to {MAX_GROWTH} bytes.")
    return modified
