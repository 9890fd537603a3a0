"""The paces of syphons that operators have set, from Redis."""

from collections.abc import Iterable

from dashboard.models.syphon import WHOLE_PAIR
from dashboard.site.redis import RedisError, shared_state
from pairing.fleet.shared_health import Pace


def paces(pair: str) -> dict[str, Pace]:
    """The paces of a pair by entity or queue; `*` is the whole pair. Empty if Redis does not answer."""
    return paces_of([pair]).get(pair, {})


def paces_of(pairs: Iterable[str]) -> dict[str, dict[str, Pace]]:
    """The paces of several pairs; after the first failed request, Redis is not asked again."""
    found: dict[str, dict[str, Pace]] = {}
    try:
        for pair in pairs:
            found[pair] = shared_state(pair).paces()
    except RedisError:
        pass
    return found


def limits(pair: str, path: str) -> list[tuple[str, Pace]]:
    """The paces that limit the drain to one entity: its own, and the whole pair's under `*`."""
    known = paces(pair)
    return [(target, known[target]) for target in (path, WHOLE_PAIR) if target in known]
