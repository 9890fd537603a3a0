"""Reads the records that the processes of a fleet keep in Redis, which is ours: a record that cannot be read is a
ValueError with the name of its key or field.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from types import NoneType
from typing import Any, Self, TypeAlias, TypeVar, get_args, get_type_hints

T = TypeVar("T")
Reader: TypeAlias = Callable[[Mapping[str, Any], str], Any]


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turns every error of a reader inside into a ValueError."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"not {what}: {type(error).__name__}") from error


def record(text: str | bytes) -> dict[str, Any]:
    """The fields of a record; call it within ``reading``."""
    fields = json.loads(text)
    if not isinstance(fields, dict):
        raise ValueError(f"not a record: {type(fields).__name__}")
    return fields


def text(fields: Mapping[str, Any], name: str) -> str:
    """A text field."""
    value = fields[name]
    if not isinstance(value, str):
        raise ValueError(f"{name} is no text")
    return value


def text_or_none(fields: Mapping[str, Any], name: str) -> str | None:
    """A text field, if it exists."""
    return None if fields.get(name) is None else text(fields, name)


def texts(fields: Mapping[str, Any], name: str) -> list[str]:
    """A field that is a list of texts."""
    return [text({name: value}, name) for value in fields[name]]


def number(fields: Mapping[str, Any], name: str) -> float:
    """A field that is a number."""
    return float(fields[name])


def whole(fields: Mapping[str, Any], name: str) -> int:
    """A field that is a whole number; Redis's own scripts write large ones as 1e+15."""
    value = int(fields[name])
    if value != fields[name]:
        raise ValueError(f"{name} is no whole number")
    return value


def moment(fields: Mapping[str, Any], name: str) -> datetime:
    """A field that is an aware time."""
    when = datetime.fromisoformat(text(fields, name))
    if when.tzinfo is None:
        raise ValueError(f"{name} has no time zone")
    return when


class Stored:
    """A record that is stored as JSON: a dataclass with slots for texts, numbers, times and truth values."""

    __slots__ = ()

    def to_json(self) -> str:
        """The record as one line of JSON; times have one format, so that they sort like their texts."""
        class_: type = type(self)
        return written({name: getattr(self, name) for name in _readers(class_)})

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Parse the output of ``to_json``; ValueError for other texts."""
        with reading(cls.__name__):
            return cls(**typed(cls, record(text)))


def written(fields: Mapping[str, Any]) -> str:
    """These fields as one line of JSON."""
    return json.dumps(fields, default=lambda when: when.astimezone(UTC).isoformat(timespec="microseconds"))


def typed(class_: type, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that the class annotates, each of its type; call it within ``reading``."""
    return {name: read(fields, name) for name, read in _readers(class_).items()}


@cache
def _readers(class_: Any) -> dict[str, Reader]:
    return {name: _reader(get_args(hint) or (hint,)) for name, hint in get_type_hints(class_).items()}


def _reader(types: tuple[Any, ...]) -> Reader:
    read: Reader = _READERS.get(types[0], text)
    return (lambda fields, name: read(fields, name) if fields.get(name) else None) if NoneType in types else read


_READERS: dict[Any, Reader] = {int: whole, float: number, bool: lambda fields, name: fields[name], datetime: moment}


def hash_of(client: Any, key: str) -> dict[str, str]:
    """The fields of a hash as text, through any blocking client of redis-py."""
    raw = client.execute_command("HGETALL", key, NEVER_DECODE=True)
    return {as_text(field): as_text(value) for field, value in raw.items()}


def fields_of(client: Any, key: str, fields: list[str]) -> dict[str, str]:
    """These fields of a hash, if they exist, as from ``hash_of``."""
    raw = client.execute_command("HMGET", key, *fields, NEVER_DECODE=True) if fields else []
    return {field: as_text(value) for field, value in zip(fields, raw, strict=True) if value is not None}


def as_text(value: str | bytes) -> str:
    """A response of Redis as text, whatever the client's decoding."""
    return value if isinstance(value, str) else value.decode()


def readable(key: str, hash_: Mapping[str, str], read: Callable[[str], T]) -> dict[str, T]:
    """The fields of the hash ``key``; ValueError names a field that cannot be read."""
    found = {}
    for field, written in hash_.items():
        try:
            found[field] = read(written)
        except ValueError as error:
            raise ValueError(f"{field} of {key} in Redis cannot be read: {error}") from error
    return found
