"""Copies the shared health of a pair to the database: everything that the database lacks.

Redis holds the current state. What it has just published, or returned to an operator's action, collectors and actions
store at once, so that the operator's next page shows it. Pages never write.
"""

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

import structlog

from dashboard.fleet.state import projection
from dashboard.models import Pair
from dashboard.site.redis import shared_state
from pairing.fleet.shared_health import SharedHealth
from pairing.fleet.shared_state import Seen

READ_ALL_S = 60.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far this process has copied a pair's health to the database."""

    seen: Seen
    until: float
    """When everything is read again, since the database can be restored from a backup."""


_progress: dict[str, Progress] = {}


def catch_up(pair: str, pinged: Collection[str] | None = None) -> bool:
    """Copy the shared health of a pair to the database. Returns whether anything was new. Raises RedisError.

    This includes the last pings, of all entities or of those in `pinged`. A pair that is not configured is skipped.
    """
    if not Pair.objects.filter(name=pair).exists():
        return False
    shared = shared_state(pair)
    progress = _progress.get(pair)
    news = shared.news(progress.seen if progress and time.monotonic() < progress.until else None)
    changed = bool(projection.apply_all_health(pair, parsed(news.texts.items(), SharedHealth.from_json)))
    changed |= bool(projection.record_pings(pair, shared.pings(pinged)))
    if progress is None or news.is_everything:
        _progress[pair] = Progress(news.seen, time.monotonic() + READ_ALL_S)
    else:
        _progress[pair] = replace(progress, seen=news.seen)
    return changed


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
