"""How the shared health of a pair reaches the database: by these two functions, and no other way.

Redis holds what is true. `take_over` writes what Redis has just published or answered, `catch_up` whatever of Redis the
database does not have yet. Collectors call both and then wake the open pages; an operator's action takes over what
Redis answered to it, so that the operator's next page shows it. Pages write nothing.
"""

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from dashboard.fleet import projection
from dashboard.fleet.reports import parsed
from dashboard.models import Pair
from dashboard.site.redis import shared_state
from pairing.fleet.shared_health import SharedHealth
from pairing.fleet.shared_state import Seen

READ_ALL_S = 60.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far this process has brought a pair's health into the database."""

    seen: Seen
    until: float
    """When everything is read again: a database can be restored from yesterday's copy."""


_progress: dict[str, Progress] = {}


def take_over(pair: str, healths: Iterable[SharedHealth]) -> bool:
    """Write down the health of entities as Redis published or answered it; whether any of it was new."""
    return bool(projection.apply_all_health(pair, healths))


def catch_up(pair: str, pinged: Collection[str] | None = None) -> bool:
    """Bring the database up to the shared health of a pair; whether anything was new. Raises RedisError.

    The last pings come with it: of all its entities, or of those in `pinged`. A pair nobody configured is passed over.
    """
    if not Pair.objects.filter(name=pair).exists():
        return False
    shared = shared_state(pair)
    progress = _progress.get(pair)
    news = shared.news(progress.seen if progress and time.monotonic() < progress.until else None)
    changed = take_over(pair, parsed(news.texts.items(), SharedHealth.from_json))
    changed |= bool(projection.record_pings(pair, shared.pings(pinged)))
    if progress is None or news.is_everything:
        _progress[pair] = Progress(news.seen, time.monotonic() + READ_ALL_S)
    else:
        _progress[pair] = replace(progress, seen=news.seen)
    return changed
