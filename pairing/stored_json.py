"""Reads values in Redis that may come from another version or from an unrelated program.

A record is read completely or not at all, with ValueError as the only error. An unreadable field of a hash does not
affect the others: it is skipped, and logged once per field.
"""

import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

T = TypeVar("T")
_LARGEST = 2**63
_MOST_LOGGED = 10_000
_logged: set[tuple[str, str]] = set()
_LOGGER = logging.getLogger("pairing")


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turns every error of a reader inside into a ValueError."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"not {what}: {type(error).__name__}") from error


def record(text: str | bytes) -> dict[str, Any]:
    """The fields of a record; call it within ``reading``."""
    fields = json.loads(text)
    if not isinstance(fields, dict):
        raise ValueError(f"not a record: {type(fields).__name__}")
    return fields


def text(fields: Mapping[str, Any], name: str) -> str:
    """A text field that can be written again."""
    value = fields[name]
    if not isinstance(value, str):
        raise ValueError(f"{name} is no text")
    if not value.isascii():
        value.encode()  # half a character is no text: UnicodeEncodeError is a ValueError
    return value


def text_or_none(fields: Mapping[str, Any], name: str) -> str | None:
    """A text field, if it exists."""
    return None if fields.get(name) is None else text(fields, name)


def texts(fields: Mapping[str, Any], name: str) -> list[str]:
    """A field that is a list of texts."""
    values = fields[name]
    if not isinstance(values, list):
        raise ValueError(f"{name} is no list")
    return [text({name: value}, name) for value in values]


def number(fields: Mapping[str, Any], name: str) -> float:
    """A field that is a finite number."""
    value = fields[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} is no number")
    return float(value)


def whole(fields: Mapping[str, Any], name: str) -> int:
    """A field that is a whole number of 64 bits."""
    value = fields[name]
    if isinstance(value, float) and value.is_integer():  # Redis's own scripts write large ones so
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -_LARGEST <= value < _LARGEST:
        raise ValueError(f"{name} is no whole number of 64 bits")
    return value


def moment(fields: Mapping[str, Any], name: str) -> datetime:
    """A field that is an aware time, and one that exists in any time zone."""
    when = datetime.fromisoformat(text(fields, name))
    if when.tzinfo is None or not 1 < when.year < 9999:
        raise ValueError(f"{name} is no time")
    return when


def moment_or_none(fields: Mapping[str, Any], name: str) -> datetime | None:
    """A field that is an aware time, where it is there and not empty."""
    return moment(fields, name) if fields.get(name) else None


def hash_of(client: Any, key: str) -> dict[str, str]:
    """The fields of a hash as text, through any blocking client of redis-py; invalid UTF-8 is replaced."""
    raw = client.execute_command("HGETALL", key, NEVER_DECODE=True)
    return {as_text(field): as_text(value) for field, value in raw.items()}


def fields_of(client: Any, key: str, fields: list[str]) -> dict[str, str]:
    """These fields of a hash, if they exist, as from ``hash_of``."""
    raw = client.execute_command("HMGET", key, *fields, NEVER_DECODE=True) if fields else []
    return {field: as_text(value) for field, value in zip(fields, raw, strict=True) if value is not None}


def as_text(value: str | bytes) -> str:
    """A response of Redis as text, whatever the client's decoding."""
    return value if isinstance(value, str) else value.decode(errors="replace")


def readable(key: str, hash_: Mapping[str, str], read: Callable[[str], T]) -> dict[str, T]:
    """The readable fields of the hash ``key``; unreadable ones are skipped, and logged once."""
    found = {}
    for field, written in hash_.items():
        try:
            found[field] = read(written)
        except ValueError as error:
            skipped(key, field, error)
    return found


def skipped(key: str, field: str, error: ValueError) -> None:
    """Log once per field that it cannot be read, without its content."""
    if (key, field) in _logged:
        return
    if len(_logged) >= _MOST_LOGGED:
        _logged.clear()
    _logged.add((key, field))
    _LOGGER.warning("pairing: %s of %s in Redis cannot be read (%s); it is skipped", field[:200], key, _kind(error))


def _kind(error: ValueError) -> str:
    """The kind of error, without the text itself, which ``str`` of some errors contains."""
    return type(error).__name__ if isinstance(error, json.JSONDecodeError | UnicodeError) else str(error)[:100]
