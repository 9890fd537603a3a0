"""How fast syphons may go: of a whole pair, of one backlog queue, or to one destination."""

from dashboard.control import Outcome, Request, perform
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.redis import RedisError, shared_state
from pairing.coordination import SharedState
from pairing.shared_health import Pace


def pace_syphon(request: Request, *, rate: float | None) -> Outcome:
    """Let at most `rate` messages a second come home (None: as fast as it goes), by the whole fleet together."""

    def deed(shared: SharedState) -> Outcome:
        known = shared.paces().get(request.target)
        if (known.rate if known else None) == rate:
            return Outcome("unchanged", f"The syphon of {_named(request)} has that pace already.")
        target = None if request.target == WHOLE_PAIR else request.target
        shared.pace_syphon(target, rate, request.operator, request.reason)
        if rate is None:
            return Outcome("done", f"The syphon of {_named(request)} goes as fast as it can.")
        return Outcome("done", f"The syphon of {_named(request)} brings home at most {rate:g} messages a second.")

    return perform("pace_syphon", request, deed)


def paces(pair: str) -> dict[str, Pace]:
    """The limits that stand, by entity or queue; `*` is the whole pair's. None where Redis is away: nobody can tell."""
    try:
        return shared_state(pair).paces()
    except RedisError:
        return {}


def limits(pair: str, path: str) -> list[tuple[str, Pace]]:
    """What slows the way home to one entity: its own limit, and the whole pair's under `*`."""
    known = paces(pair)
    return [(target, known[target]) for target in (path, WHOLE_PAIR) if target in known]


def _named(request: Request) -> str:
    return request.pair.name if request.target == WHOLE_PAIR else request.target
