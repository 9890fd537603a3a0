"""Operators' actions: a page that says what will happen and asks, and the deed."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods

from dashboard.access.rights import Right, require
from dashboard.actions import control, several
from dashboard.actions.forms import EXPIRIES, MOST_SELECTED, ActionForm
from dashboard.actions.pacing import pace_syphon
from dashboard.backlog.views import cleanup
from dashboard.backlog.views.cleanup import QUEUE_ACTIONS
from dashboard.fleet.boards import last_heartbeat, status_of
from dashboard.fleet.paces import paces
from dashboard.fleet.status import Status, is_silent
from dashboard.models import AuditEntry, EntityHealth, Pair
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.site.pages import asked_again, page_or_part, wants_part


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
    asks_rate: bool = False
    is_severe: bool = False

    def told_of(self, name: str) -> str:
        """The preview, about what is named."""
        sentence = self.preview.format(it=name)
        return sentence[:1].upper() + sentence[1:] if self.preview.startswith("{it} ") and " " in name else sentence


ACTIONS = {
    "fail_over": Action(
        "Force failover",
        "Fail over",
        "Every process of the fleet stops sending to {it} in the primary namespace; the messages go to backlog queues "
        "of the secondary and come home after the release. Pings go on and are shown, but do not end the failover.",
        control.fail_over,
        asks_expiry=True,
        is_severe=True,
    ),
    "hold": Action(
        "Hold",
        "Hold",
        "{it} stays failed over, also when a ping is accepted, until somebody releases the hold or its time is over.",
        control.hold,
        asks_expiry=True,
    ),
    "release": Action(
        "Release",
        "Release",
        "The hold of {it} ends. A ping is sent at once, and an accepted one ends the failover; until then it goes on.",
        control.release,
    ),
    "mark_healthy": Action(
        "Mark healthy",
        "Mark healthy",
        "Hold and failover of {it} end together, without asking the primary: sends go there from now on. If the "
        "primary is still out of order, sends raise until the failover interval is over once more.",
        control.mark_healthy,
        is_severe=True,
    ),
    "pause_syphon": Action(
        "Pause syphon",
        "Pause",
        "Within two seconds no message of {it} is brought home any more. Nothing is lost: they wait in the backlog.",
        control.pause_syphon,
        about_queues=True,
    ),
    "resume_syphon": Action(
        "Resume syphon",
        "Resume",
        "Messages of {it} are brought home again, to every entity that is not failed over.",
        control.resume_syphon,
        about_queues=True,
        asks_reason=False,
    ),
    "pace_syphon": Action(
        "Pace syphon",
        "Set the pace",
        "From now on the syphons of the whole fleet together bring home at most so many messages of {it} a second. "
        "Empty: as fast as they can.",
        pace_syphon,
        about_queues=True,
        asks_rate=True,
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
    form = ActionForm(_with_default_path(request, what), needs_reason=what.is_severe and request.method == "POST")
    if not form.is_valid():
        if form.lacks_only_reason:
            return _ask(request, row, what, form, _targets(row, what, form), status=400)
        if request.method == "GET" and "path" in form.errors:
            return _choose_first(request, row)
        return _ask(request, row, what, form, [], status=400)
    targets = _targets(row, what, form)
    if request.method == "GET":
        return _ask(request, row, what, form, targets)
    if meanwhile := _meanwhile(request, row, form, targets):
        return _ask(request, row, what, form, targets, status=409, meanwhile=meanwhile)
    return _answer(request, row, _do(request, row, name, what, form, targets))


def _choose_first(request: HttpRequest, pair: Pair) -> HttpResponse:
    """Back to where one can choose, for whoever pressed a button of chosen entities and chose none."""
    messages.warning(request, f"Choose entities first: 1 to {MOST_SELECTED}, by the boxes beside their names.")
    return redirect(_next(request, pair))


def _with_default_path(request: HttpRequest, what: Action) -> QueryDict:
    given = (request.POST if request.method == "POST" else request.GET).copy()
    if what.about_queues:
        given.setdefault("path", WHOLE_PAIR)
    return given


def _targets(pair: Pair, what: Action, form: ActionForm) -> list[str]:
    path = form.path_given
    if not what.about_queues:
        targets = form.targets(pair)
    elif path == WHOLE_PAIR or pair.backlog_queues.filter(path=path).exists():
        targets = [path]
    else:
        targets = [path] if pair.entities.filter(path=path).exists() else []
    if not targets:
        raise Http404
    return targets


def _do(
    request: HttpRequest, pair: Pair, verb: str, what: Action, form: ActionForm, targets: list[str]
) -> control.Outcome:
    given, is_one = form.cleaned_data["request_id"], what.about_queues or form.path_given not in ("", WHOLE_PAIR)
    named = WHOLE_PAIR if form.path_given == WHOLE_PAIR else several.SEPARATOR.join(targets)
    wish = control.Request(
        user=request.user,
        pair=pair,
        target=targets[0] if is_one else named,
        reason=form.cleaned_data["reason"],
        request_id=uuid.uuid5(given, verb).hex if given else "",
    )
    more: dict[str, object] = {}
    if what.asks_expiry:
        more["expires"] = form.expires(timezone.now())
    if what.asks_rate:
        more["rate"] = form.cleaned_data["rate"]
    return what.deed(wish, **more) if is_one else several.VERBS[verb](wish, targets, **more)


def _meanwhile(request: HttpRequest, pair: Pair, form: ActionForm, targets: list[str]) -> AuditEntry | None:
    """What another operator did to these since the question was asked: the answer may be another one now."""
    seen = form.cleaned_data["seen"]
    if seen is None:
        return None
    newer = pair_deeds(pair).filter(pk__gt=seen, outcome="done").exclude(operator=request.user.get_username())
    touched = {*targets, WHOLE_PAIR}
    return next((deed for deed in newer if touched & set(deed.target.split(several.SEPARATOR))), None)


def pair_deeds(pair: Pair) -> QuerySet[AuditEntry]:
    """What operators did to a pair, the newest first."""
    return AuditEntry.objects.filter(pair=pair.name).order_by("-pk")


def _ask(
    request: HttpRequest,
    pair: Pair,
    what: Action,
    form: ActionForm,
    targets: list[str],
    status: int = 200,
    meanwhile: AuditEntry | None = None,
) -> HttpResponse:
    path = form.path_given
    entity = pair.entities.filter(path=path).first()
    last = pair_deeds(pair).values_list("pk", flat=True).first()
    context = {
        "pair": pair,
        "action": what,
        "form": form,
        "path": path,
        "paths": form.cleaned_data.get("path") or [],
        "named": (named := _named(pair, what, path, targets)),
        "preview": what.told_of(named),
        "targets": targets,
        "entity": entity,
        "status": _status(entity) if entity else None,
        "pace": paces(pair.name).get(path) if what.asks_rate else None,
        "is_dialog": wants_part(request),
        "expiries": EXPIRIES.items(),
        "request_id": uuid.uuid4(),
        "seen": last or 0,
        "meanwhile": meanwhile,
        "next": _next(request, pair),
    }
    return asked_again(request, page_or_part(request, "actions/confirm.html", context, part="dialog", status=status))


def _named(pair: Pair, what: Action, path: str, targets: list[str]) -> str:
    """What is acted on, in words."""
    if path and path != WHOLE_PAIR:
        return path
    if what.about_queues:
        return f"all of {pair.name}"
    return f"all {len(targets):,} entities of {pair.name}" if path else f"{len(targets):,} entities"


def _status(entity: EntityHealth) -> Status:
    now = timezone.now()
    return status_of(entity, now, is_silent(last_heartbeat(), now))


def _answer(request: HttpRequest, pair: Pair, outcome: control.Outcome) -> HttpResponse:
    sentence, done = outcome.sentence, outcome.outcome == "done"
    if wants_part(request):
        answer = render(request, "actions/confirm.html#result", {"sentence": sentence, "changed": done})
        answer["HX-Trigger"] = "refresh"
        return answer
    messages.success(request, sentence)
    return redirect(_next(request, pair))


def _next(request: HttpRequest, pair: Pair) -> str:
    """The page the person came from, if it is ours."""
    wanted = request.POST.get("next") or request.GET.get("next") or request.headers.get("Referer", "")
    ours = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return wanted if ours and "/actions/" not in wanted else pair.get_absolute_url()
