"""The page of an action on one backlog queue: GET shows the proof and a preview, POST executes the action."""

import uuid

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from dashboard.access.audited import ActionError, Outcome, Request
from dashboard.access.rights import Right, may, require
from dashboard.backlog import cleanup
from dashboard.backlog.actions import DELETE_QUEUE, QUEUE_ACTIONS, REPAIR_QUEUE, QueueAction
from dashboard.backlog.cleanup import Look
from dashboard.backlog.deletions import undo_window
from dashboard.backlog.forms import QueueActionForm
from dashboard.backlog.orphans import REPAIRABLE, Proof
from dashboard.models import Pair
from dashboard.site.pages import asked_again, came_from, done_page, page_or_part, wants_part

ADDRESSED = {"path", "confirmed", "request_id"}
"""Fields that nobody types: with a wrong one, the address is of no queue."""
BY_NAME = {action.name: action for action in QUEUE_ACTIONS}


@require_http_methods(["GET", "POST"])
def action(request: HttpRequest, pair: str, verb: str) -> HttpResponse:
    """GET shows the preview, POST executes. The path of the queue is in the query or the body."""
    what = BY_NAME[verb.replace("-", "_")]
    row = get_object_or_404(Pair, name=pair)
    is_sent = request.method == "POST"
    form = QueueActionForm(request.POST if is_sent else request.GET, needs_reason=what.is_severe and is_sent)
    form.is_valid()
    if form.errors.keys() & ADDRESSED or not cleanup.known(row, form.cleaned_data["path"]):
        raise Http404
    if form.errors or not is_sent:
        require(request.user, what.right)  # of what is to be done, the audited path decides and records it
    if form.errors:
        return asked_again(request, _ask(request, row, what, form, status=400))
    if not is_sent:
        return _ask(request, row, what, form)
    try:
        outcome = _do(request, row, what, form)
    except ActionError as error:
        return asked_again(request, _ask(request, row, what, form, status=503, refused=str(error)))
    return done_page(request, outcome.sentence, changed=outcome.outcome == "done", back=_back(request))


def _do(request: HttpRequest, pair: Pair, what: QueueAction, form: QueueActionForm) -> Outcome:
    given = form.cleaned_data
    wanted = Request.sent(request.user, pair, given["path"], given)
    return what.run(wanted, typed=given["typed"], confirmed=given["confirmed"])


def _ask(
    request: HttpRequest,
    pair: Pair,
    what: QueueAction,
    form: QueueActionForm,
    *,
    status: int = 200,
    refused: str = "",
) -> HttpResponse:
    path = form.cleaned_data["path"]
    look = cleanup.read_and_remember(pair, path) if what.proves else Look(pair, path)
    is_administrator = may(request.user, Right.ADMINISTER)
    context = {
        "pair": pair,
        "path": path,
        "form": form,
        "refused": refused,
        "action": what,
        "proof": look.proof,
        "use": look.use,
        "trouble": look.trouble,
        "is_deletion": what is DELETE_QUEUE,
        "is_repair": what is REPAIR_QUEUE,
        "hindrance": what.hindrance(look, is_administrator=is_administrator) if what.proves else "",
        "deviations": _compared(look.proof),
        "confirmed": look.confirmation,
        "window": undo_window(),
        "is_dialog": wants_part(request),
        "request_id": uuid.uuid4(),
        "next": _back(request),
    }
    return page_or_part(request, "backlog/queue.html", context, part="dialog", status=status)


def _compared(proof: Proof | None) -> list[tuple[str, object, object, bool]]:
    """Property, expected value, actual value, and whether an update can change it."""
    if proof is None:
        return []
    return [(name, want, is_, name in REPAIRABLE) for name, (want, is_) in proof.deviations.items()]


def _back(request: HttpRequest) -> str:
    return came_from(request, reverse("backlog"))
