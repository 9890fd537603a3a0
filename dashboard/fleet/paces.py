"""The limits that operators have set on the speed of syphons, as Redis knows them."""

from collections.abc import Iterable

from dashboard.models.syphon import WHOLE_PAIR
from dashboard.site.redis import RedisError, shared_state
from pairing.fleet.shared_health import Pace


def paces(pair: str) -> dict[str, Pace]:
    """The limits in force, by entity or queue; `*` is the whole pair's. Empty where Redis does not answer."""
    try:
        return shared_state(pair).paces()
    except RedisError:
        return {}


def paces_of(pairs: Iterable[str]) -> dict[str, dict[str, Pace]]:
    """The same of several pairs; where Redis does not answer it is asked once, and not for each."""
    found: dict[str, dict[str, Pace]] = {}
    try:
        for pair in pairs:
            found[pair] = shared_state(pair).paces()
    except RedisError:
        pass
    return found


def limits(pair: str, path: str) -> list[tuple[str, Pace]]:
    """What slows the drain to one entity: its own limit, and the whole pair's under `*`."""
    known = paces(pair)
    return [(target, known[target]) for target in (path, WHOLE_PAIR) if target in known]
