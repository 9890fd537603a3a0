"""Messages of backlog queues and their dead letters: browsed, downloaded, sent again, discarded."""

import base64
import uuid
from collections.abc import Iterator
from typing import Any

from django.contrib import messages as told
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods

from dashboard import browsing, control, dead_letters
from dashboard.access import Right, require
from dashboard.backlog_forms import DeadLetterForm, MessageFilter
from dashboard.browsing import Slice, Wanted
from dashboard.models import DeadLetterJob, Pair
from dashboard.namespaces import NamespaceError, namespace
from dashboard.views.answers import page_or_part, wants_part

MOST_DOWNLOADED = 1_000


@require_GET
def listing(request: HttpRequest, pair: str) -> HttpResponse:
    """Messages as they wait, or dead letters (`show=dead`), of one queue or of all; peeked, so nothing is changed."""
    row, form = get_object_or_404(Pair, name=pair), MessageFilter(request.GET)
    form.is_valid()
    queue, dead = form.cleaned_data.get("queue") or "", form.cleaned_data.get("show") == "dead"
    queues = _queues(row, dead)
    if queue and not row.backlog_queues.filter(path=queue).exists():
        raise Http404
    found = _found(row, form, queue, queues, dead)
    context = {
        "pair": row,
        "form": form,
        "queue": queue,
        "queues": queues,
        "dead": dead,
        "found": found,
        "jobs": _jobs(row, queue),
        "goes_on": _with(request, after=found.goes_on_at) if found.goes_on_at is not None else "",
        "begins": form.cleaned_data.get("after"),
        "entities": row.entities.order_by("path").values_list("path", flat=True)[:500],
    }
    return page_or_part(request, "backlog/messages.html", context)


@require_GET
def jobs(request: HttpRequest, pair: str) -> HttpResponse:
    """What workers are doing to dead letters, for the page that shows them."""
    row = get_object_or_404(Pair, name=pair)
    queue = request.GET.get("queue", "")
    return render(request, "backlog/jobs.html", {"pair": row, "queue": queue, "jobs": _jobs(row, queue)})


@require_GET
def download(request: HttpRequest, pair: str) -> HttpResponse:
    """Messages with their whole bodies as JSON; for operators, and written down. `number` chooses some."""
    require(request.user, Right.OPERATE)
    row, form = get_object_or_404(Pair, name=pair), MessageFilter(request.GET)
    form.is_valid()
    queue, dead = form.cleaned_data.get("queue") or "", form.cleaned_data.get("show") == "dead"
    if not row.backlog_queues.filter(path=queue).exists():
        raise Http404
    chosen = set(_numbers(request.GET))
    wanted = _wanted(form)
    try:
        rows = list(_downloaded(row, queue, dead, chosen, wanted))
    except NamespaceError as error:
        raise control.ControlError(str(error)) from error
    control.note(request.user, row, "download", queue, f"{len(rows)} {'dead letters' if dead else 'messages'}")
    answer = JsonResponse({"pair": row.name, "queue": queue, "dead_lettered": dead, "messages": rows})
    answer["Content-Disposition"] = f'attachment; filename="{row.name}-messages.json"'
    answer["Cache-Control"] = "no-store"
    return answer


@require_http_methods(["GET", "POST"])
def dead_letter_action(request: HttpRequest, pair: str) -> HttpResponse:
    """GET asks, POST wants a worker to do it: `resubmit`, `discard` or `stop`."""
    row, data = get_object_or_404(Pair, name=pair), request.POST if request.method == "POST" else request.GET
    form = DeadLetterForm(data)
    if not form.is_valid() or not row.backlog_queues.filter(path=form.cleaned_data["queue"]).exists():
        raise Http404
    given, numbers = form.cleaned_data, _numbers(data)
    require(request.user, Right.ADMINISTER if given["verb"] == "discard" else Right.OPERATE)
    back = f"{reverse('backlog-messages', args=[row.name])}?{_query(queue=given['queue'], show='dead')}"
    if given["which"] != "all" and given["verb"] != "stop" and not numbers:
        return _told(request, "Choose at least one dead letter first.", back, changed=False)
    if request.method == "GET":
        return _ask(request, row, given, numbers, back)
    wish = control.Request(
        user=request.user,
        pair=row,
        target=given["queue"],
        reason=given["reason"],
        request_id=given["request_id"].hex if given["request_id"] else "",
    )
    try:
        outcome = _do(wish, given, numbers)
    except control.ControlError as error:
        if wants_part(request):
            raise
        return _told(request, str(error), back, changed=False)
    return _told(request, outcome.sentence, back, changed=outcome.outcome == "done")


def _do(wish: control.Request, given: dict[str, Any], numbers: list[int]) -> control.Outcome:
    chosen = [] if given["which"] == "all" else numbers
    match given["verb"]:
        case "resubmit":
            return dead_letters.resubmit(wish, chosen, given["destination"].strip())
        case "discard":
            return dead_letters.discard(wish, chosen)
        case _:
            return dead_letters.stop(wish)


def _ask(request: HttpRequest, pair: Pair, given: dict[str, Any], numbers: list[int], back: str) -> HttpResponse:
    queue = pair.backlog_queues.get(path=given["queue"])
    context = {
        "pair": pair,
        "given": given,
        "numbers": numbers,
        "count": queue.dead_lettered if given["which"] == "all" else len(numbers),
        "entities": pair.entities.order_by("path").values_list("path", flat=True)[:500],
        "request_id": uuid.uuid4(),
        "is_dialog": wants_part(request),
        "back": back,
    }
    return page_or_part(request, "actions/dead_letters.html", context, part="dialog")


def _told(request: HttpRequest, sentence: str, back: str, *, changed: bool) -> HttpResponse:
    if wants_part(request):
        answer = render(request, "actions/confirm.html#result", {"sentence": sentence, "changed": changed})
        answer["HX-Trigger"], answer["HX-Retarget"] = "refresh", "#toasts"
        return answer
    (told.success if changed else told.warning)(request, sentence)
    return redirect(back)


def _found(pair: Pair, form: MessageFilter, queue: str, queues: list[str], dead: bool) -> Slice:
    wanted = _wanted(form)
    try:
        with namespace(pair.name) as here:
            if queue:
                return browsing.scan(here, queue, wanted, dead=dead, after=form.cleaned_data.get("after") or 0)
            return browsing.scan_all(here, queues, wanted, dead=dead)
    except NamespaceError as error:
        return Slice(trouble=str(error))


def _wanted(form: MessageFilter) -> Wanted:
    given = form.cleaned_data
    return Wanted(
        words=given.get("q") or "",
        entity=given.get("entity") or "",
        session=given.get("session") or "",
        older_than=browsing.older_than(given.get("older_min"), timezone.now()),
        larger_than=(given.get("larger_kb") or 0) * 1024,
    )


def _downloaded(pair: Pair, queue: str, dead: bool, chosen: set[int], wanted: Wanted) -> Iterator[dict[str, Any]]:
    """As JSON takes them; at most MOST_DOWNLOADED."""
    number, given = min(chosen, default=0), 0
    with namespace(pair.name) as here:
        while page := here.peek(queue, number, 100, dead=dead):
            for message in page:
                one = browsing.shown(queue, message)
                number = one.number + 1
                if (one.number in chosen) if chosen else wanted.fits(one):
                    given += 1
                    yield _as_json(one, browsing.body_bytes(message))
                if given >= MOST_DOWNLOADED or (chosen and one.number >= max(chosen)):
                    return


def _as_json(one: browsing.Shown, body: bytes) -> dict[str, Any]:
    return {
        "sequence_number": one.number,
        "message_id": one.message_id,
        "entity": one.entity,
        "session": one.session,
        "subject": one.subject,
        "enqueued_at": one.enqueued_at.isoformat() if one.enqueued_at else None,
        "dead_letter_reason": one.reason,
        "dead_letter_description": one.about,
        "size_bytes": one.size,
        "properties": dict(one.properties),
        "body_base64": base64.b64encode(body).decode(),
    }


def _queues(pair: Pair, dead: bool) -> list[str]:
    """The queues worth a look: those that hold something."""
    rows = pair.backlog_queues.filter(is_gone=False)
    rows = rows.filter(dead_lettered__gt=0) if dead else rows.exclude(active=0, scheduled=0)
    return list(rows.order_by("index", "path").values_list("path", flat=True))


def _jobs(pair: Pair, queue: str) -> list[DeadLetterJob]:
    rows = DeadLetterJob.objects.filter(pair=pair)
    return list((rows.filter(path=queue) if queue else rows).order_by("-at")[:5])


def _numbers(data: QueryDict) -> list[int]:
    return DeadLetterForm(data).numbers()


def _with(request: HttpRequest, **changes: object) -> str:
    query = request.GET.copy()
    for name, value in changes.items():
        query[name] = str(value)
    return query.urlencode()


def _query(**values: str) -> str:
    query = QueryDict(mutable=True)
    query.update(values)
    return query.urlencode()
