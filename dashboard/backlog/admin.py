"""Deletion of several orphans from Django's admin: the page lists the effect on each and asks for a reason."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse

from dashboard.access.audited import ActionError, Request
from dashboard.access.rights import Refused
from dashboard.backlog.actions import DELETE_QUEUE
from dashboard.backlog.deletions import undo_window
from dashboard.models import BacklogQueue

MOST = 50
"""Queues per request: each is proved empty with requests to its namespace."""


@dataclass(frozen=True, slots=True)
class Fate:
    """The expected effect on a queue, from its last sample."""

    queue: BacklogQueue
    hindrance: str

    @property
    def is_possible(self) -> bool:
        return not self.hindrance


def fate(queue: BacklogQueue) -> Fate:
    """An estimate from the last sample; the action itself counts and peeks again."""
    held = queue.messages + queue.dead_lettered + queue.transfer + queue.transfer_dead_lettered
    if queue.is_gone:
        return Fate(queue, "It no longer exists.")
    if not queue.is_orphan:
        return Fate(queue, "It is not an orphan: a configured pair or a live process uses it.")
    if held:
        return Fate(queue, f"It holds {held:,} messages. To delete them too, type its path on its own page.")
    return Fate(queue, "")


def delete_empty_orphans(
    site: AdminSite, request: HttpRequest, queues: QuerySet[BacklogQueue]
) -> TemplateResponse | None:
    """The confirmation page; None after the deletion."""
    fates = [fate(queue) for queue in queues.select_related("pair")[:MOST]]
    reason = request.POST.get("reason", "").strip()
    if "confirmed" not in request.POST or not reason:
        return _ask(site, request, fates, is_answered="confirmed" in request.POST)
    for one in fates:
        _delete(request, one.queue, reason)
    return None


def _ask(site: AdminSite, request: HttpRequest, fates: Sequence[Fate], *, is_answered: bool) -> TemplateResponse:
    context: dict[str, Any] = {
        **site.each_context(request),
        "title": "Delete empty orphans",
        "opts": BacklogQueue._meta,
        "fates": fates,
        "possible": sum(one.is_possible for one in fates),
        "lacks_reason": is_answered,
        "window": undo_window(),
        "checkbox": ACTION_CHECKBOX_NAME,
        "click": uuid.uuid4().hex,
    }
    return TemplateResponse(request, "admin/delete_orphans.html", context)


def _delete(request: HttpRequest, queue: BacklogQueue, reason: str) -> None:
    """Delete one queue. A queue in use or with messages is refused; submitting a form twice is one action."""
    click = request.POST.get("click", "")[:32]
    wanted = Request(
        request.user,
        queue.pair,
        queue.path,
        reason=reason[:500],
        request_id=uuid.uuid5(uuid.NAMESPACE_URL, f"{click}:{queue.pk}").hex if click else "",
    )
    try:
        messages.success(request, DELETE_QUEUE.run(wanted).sentence)
    except (ActionError, Refused) as error:
        messages.warning(request, f"{queue.path}: {error}")
