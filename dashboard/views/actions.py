"""Operators' actions: a page that says what will happen and asks, and the deed."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods

from dashboard import control
from dashboard.access import Right, require
from dashboard.boards import last_heartbeat, status_of
from dashboard.forms import EXPIRIES, ActionForm
from dashboard.models import EntityHealth, Pair
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.status import Status, is_silent
from dashboard.views import cleanup
from dashboard.views.answers import page_or_part, wants_part
from dashboard.views.cleanup import QUEUE_ACTIONS


@dataclass(frozen=True, slots=True)
class Action:
    """One verb as people meet it: what it is called, what it will do, and what it asks for."""

    title: str
    button: str
    preview: str
    deed: Callable[..., control.Outcome]
    about_queues: bool = False
    asks_reason: bool = True
    asks_expiry: bool = False
    is_severe: bool = False


ACTIONS = {
    "fail_over": Action(
        "Force failover",
        "Fail over",
        "Every process of the fleet stops sending to it in the primary namespace; its messages go to backlog queues of "
        "the secondary and come home after the release. Pings go on and are shown, but do not bring it back.",
        control.fail_over,
        asks_expiry=True,
        is_severe=True,
    ),
    "hold": Action(
        "Hold",
        "Hold",
        "It stays failed over until somebody releases it, also when a ping is accepted.",
        control.hold,
    ),
    "release": Action(
        "Release",
        "Release",
        "The hold ends. It is pinged at once, and an accepted ping makes it healthy; until then it stays failed over.",
        control.release,
    ),
    "mark_healthy": Action(
        "Mark healthy",
        "Mark healthy",
        "Hold and failover end together, without asking the primary: sends go there from now on. If it is still out of "
        "order, sends raise until the failover interval is over once more.",
        control.mark_healthy,
        is_severe=True,
    ),
    "pause_syphon": Action(
        "Pause syphon",
        "Pause",
        "Within two seconds no message is brought home any more. Nothing is lost: messages wait in the backlog.",
        control.pause_syphon,
        about_queues=True,
    ),
    "resume_syphon": Action(
        "Resume syphon",
        "Resume",
        "Messages are brought home again, to every entity that is not failed over.",
        control.resume_syphon,
        about_queues=True,
        asks_reason=False,
    ),
}


@require_http_methods(["GET", "POST"])
def action(request: HttpRequest, pair: str, verb: str) -> HttpResponse:
    """GET asks, POST does. The path of the entity or queue is in the query or the body; `*` is the whole pair."""
    name = verb.replace("-", "_")
    if name in QUEUE_ACTIONS:
        return cleanup.action(request, pair, name)
    what = ACTIONS.get(name)
    if what is None:
        raise Http404
    require(request.user, Right.OPERATE)
    row = get_object_or_404(Pair, name=pair)
    form = ActionForm(_with_default_path(request, what))
    if not form.is_valid():
        return _ask(request, row, what, form, [], status=400)
    targets = _targets(row, what, form)
    if request.method == "GET":
        return _ask(request, row, what, form, targets)
    return _answer(request, row, [_do(request, row, what, form, target) for target in targets])


def _with_default_path(request: HttpRequest, what: Action) -> dict[str, str]:
    given = (request.POST if request.method == "POST" else request.GET).dict()
    return {"path": WHOLE_PAIR, **given} if what.about_queues else given


def _targets(pair: Pair, what: Action, form: ActionForm) -> list[str]:
    if what.about_queues:
        path = form.cleaned_data["path"]
        found = path == WHOLE_PAIR or pair.backlog_queues.filter(path=path).exists()
        targets = [path] if found else []
    else:
        targets = form.targets(pair)
    if not targets:
        raise Http404
    return targets


def _do(request: HttpRequest, pair: Pair, what: Action, form: ActionForm, target: str) -> control.Outcome:
    given = form.cleaned_data["request_id"]
    wish = control.Request(
        user=request.user,
        pair=pair,
        target=target,
        reason=form.cleaned_data["reason"],
        request_id=uuid.uuid5(given, target).hex if given else "",
    )
    if what.asks_expiry:
        return what.deed(wish, expires=form.expires(timezone.now()))
    return what.deed(wish)


def _ask(
    request: HttpRequest, pair: Pair, what: Action, form: ActionForm, targets: list[str], status: int = 200
) -> HttpResponse:
    path = form.cleaned_data.get("path", "")
    entity = pair.entities.filter(path=path).first()
    context = {
        "pair": pair,
        "action": what,
        "form": form,
        "path": path,
        "is_whole_pair": path == WHOLE_PAIR,
        "targets": targets,
        "entity": entity,
        "status": _status(entity) if entity else None,
        "is_dialog": wants_part(request),
        "expiries": EXPIRIES.items(),
        "request_id": uuid.uuid4(),
        "next": _next(request, pair),
    }
    return page_or_part(request, "actions/confirm.html", context, part="dialog", status=status)


def _status(entity: EntityHealth) -> Status:
    now = timezone.now()
    return status_of(entity, now, is_silent(last_heartbeat(), now))


def _answer(request: HttpRequest, pair: Pair, outcomes: list[control.Outcome]) -> HttpResponse:
    done = [outcome for outcome in outcomes if outcome.outcome == "done"]
    shown = (done or outcomes)[0].sentence
    sentence = shown if len(outcomes) == 1 else f"{len(done)} of {len(outcomes)} changed. {shown}"
    if wants_part(request):
        answer = render(request, "actions/confirm.html#result", {"sentence": sentence, "changed": bool(done)})
        answer["HX-Trigger"] = "refresh"
        return answer
    messages.success(request, sentence)
    return redirect(_next(request, pair))


def _next(request: HttpRequest, pair: Pair) -> str:
    """The page the person came from, if it is ours."""
    wanted = request.POST.get("next") or request.GET.get("next") or request.headers.get("Referer", "")
    ours = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return wanted if ours and "/actions/" not in wanted else pair.get_absolute_url()
