"""Parsing of reports of processes from Redis."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import structlog

log = structlog.get_logger(__name__)
Fact = TypeVar("Fact")


def parsed(entries: Iterable[tuple[str, str]], read: Callable[[str], Fact]) -> list[Fact]:
    """The parsed entries. Unreadable entries are logged and skipped, since retrying cannot help."""
    facts = []
    for identity, text in entries:
        try:
            facts.append(read(text))
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
            log.error("unreadable report dropped", entry=identity, problem=repr(error))
    return facts
