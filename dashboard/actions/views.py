"""The page of an action on entities or a syphon: GET shows a preview, POST executes the action.

A refused action is asked for again, with what was typed and the reason of the refusal.
"""

import uuid

from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from dashboard.access.audited import ActionError, Outcome, Request
from dashboard.access.rights import may, require
from dashboard.actions import entities, syphons
from dashboard.actions.entities import SEPARATOR, EntityAction
from dashboard.actions.forms import EXPIRIES, MOST_SELECTED, ActionForm
from dashboard.actions.syphons import SyphonAction
from dashboard.fleet.boards import last_heartbeat, status_of
from dashboard.fleet.state.paces import paces
from dashboard.fleet.state.status import Status, is_silent
from dashboard.models import AuditEntry, EntityHealth, Pair
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.site.pages import asked_again, came_from, done_page, page_or_part, wants_part

Declared = EntityAction | SyphonAction
ACTIONS: dict[str, Declared] = {action.name: action for action in (*entities.ACTIONS, *syphons.ACTIONS)}


@require_http_methods(["GET", "POST"])
def action(request: HttpRequest, pair: str, verb: str) -> HttpResponse:
    """GET shows the preview, POST executes. Query or body name the entity or queue; `*` is the whole pair."""
    what = ACTIONS.get(verb.replace("-", "_"))
    if what is None:
        raise Http404
    row = get_object_or_404(Pair, name=pair)
    form = ActionForm(_with_default_path(request, what), needs_reason=what.is_severe and request.method == "POST")
    is_valid = form.is_valid()
    if request.method == "GET" or not is_valid:
        require(request.user, what.right)  # of what is to be done, the audited path decides and records it
    if not is_valid:
        if request.method == "GET" and "path" in form.errors:
            return _choose_first(request, row)
        targets = [] if "path" in form.errors else _targets(row, what, form)
        return _ask(request, row, what, form, targets, status=400)
    targets = _targets(row, what, form)
    if request.method == "GET":
        return _ask(request, row, what, form, targets)
    if may(request.user, what.right) and (meanwhile := _meanwhile(request, row, form, targets)):
        return _ask(request, row, what, form, targets, status=409, meanwhile=meanwhile)
    try:
        outcome = _do(request, row, what, form, targets)
    except ActionError as error:
        return _ask(request, row, what, form, targets, status=503, refused=str(error))
    return done_page(request, outcome.sentence, changed=outcome.outcome == "done", back=_back(request, row))


def _choose_first(request: HttpRequest, pair: Pair) -> HttpResponse:
    """Redirect back to the list of entities if none was selected."""
    messages.warning(request, f"Choose 1 to {MOST_SELECTED} entities first, with the checkboxes beside their names.")
    return redirect(_back(request, pair))


def _with_default_path(request: HttpRequest, what: Declared) -> QueryDict:
    given = (request.POST if request.method == "POST" else request.GET).copy()
    if isinstance(what, SyphonAction):
        given.setdefault("path", WHOLE_PAIR)
    return given


def _targets(pair: Pair, what: Declared, form: ActionForm) -> list[str]:
    path = form.path_given
    if not isinstance(what, SyphonAction):
        targets = form.targets(pair)
    elif path == WHOLE_PAIR or pair.backlog_queues.filter(path=path).exists():
        targets = [path]
    else:
        targets = [path] if pair.entities.filter(path=path).exists() else []
    if not targets:
        raise Http404
    return targets


def _do(request: HttpRequest, pair: Pair, what: Declared, form: ActionForm, targets: list[str]) -> Outcome:
    given = form.cleaned_data["request_id"]
    is_one = isinstance(what, SyphonAction) or form.path_given not in ("", WHOLE_PAIR)
    named = WHOLE_PAIR if form.path_given == WHOLE_PAIR else SEPARATOR.join(targets)
    wanted = Request(
        user=request.user,
        pair=pair,
        target=targets[0] if is_one else named,
        reason=form.cleaned_data["reason"],
        request_id=uuid.uuid5(given, what.name).hex if given else "",
    )
    if isinstance(what, SyphonAction):
        return what.run(wanted, **({"rate": form.cleaned_data["rate"]} if what.asks_rate else {}))
    more = {"expires": form.expires(timezone.now())} if what.asks_expiry else {}
    return what.run(wanted, **more) if is_one else what.run_on(wanted, targets, **more)


def _meanwhile(request: HttpRequest, pair: Pair, form: ActionForm, targets: list[str]) -> AuditEntry | None:
    """Actions of other operators on these targets since the preview was shown."""
    seen = form.cleaned_data["seen"]
    if seen is None:
        return None
    newer = _entries(pair).filter(pk__gt=seen, outcome="done").exclude(operator=request.user.get_username())
    touched = {*targets, WHOLE_PAIR}
    return next((entry for entry in newer if touched & set(entry.target.split(SEPARATOR))), None)


def _entries(pair: Pair) -> QuerySet[AuditEntry]:
    """The operators' actions on a pair, newest first."""
    return AuditEntry.objects.filter(pair=pair.name).order_by("-pk")


def _ask(
    request: HttpRequest,
    pair: Pair,
    what: Declared,
    form: ActionForm,
    targets: list[str],
    status: int = 200,
    meanwhile: AuditEntry | None = None,
    refused: str = "",
) -> HttpResponse:
    path = form.path_given
    entity = pair.entities.filter(path=path).first()
    last = _entries(pair).values_list("pk", flat=True).first()
    state = _status(entity) if entity else None
    context = {
        "pair": pair,
        "action": what,
        "title": what.labels.get(state or "", what.title),
        "button": what.labels.get(state or "", what.button),
        "form": form,
        "path": path,
        "paths": form.cleaned_data.get("path") or [],
        "named": (named := _named(pair, what, path, targets)),
        "preview": what.describe(named),
        "targets": targets,
        "entity": entity,
        "status": state,
        "pace": paces(pair.name).get(path) if what.asks_rate else None,
        "is_dialog": wants_part(request),
        "expiries": EXPIRIES.items(),
        "request_id": uuid.uuid4(),
        "seen": last or 0,
        "meanwhile": meanwhile,
        "refused": refused,
        "next": _back(request, pair),
    }
    return asked_again(request, page_or_part(request, "actions/confirm.html", context, part="dialog", status=status))


def _named(pair: Pair, what: Declared, path: str, targets: list[str]) -> str:
    """The target of the action as text."""
    if path and path != WHOLE_PAIR:
        return path
    if isinstance(what, SyphonAction):
        return f"all of {pair.name}"
    return f"all {len(targets):,} entities of {pair.name}" if path else f"{len(targets):,} entities"


def _status(entity: EntityHealth) -> Status:
    now = timezone.now()
    return status_of(entity, now, is_silent(last_heartbeat(), now))


def _back(request: HttpRequest, pair: Pair) -> str:
    return came_from(request, pair.get_absolute_url())
