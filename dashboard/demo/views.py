"""Injects and ends faults of the demo's primary namespace."""

from collections.abc import Callable

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_POST

from dashboard.access.audited import ActionError, Outcome, Request, done
from dashboard.access.declaration import Action
from dashboard.access.rights import require
from dashboard.demo.faults import EFFECTS, EVERYTHING, EmulatorError
from dashboard.demo.panel import is_demo, primary_of
from dashboard.models import Pair
from dashboard.site.pages import done_page

WORDS = {"rejects": "rejects what is sent", "silent": "no longer answers", "resets": "resets connections"}
BREAK = Action(name="demo_break", label="Break", preview="The primary of the demo fails, for one entity or as a whole.")
MEND = Action(name="demo_mend", label="Mend", preview="The faults of the demo's primary end.")
ACTIONS = (BREAK, MEND)


@require_POST
def break_or_mend(request: HttpRequest, pair: str, verb: str) -> HttpResponse:
    """`break` with a path (`*`: the whole primary) and how (rejects, silent, resets); `mend` with a path."""
    row = get_object_or_404(Pair, name=pair)
    path, how = request.POST.get("path", EVERYTHING), request.POST.get("how", "rejects")
    is_known = path == EVERYTHING or row.entities.filter(path=path).exists()
    if not is_demo(row) or verb not in CHANGES or how not in EFFECTS or not is_known:
        require(request.user, BREAK.right)  # of what is to be done, the audited path decides and records it
        raise Http404
    outcome = CHANGES[verb](Request(request.user, row, path), how)
    back = row.get_absolute_url() if "/pairs/" in request.headers.get("Referer", "") else "overview"
    return done_page(request, outcome.sentence, changed=True, back=back)


@BREAK.audited
def _break(request: Request, how: str) -> Outcome:
    try:
        primary_of(request.pair).break_down(request.target, how)
    except EmulatorError as error:
        raise ActionError(str(error)) from error
    return done(f"{_named(request)} {WORDS[how]} now. Watch it fail over in {request.pair.failover_interval_s:g} s.")


@MEND.audited
def _mend(request: Request, how: str) -> Outcome:
    try:
        primary_of(request.pair).mend(request.target)
    except EmulatorError as error:
        raise ActionError(str(error)) from error
    return done(f"The fault of {_named(request)} is ended. The next accepted ping ends the failover.")


def _named(request: Request) -> str:
    return f"The whole primary {request.pair.primary_namespace}" if request.target == EVERYTHING else request.target


CHANGES: dict[str, Callable[[Request, str], Outcome]] = {"break": _break, "mend": _mend}
