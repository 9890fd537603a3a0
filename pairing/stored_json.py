"""Reading what others have written into Redis: another version, or somebody who has no business there.

A record is read whole or not at all, with ValueError as its only error; of many in a hash, what makes no sense hides no
other: it is skipped, and the log says so once for each field.
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
    """Every error of a reader within becomes a ValueError: the text is no such thing."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"not {what}: {type(error).__name__}") from error


def record(text: str | bytes) -> dict[str, Any]:
    """The fields of a record; to be called within ``reading``."""
    fields = json.loads(text)
    if not isinstance(fields, dict):
        raise ValueError(f"not a record: {type(fields).__name__}")
    return fields


def text(fields: Mapping[str, Any], name: str) -> str:
    """A field that is text, and can be written down again."""
    value = fields[name]
    if not isinstance(value, str):
        raise ValueError(f"{name} is no text")
    if not value.isascii():
        value.encode()  # half a character is no text: UnicodeEncodeError is a ValueError
    return value


def text_or_none(fields: Mapping[str, Any], name: str) -> str | None:
    """A field that is text, where it is there."""
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
    """The fields of a hash as text, through any blocking client of redis-py; what is no text is disfigured."""
    raw = client.execute_command("HGETALL", key, NEVER_DECODE=True)
    return {as_text(field): as_text(value) for field, value in raw.items()}


def fields_of(client: Any, key: str, fields: list[str]) -> dict[str, str]:
    """These fields of a hash, those that are there, as ``hash_of`` gives them."""
    raw = client.execute_command("HMGET", key, *fields, NEVER_DECODE=True) if fields else []
    return {field: as_text(value) for field, value in zip(fields, raw, strict=True) if value is not None}


def as_text(value: str | bytes) -> str:
    """What Redis answered, whatever the client makes of it."""
    return value if isinstance(value, str) else value.decode(errors="replace")


def readable(key: str, hash_: Mapping[str, str], read: Callable[[str], T]) -> dict[str, T]:
    """What can be read of the fields of the hash ``key``; what cannot is skipped, and logged once."""
    found = {}
    for field, written in hash_.items():
        try:
            found[field] = read(written)
        except ValueError as error:
            skipped(key, field, error)
    return found


def skipped(key: str, field: str, error: ValueError) -> None:
    """Say in the log, once for each field, that it cannot be read; not what it holds."""
    if (key, field) in _logged:
        return
    if len(_logged) >= _MOST_LOGGED:
        _logged.clear()
    _logged.add((key, field))
    _LOGGER.warning("pairing: %s of %s in Redis cannot be read (%s); it is skipped", field[:200], key, _kind(error))


def _kind(error: ValueError) -> str:
    """What is wrong, without the text itself, which ``str`` of some errors repeats."""
    return type(error).__name__ if isinstance(error, json.JSONDecodeError | UnicodeError) else str(error)[:100]
