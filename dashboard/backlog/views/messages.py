"""Pages of messages and dead letters: browsing, download, resubmission, discarding."""

import base64
import uuid
from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods

from dashboard.access.audited import ActionError, Outcome, Request, done
from dashboard.access.rights import require
from dashboard.backlog import browsing
from dashboard.backlog.actions import DOWNLOAD, LETTER_ACTIONS, RESUBMIT, STOP_DEAD_LETTERS
from dashboard.backlog.browsing import Slice, Wanted, Whole
from dashboard.backlog.forms import DeadLetterForm, MessageFilter, PlacesField
from dashboard.backlog.orphans import meant_for
from dashboard.backlog.places import Place, counted, destinations, in_the_primary, place
from dashboard.fleet.pairs.namespaces import NamespaceError, namespace
from dashboard.models import DeadLetterJob, EntityHealth, Pair, TopicSubscription
from dashboard.site.pages import asked_again, done_page, only_as_part, page_or_part, wants_part
from dashboard.site.queries import read, require_readable

ADDRESSED = {"queue", "verb", "which", "request_id"}
"""Fields that nobody types: with a wrong one, the address is of no dead letters."""
BY_CHOICE = {action.choice: action for action in LETTER_ACTIONS}


@require_GET
def listing(request: HttpRequest, pair: str) -> HttpResponse:
    """Waiting messages, or dead letters (`show=dead`), of one or all queues; peeked, so nothing is changed."""
    row, form = get_object_or_404(Pair, name=pair), read(request, MessageFilter)
    queue, dead = form.cleaned_data.get("queue") or "", form.cleaned_data.get("show") == "dead"
    queues = _queues(row, dead)
    at = _place(row, queue, dead)
    found, own = _found(row, form, queue, queues, dead), in_the_primary(row) if dead else []
    context = {
        "pair": row,
        "form": form,
        "queue": queue,
        "queues": queues,
        "dead": dead,
        "at": at,
        "at_primary": at.role == "primary",
        "own": own,
        "is_listed": queue in queues or any(queue == path for path, _ in own),
        "found": found,
        "read_at": timezone.now(),
        "jobs": _jobs(row, queue),
        "goes_on": _following(request, found),
        "begins": form.cleaned_data.get("after"),
        "is_further": bool(form.cleaned_data.get("at") or form.cleaned_data.get("after")),
        "first_page": _without_place(request).urlencode(),
        "entities": sorted({*_paths(row), *(one.entity for one in found.messages if one.entity)}),
    }
    return page_or_part(request, "backlog/messages.html", context)


@require_GET
@only_as_part("backlog-messages", "pair")
def jobs(request: HttpRequest, pair: str) -> HttpResponse:
    """The running dead-letter jobs, as a part of the page."""
    row = get_object_or_404(Pair, name=pair)
    queue = request.GET.get("queue", "")
    return render(request, "backlog/jobs.html", {"pair": row, "queue": queue, "jobs": _jobs(row, queue)})


@require_GET
def download(request: HttpRequest, pair: str) -> HttpResponse:
    """Messages with their full bodies as JSON; for operators, and audited. `number` selects messages.

    If `goes_on_at` is a number, there may be more: request them with `after` set to that number.
    """
    row, form = get_object_or_404(Pair, name=pair), read(request, MessageFilter)
    require_readable(request)
    queue, dead = form.cleaned_data.get("queue") or "", form.cleaned_data.get("show") == "dead"
    at, wanted = _place(row, queue, dead, is_named=True), Wanted.read(form.cleaned_data)
    after, found = form.cleaned_data.get("after") or 0, Whole()

    @DOWNLOAD.audited
    def take(_: Request) -> Outcome:
        nonlocal found
        try:
            with namespace(row.name, at.role) as here:
                found = browsing.take(here, queue, wanted, dead=dead, after=after, chosen=_numbers(request.GET))
        except NamespaceError as error:
            raise ActionError(str(error)) from error
        return done(f"{len(found.messages)} {'dead letters' if dead else 'messages'}")

    take(Request(request.user, row, queue))
    rows = [_as_json(one, body) for one, body in found.messages]
    about = {"pair": row.name, "queue": queue, "dead_lettered": dead, "goes_on_at": found.goes_on_at}
    answer = JsonResponse(about | {"messages": rows})
    answer["Content-Disposition"] = f'attachment; filename="{row.name}-messages.json"'
    answer["Cache-Control"] = "no-store"
    return answer


@require_http_methods(["GET", "POST"])
def dead_letter_action(request: HttpRequest, pair: str) -> HttpResponse:
    """GET shows the preview, POST requests the job: `resubmit`, `discard` or `stop`."""
    row, data = get_object_or_404(Pair, name=pair), request.POST if request.method == "POST" else request.GET
    what = BY_CHOICE.get(data.get("verb", ""))
    form = DeadLetterForm(data, needs_reason=what is not None and what.is_severe and request.method == "POST")
    form.is_valid()
    if what is None or form.errors.keys() & ADDRESSED:
        raise Http404
    at = _place(row, form.cleaned_data["queue"], dead=True, is_named=True)
    given, numbers = form.cleaned_data, _numbers(data)
    if request.method == "GET" or form.errors:
        require(request.user, what.right)  # of what is to be done, the audited path decides and records it
    back = reverse("backlog-messages", args=[row.name], query={"queue": given["queue"], "show": "dead"})
    if given["which"] != "all" and what is not STOP_DEAD_LETTERS and not numbers:
        return _answered(request, "Choose at least one dead letter first.", back, changed=False)
    if form.errors:
        return asked_again(request, _ask(request, row, form, numbers, back, at, status=400))
    if request.method == "GET":
        return _ask(request, row, form, numbers, back, at)
    wanted = Request.sent(request.user, row, given["queue"], given)
    chosen = [] if given["which"] == "all" else numbers
    try:
        outcome = what.run(wanted, numbers=chosen, destination=given["destination"].strip())
    except ActionError as error:
        return asked_again(request, _ask(request, row, form, numbers, back, at, status=503, refused=str(error)))
    return _answered(request, outcome.sentence, back, changed=outcome.outcome == "done")


def _ask(
    request: HttpRequest,
    pair: Pair,
    form: DeadLetterForm,
    numbers: list[int],
    back: str,
    at: Place,
    *,
    status: int = 200,
    refused: str = "",
) -> HttpResponse:
    given = form.cleaned_data
    context = {
        "pair": pair,
        "given": given,
        "form": form,
        "refused": refused,
        "numbers": numbers,
        "count": counted(pair, given["queue"]) if given["which"] == "all" else len(numbers),
        "at": at,
        "subscriptions": list(_others(pair, at)),
        "stranger": "" if at.home else meant_for(pair, given["queue"]),
        "entities": destinations(pair) if given["verb"] == RESUBMIT.choice else [],
        "request_id": uuid.uuid4(),
        "is_dialog": wants_part(request),
        "back": back,
    }
    return page_or_part(request, "backlog/dead_letters.html", context, part="dialog", status=status)


def _answered(request: HttpRequest, sentence: str, back: str, *, changed: bool) -> HttpResponse:
    answer = done_page(request, sentence, changed=changed, back=back, failed=not changed)
    answer["HX-Retarget"] = "#toasts"
    return answer


def _found(pair: Pair, form: MessageFilter, queue: str, queues: list[str], dead: bool) -> Slice:
    wanted = Wanted.read(form.cleaned_data)
    try:
        with namespace(pair.name, _place(pair, queue, dead).role) as here:
            if queue:
                return browsing.scan(here, queue, wanted, dead=dead, after=form.cleaned_data.get("after") or 0)
            return browsing.scan_all(here, queues, wanted, dead=dead, places=form.cleaned_data.get("at"))
    except NamespaceError as error:
        return Slice(trouble=str(error))


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


def _place(pair: Pair, queue: str, dead: bool, *, is_named: bool = False) -> Place:
    """The location to browse. Queues and subscriptions of the primary show dead letters only. Raises Http404."""
    at = place(pair, queue) if queue or is_named else Place("secondary")
    if at is None or (at.role == "primary" and not dead):
        raise Http404
    return at


def _others(pair: Pair, at: Place) -> Iterator[str]:
    """The known subscriptions of this subscription's topic, which all receive resubmitted messages."""
    if at.subscription:
        known = TopicSubscription.objects.filter(topic__pair=pair, topic__path=at.home)
        yield from known.exclude(name=at.subscription).values_list("name", flat=True)[:20]


def _queues(pair: Pair, dead: bool) -> list[str]:
    """The queues that hold messages."""
    rows = pair.backlog_queues.filter(is_gone=False)
    rows = rows.filter(dead_lettered__gt=0) if dead else rows.exclude(active=0, scheduled=0)
    return list(rows.order_by("index", "path").values_list("path", flat=True))


def _jobs(pair: Pair, queue: str) -> list[DeadLetterJob]:
    rows = DeadLetterJob.objects.filter(pair=pair)
    return list((rows.filter(path=queue) if queue else rows).order_by("-at")[:5])


def _numbers(data: QueryDict) -> list[int]:
    return DeadLetterForm(data).numbers()


def _paths(pair: Pair) -> QuerySet[EntityHealth, str]:
    return pair.entities.order_by("path").values_list("path", flat=True)[:500]


def _following(request: HttpRequest, found: Slice) -> str:
    """The query of the next page; empty if this is the last one."""
    query = _without_place(request)
    if found.goes_on_at is not None:
        query["after"] = str(found.goes_on_at)
    elif found.places:
        query.setlist("at", PlacesField.written(found.places))
    else:
        return ""
    return query.urlencode()


def _without_place(request: HttpRequest) -> QueryDict:
    """The query of the first page of the same list."""
    query = request.GET.copy()
    for name in ("after", "at"):
        query.pop(name, None)
    return query
