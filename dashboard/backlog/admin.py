"""Backlog queues and operations on them in Django's admin, and the declared actions on several queues.

The page of an action lists the effect on each queue and asks for a reason.
"""

import uuid
from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import AdminSite
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dashboard import models
from dashboard.access.admin_site import ReadOnly
from dashboard.access.audited import ActionError, Request
from dashboard.access.declaration import ListAction
from dashboard.access.rights import Refused
from dashboard.backlog.actions import DELETE_QUEUE, QUEUE_ACTIONS, QueueAction
from dashboard.backlog.deletions import describe_counts, undo_window
from dashboard.models import BacklogQueue
from dashboard.models.backlog import COUNTS

MOST = 50
"""Queues per request: each is proved empty with requests to its namespace."""


ListedAction = Callable[[ReadOnly, HttpRequest, QuerySet[BacklogQueue]], TemplateResponse | None]


def listed(action: QueueAction, offered: ListAction) -> ListedAction:
    """The declared action for the selected queues of a list. It asks first."""

    @admin.action(description=offered.label, permissions=["view"])
    def run(shown: ReadOnly, request: HttpRequest, queues: QuerySet[BacklogQueue]) -> TemplateResponse | None:
        return _ask_or_do(action, offered, shown.admin_site, request, queues)

    run.__name__ = offered.name
    return run


def _ask_or_do(
    action: QueueAction, offered: ListAction, site: AdminSite, request: HttpRequest, queues: QuerySet[BacklogQueue]
) -> TemplateResponse | None:
    """The confirmation page; None once the action was executed."""
    chosen = list(queues.select_related("pair")[:MOST])
    reason = request.POST.get("reason", "").strip()
    if "confirmed" in request.POST and reason:
        for queue in chosen:
            _do(action, request, queue, reason)
        return None
    fates = [(queue, action.hinders_listed(queue)) for queue in chosen]
    context: dict[str, Any] = {
        **site.each_context(request),
        "title": offered.title,
        "action": action,
        "opts": BacklogQueue._meta,
        "fates": fates,
        "possible": sum(not hindrance for _, hindrance in fates),
        "lacks_reason": "confirmed" in request.POST,
        "window": undo_window(),
        "checkbox": ACTION_CHECKBOX_NAME,
        "click": uuid.uuid4().hex,
    }
    return TemplateResponse(request, f"admin/{action.name}.html", context)


def _do(action: QueueAction, request: HttpRequest, queue: BacklogQueue, reason: str) -> None:
    """Execute the action for one queue, or say why it is refused; submitting a form twice is one action."""
    click = request.POST.get("click", "")[:32]
    wanted = Request(
        request.user,
        queue.pair,
        queue.path,
        reason=reason[:500],
        request_id=uuid.uuid5(uuid.NAMESPACE_URL, f"{click}:{queue.pk}").hex if click else "",
    )
    try:
        messages.success(request, action.run(wanted).sentence)
    except (ActionError, Refused) as error:
        messages.warning(request, f"{queue.path}: {error}")


@admin.register(models.BacklogQueue)
class BacklogQueueAdmin(ReadOnly):
    list_display = ("path", "pair", "clean_up", "holds", "status", "is_orphan", "is_gone", "accessed_at", "seen_at")
    list_filter = ("is_orphan", "is_gone", "status", "pair")
    list_select_related = ("pair",)
    search_fields = ("path",)
    actions = tuple(listed(action, action.administration) for action in QUEUE_ACTIONS if action.administration)

    @admin.display(description="clean up")
    def clean_up(self, queue: models.BacklogQueue) -> SafeString:
        """A link to the page that checks its contents and asks for confirmation."""
        if queue.is_gone or not queue.is_orphan:
            return SafeString("")
        address = reverse("pair-action", args=[queue.pair.name, DELETE_QUEUE.name], query={"path": queue.path})
        return format_html('<a href="{}">Delete…</a>', address)

    @admin.display(description="holds", ordering="active")
    def holds(self, queue: models.BacklogQueue) -> str:
        """All counts that are not 0, as text."""
        return describe_counts({name: getattr(queue, name) for name in COUNTS})
