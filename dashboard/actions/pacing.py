"""How fast syphons may go: of a whole pair, of one backlog queue, or to one destination."""

from django.db import transaction
from django.utils import timezone

from dashboard.actions.control import Outcome, Request, perform
from dashboard.models import SyphonPace
from dashboard.models.syphon import WHOLE_PAIR
from pairing.fleet.coordination import SharedState


def pace_syphon(request: Request, *, rate: float | None) -> Outcome:
    """Let at most `rate` messages a second come home (None: as fast as it goes), by the whole fleet together."""

    def deed(shared: SharedState) -> Outcome:
        is_wanted_anew, known = _want(request, rate), shared.paces().get(request.target)
        if not is_wanted_anew and (known.rate if known else None) == rate:
            return Outcome("unchanged", f"The syphon of {_named(request)} has that pace already.")
        shared.pace_syphon(_target(request.target), rate, request.operator, request.reason)
        if rate is None:
            return Outcome("done", f"The syphon of {_named(request)} goes as fast as it can.")
        return Outcome("done", f"The syphon of {_named(request)} brings home at most {rate:g} messages a second.")

    return perform("pace_syphon", request, deed)


def _want(request: Request, rate: float | None) -> bool:
    """Write down what outlives Redis; whether it is news. Whoever writes paces back waits for the row's lock."""
    rows = SyphonPace.objects.filter(pair=request.pair, target=request.target)
    if rate is None:
        return bool(rows.delete()[0])
    if rows.filter(rate=rate).exists():
        return False
    told = {"rate": rate, "by": request.operator, "reason": request.reason, "at": timezone.now()}
    SyphonPace.objects.update_or_create(pair=request.pair, target=request.target, defaults=told)
    return True


def restore_paces(pair: str, shared: SharedState) -> int:
    """Write the paces that a Redis restarted empty no longer knows back to it; how many there were."""
    with transaction.atomic():
        wanted = list(SyphonPace.objects.select_for_update().filter(pair__name=pair))
        known = shared.paces() if wanted else {}
        lost = [pace for pace in wanted if pace.target not in known]
        for pace in lost:
            shared.pace_syphon(_target(pace.target), pace.rate, pace.by, pace.reason)
    return len(lost)


def _target(written: str) -> str | None:
    return None if written == WHOLE_PAIR else written


def _named(request: Request) -> str:
    return request.pair.name if request.target == WHOLE_PAIR else request.target
