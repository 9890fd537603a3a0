"""Injects and ends faults of the demo's primary namespace."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_POST

from dashboard.access.audited import ActionError, note, refusals_recorded
from dashboard.access.rights import Right, require
from dashboard.demo.faults import EFFECTS, EVERYTHING, EmulatorError
from dashboard.demo.panel import is_demo, primary_of
from dashboard.models import Pair
from dashboard.site.pages import done_page
from dashboard.site.redis import announce_change


@require_POST
def break_or_mend(request: HttpRequest, pair: str, verb: str) -> HttpResponse:
    """`break` with a path (`*`: the whole primary) and how (rejects, silent, resets); `mend` with a path."""
    row = get_object_or_404(Pair, name=pair)
    with refusals_recorded(request.user, f"demo_{verb}"[:40], row.name, "*"):
        require(request.user, Right.OPERATE)
    path, how = request.POST.get("path", EVERYTHING), request.POST.get("how", "rejects")
    is_known = path == EVERYTHING or row.entities.filter(path=path).exists()
    if not is_demo(row) or verb not in ("break", "mend") or how not in EFFECTS or not is_known:
        raise Http404
    sentence = _perform(row, verb, path, how)
    note(request.user.get_username(), row.name, f"demo_{verb}", path, sentence)
    announce_change()
    back = row.get_absolute_url() if "/pairs/" in request.headers.get("Referer", "") else "overview"
    return done_page(request, sentence, changed=True, back=back)


def _perform(pair: Pair, verb: str, path: str, how: str) -> str:
    name = f"The whole primary {pair.primary_namespace}" if path == EVERYTHING else path
    try:
        primary = primary_of(pair)
        if verb == "break":
            primary.break_down(path, how)
            words = {"rejects": "rejects what is sent", "silent": "no longer answers", "resets": "resets connections"}
            return f"{name} {words[how]} now. Watch it fail over in {pair.failover_interval_s:g} s."
        primary.mend(path)
    except EmulatorError as error:
        raise ActionError(str(error)) from error
    return f"The fault of {name} is ended. The next accepted ping ends the failover."
