"""Actions on one backlog queue: a page that proves what is in it, asks, and the deed."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from dashboard.access.rights import Right, may, require
from dashboard.actions.control import ControlError, Outcome, Request
from dashboard.backlog import cleanup, orphans
from dashboard.backlog.deletions import undo_window
from dashboard.backlog.forms import QueueActionForm
from dashboard.backlog.orphans import REPAIRABLE, Proof, Use
from dashboard.fleet.namespaces import NamespaceError, namespace
from dashboard.models import BacklogQueue, Pair, QueueDeletion
from dashboard.site.pages import asked_again, page_or_part, wants_part
from dashboard.site.redis import RedisError


@dataclass(frozen=True, slots=True)
class QueueAction:
    """One verb as people meet it; `proves`: what the namespace says now is shown before one decides."""

    title: str
    button: str
    preview: str
    deed: Callable[..., Outcome]
    proves: bool = True
    asks_reason: bool = True
    is_severe: bool = False


QUEUE_ACTIONS = {
    "quarantine_queue": QueueAction(
        "Quarantine",
        "Quarantine",
        "Nobody can send to it any more; a process that still tries takes it out of its rotation and uses another. "
        "What it holds stays, and can be received and drained.",
        cleanup.quarantine_queue,
    ),
    "reopen_queue": QueueAction(
        "End the quarantine", "End quarantine", "It takes messages again.", cleanup.reopen_queue, asks_reason=False
    ),
    "drain_queue": QueueAction(
        "Drain home",
        "Drain home",
        "A worker brings its messages home, each to the entity it was meant for, and never loses one. Entities that "
        "are failed over are waited for. Dead letters stay: they are resubmitted or discarded by hand.",
        cleanup.drain_queue,
    ),
    "stop_drain": QueueAction(
        "Stop the drain",
        "Stop",
        "Within seconds no message is brought home any more; what is left stays in the queue.",
        cleanup.stop_drain,
        proves=False,
        asks_reason=False,
    ),
    "delete_queue": QueueAction("Delete", "Quarantine and delete", "", cleanup.delete_queue, is_severe=True),
    "take_back": QueueAction(
        "Take the deletion back",
        "Take back",
        "The queue is not deleted; its quarantine ends.",
        cleanup.take_back,
        proves=False,
        asks_reason=False,
    ),
    "repair_queue": QueueAction(
        "Repair",
        "Repair",
        "It gets the properties that every backlog queue has. Its messages are not touched.",
        cleanup.repair_queue,
    ),
}


def action(request: HttpRequest, pair: str, verb: str) -> HttpResponse:
    """GET asks, POST does. The path of the queue is in the query or the body."""
    what = QUEUE_ACTIONS[verb]
    require(request.user, Right.OPERATE)
    row = get_object_or_404(Pair, name=pair)
    is_sent = request.method == "POST"
    form = QueueActionForm(request.POST if is_sent else request.GET, needs_reason=what.is_severe and is_sent)
    if not (form.is_valid() or form.lacks_only_reason) or not known(row, form.cleaned_data["path"]):
        raise Http404
    if form.errors:
        return asked_again(request, _ask(request, row, what, form, status=400))
    if request.method == "GET":
        return _ask(request, row, what, form)
    try:
        outcome = _do(request, row, what, form)
    except ControlError as error:
        if wants_part(request):
            raise
        messages.error(request, str(error))
        return redirect(_next(request))
    return _answer(request, outcome)


def known(pair: Pair, path: str) -> bool:
    """Whether the sampler or an operator has seen such a queue; a link to another one is not followed."""
    seen = BacklogQueue.objects.filter(pair=pair, path=path).exists()
    return seen or QueueDeletion.open_ones().filter(pair=pair, path=path).exists()


def _do(request: HttpRequest, pair: Pair, what: QueueAction, form: QueueActionForm) -> Outcome:
    given = form.cleaned_data
    wish = Request(
        user=request.user,
        pair=pair,
        target=given["path"],
        reason=given["reason"],
        request_id=given["request_id"].hex if given["request_id"] else "",
    )
    if what.deed is cleanup.delete_queue:
        return what.deed(wish, typed=given["typed"], confirmed=given["confirmed"])
    return what.deed(wish)


def _ask(
    request: HttpRequest, pair: Pair, what: QueueAction, form: QueueActionForm, *, status: int = 200
) -> HttpResponse:
    path = form.cleaned_data["path"]
    proof, use, trouble = looked(pair, path) if what.proves else (None, Use(), "")
    is_deletion = what.deed is cleanup.delete_queue
    context = {
        "pair": pair,
        "path": path,
        "form": form,
        "action": what,
        "proof": proof,
        "use": use,
        "trouble": trouble,
        "is_deletion": is_deletion,
        "is_repair": what.deed is cleanup.repair_queue,
        "hindrance": trouble or hindrance(what, proof, use, may(request.user, Right.ADMINISTER)),
        "deviations": _compared(proof),
        "confirmed": cleanup.summary(proof) if proof else "",
        "window": undo_window(),
        "is_dialog": wants_part(request),
        "request_id": uuid.uuid4(),
        "next": _next(request),
    }
    return page_or_part(request, "backlog/queue.html", context, part="dialog", status=status)


def looked(pair: Pair, path: str) -> tuple[Proof | None, Use, str]:
    """What the namespace and the fleet say of a queue now, and why nothing can be said if so."""
    try:
        with namespace(pair.name) as here:
            proof = orphans.look(here, path)
        if proof is None:
            return None, Use(), cleanup.GONE
        orphans.remember(pair, proof)
        return proof, orphans.use_of(pair, path), ""
    except NamespaceError as error:
        return None, Use(), str(error)
    except RedisError:
        return None, Use(), "Redis does not answer, so nobody knows who uses the queue. Try again when it is back."


def hindrance(what: QueueAction, proof: Proof | None, use: Use, is_administrator: bool) -> str:
    """Why it cannot be done now; empty where it can."""
    if proof is None or what.deed in (cleanup.repair_queue, cleanup.reopen_queue):
        return ""
    if use.belongs:
        return f"{use.belongs} So it is no orphan."
    if what.deed is cleanup.drain_queue and not proof.to_bring_home:
        return "It holds nothing that could be brought home."
    if what.deed is cleanup.delete_queue:
        if use.served:
            return f"{use.served} Wait for it, or stop the drain."
        if not proof.is_empty and not is_administrator:
            return "It holds messages. Drain them home first, or ask an administrator to delete it with them."
    return ""


def _compared(proof: Proof | None) -> list[tuple[str, object, object, bool]]:
    """Property, expected, actual, and whether an update can change it."""
    if proof is None:
        return []
    return [(name, want, is_, name in REPAIRABLE) for name, (want, is_) in proof.deviations.items()]


def _answer(request: HttpRequest, outcome: Outcome) -> HttpResponse:
    if wants_part(request):
        context = {"sentence": outcome.sentence, "changed": outcome.outcome == "done"}
        answer = render(request, "actions/confirm.html#result", context)
        answer["HX-Trigger"] = "refresh"
        return answer
    messages.success(request, outcome.sentence)
    return redirect(_next(request))


def _next(request: HttpRequest) -> str:
    """The page the person came from, if it is ours."""
    wanted = request.POST.get("next") or request.GET.get("next") or request.headers.get("Referer", "")
    ours = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return wanted if ours and "/actions/" not in wanted else reverse("backlog")
