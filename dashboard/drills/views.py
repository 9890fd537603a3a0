"""The pages of drills: list, live page, start and abort."""

import uuid

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from dashboard.access.audited import ActionError, Request
from dashboard.access.rights import require
from dashboard.drills import actions
from dashboard.drills.actions import LEAST, LONGEST, MOST, START_DRILL, USUAL, Wanted, as_json
from dashboard.drills.boards import drill_board
from dashboard.drills.canary import CANARY, canary_of, hindrances, is_marked, look, marked, moment
from dashboard.fleet.boards import worker_liveness
from dashboard.models import Drill, Pair
from dashboard.site.forms import WithReason
from dashboard.site.pages import page_or_part, query_without_page
from dashboard.site.queries import page_of

PAGE = 50


class DrillForm(WithReason):
    """Pair, canary, number of messages, reason; for an unmarked queue also its typed name."""

    pair = forms.SlugField(max_length=63)
    path = forms.CharField(required=False, max_length=260, label="Canary")
    messages = forms.IntegerField(required=False, min_value=LEAST, max_value=MOST, label="Messages")
    typed = forms.CharField(required=False, max_length=260, label="Its name, typed")
    creates = forms.BooleanField(required=False, label="Create it")
    kind = forms.ChoiceField(required=False, choices=Drill.Kind.choices, label="As a")

    def canary(self, marked: str | None) -> str:
        """The queue: the given one, the marked one, or the one that a drill would create."""
        return self.cleaned_data["path"].strip() or marked or CANARY

    @property
    def count(self) -> int:
        """The number of messages."""
        return self.cleaned_data.get("messages") or USUAL


@require_GET
def listing(request: HttpRequest) -> HttpResponse:
    """All drills, newest first, and the pairs where one can be started; htmx requests return only the live part."""
    drills = Drill.objects.select_related("pair").order_by("-at", "-id")
    page = page_of(request, drills, PAGE)
    pairs = [(pair, marked(pair.name)) for pair in Pair.objects.filter(is_configured=True)]
    context = {
        "board": worker_liveness(timezone.now()),
        "boards": [drill_board(row) for row in page],
        "page": page,
        "pairs": pairs,
        "canary": CANARY,
        "query": query_without_page(request),
    }
    return page_or_part(request, "drills/list.html", context)


@require_GET
def detail(request: HttpRequest, drill: int) -> HttpResponse:
    """One drill, live while it runs; htmx requests return only the live part."""
    row = get_object_or_404(Drill.objects.select_related("pair"), pk=drill)
    context = {"board": drill_board(row), "drill": row, "pair": row.pair}
    return page_or_part(request, "drills/detail.html", context)


@require_GET
def document(request: HttpRequest, drill: int) -> HttpResponse:
    """The drill as JSON."""
    row = get_object_or_404(Drill.objects.select_related("pair"), pk=drill)
    answer = JsonResponse(as_json(row), json_dumps_params={"indent": 2})
    answer["Cache-Control"] = "no-store"
    return answer


@require_http_methods(["GET", "POST"])
def start(request: HttpRequest) -> HttpResponse:
    """GET shows a preview and reasons against the drill; POST starts it."""
    form = DrillForm(request.POST if request.method == "POST" else request.GET, needs_reason=request.method == "POST")
    form.is_valid()
    if request.method == "GET" or form.errors:
        require(request.user, START_DRILL.right)  # of what is to be done, the audited path decides and records it
    if form.errors.keys() & {"pair", "path"}:
        return _ask(request, form, None, status=400)
    pair = get_object_or_404(Pair, name=form.cleaned_data["pair"], is_configured=True)
    if form.errors:
        return _ask(request, form, pair, status=400)
    if request.method == "GET":
        return _ask(request, form, pair)
    try:
        sentence = _start(request, form, pair)
    except ActionError as error:
        return _ask(request, form, pair, status=409, refused=str(error))
    messages.success(request, sentence)
    running = Drill.open_ones().filter(pair=pair).first()
    return redirect(running.get_absolute_url() if running else "drills")


@require_POST
def abort(request: HttpRequest, drill: int) -> HttpResponse:
    """Abort a drill; a worker rolls it back."""
    row = get_object_or_404(Drill.objects.select_related("pair"), pk=drill)
    wanted = Request(request.user, row.pair, row.path, reason=request.POST.get("reason", "")[:500])
    messages.success(request, actions.abort(wanted, row).sentence)
    return redirect(row.get_absolute_url())


def _start(request: HttpRequest, form: DrillForm, pair: Pair) -> str:
    given = form.cleaned_data
    wanted = Request.sent(request.user, pair, form.canary(canary_of(pair.name)), given)
    what = Wanted(given["typed"], given["creates"], given["kind"] or Drill.Kind.QUEUE, form.count)
    return actions.start_drill(wanted, what).sentence


def _ask(
    request: HttpRequest, form: DrillForm, pair: Pair | None, *, status: int = 200, refused: str = ""
) -> HttpResponse:
    context: dict[str, object] = {
        "form": form,
        "pair": pair,
        "pairs": Pair.objects.filter(is_configured=True),
        "refused": refused,
        "request_id": uuid.uuid4(),
        "longest": LONGEST,
        "least": LEAST,
        "most": MOST,
    }
    if pair is not None:
        named = canary_of(pair.name)
        path = form.canary(named)
        canary = look(pair.name, path)
        context |= {
            "path": path,
            "canary": canary,
            "is_marked": is_marked(path, named),
            "is_named": named == path,
            "kinds": Drill.Kind.choices,
            "hindrances": hindrances(canary, moment(pair), creates=True),
            "count": form.count,
            "third": form.count // 3,
        }
    return page_or_part(request, "drills/start.html", context, part="live", status=status)
