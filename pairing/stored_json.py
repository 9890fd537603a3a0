"""The JSON of what the processes of a fleet keep in Redis, which is ours: a record that cannot be read is a ValueError
that names it.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from types import NoneType
from typing import Any, Self, TypeVar, get_args, get_type_hints

T = TypeVar("T")
_READERS: dict[Any, Callable[[Any], Any]] = {int: int, float: float, datetime: datetime.fromisoformat}
"""What JSON does not tell; Redis's own scripts write large whole numbers as 1e+15."""


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turns every error of a reader inside into a ValueError that names ``what``."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"{what} cannot be read: {error!r}") from error


class Stored:
    """A record that is stored as JSON: a dataclass with slots for texts, numbers, times and truth values."""

    __slots__ = ()

    def to_json(self) -> str:
        """The record as one line of JSON; times have one format, so that they sort like their texts."""
        class_: type = type(self)
        return written({name: getattr(self, name) for name in _types(class_)})

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Parse the output of ``to_json``; ValueError for other texts."""
        with reading(cls.__name__):
            return cls(**typed(cls, json.loads(text)))


def written(fields: Mapping[str, Any]) -> str:
    """These fields as one line of JSON."""
    return json.dumps(fields, default=lambda when: when.astimezone(UTC).isoformat(timespec="microseconds"))


def typed(class_: type, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that the class annotates, each of its type; call it within ``reading``."""
    return {name: _typed(types, name, fields) for name, types in _types(class_).items()}


def _typed(types: tuple[Any, ...], name: str, fields: Mapping[str, Any]) -> Any:
    if NoneType in types and not fields.get(name):
        return None
    read = _READERS.get(types[0])
    return fields[name] if read is None else read(fields[name])


@cache
def _types(class_: Any) -> dict[str, tuple[Any, ...]]:
    return {name: get_args(hint) or (hint,) for name, hint in get_type_hints(class_).items()}


def hash_of(client: Any, key: str) -> dict[str, str]:
    """The fields of a hash, through a blocking client of redis-py that decodes responses."""
    found: dict[str, str] = client.hgetall(key)
    return found


def fields_of(client: Any, key: str, fields: list[str]) -> dict[str, str]:
    """These fields of a hash, if they exist."""
    found = client.hmget(key, fields) if fields else []
    return {field: value for field, value in zip(fields, found, strict=True) if value is not None}


def readable(key: str, hash_: Mapping[str, str], read: Callable[[str], T]) -> dict[str, T]:
    """The fields of the hash ``key``; ValueError names a field that cannot be read."""
    found = {}
    for field, text in hash_.items():
        with reading(f"{field} of {key} in Redis"):
            found[field] = read(text)
    return found
