"""Django's admin: facts are read-only; people and groups can be edited."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, QueryDict
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dashboard import models
from dashboard.backlog import admin as admin_cleanup
from dashboard.backlog.actions import DELETE_QUEUE
from dashboard.backlog.deletions import describe_counts
from dashboard.models.backlog import COUNTS

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin


class ReadOnly(ModelAdmin):
    """Facts: they cannot be added, changed or deleted by hand."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return self.admin_site.has_permission(request)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.admin_site.has_permission(request)


@admin.register(models.Pair)
class PairAdmin(ReadOnly):
    list_display = (
        "name",
        "primary_namespace",
        "secondary_namespace",
        "backlog_queue_count",
        "is_configured",
        "synced_at",
    )
    list_filter = ("is_configured", "is_emulated")
    search_fields = ("name", "primary_namespace", "secondary_namespace")


@admin.register(models.EntityHealth)
class EntityAdmin(ReadOnly):
    list_display = ("path", "pair", "kind", "state", "since", "held_by", "waiting", "is_configured")
    list_filter = ("state", "pair", "kind", "origin", "is_configured")
    list_select_related = ("pair",)
    search_fields = ("path", "reason")


@admin.register(models.FailoverEvent)
class EventAdmin(ReadOnly):
    list_display = ("time", "pair", "entity", "kind", "reason", "operator")
    list_filter = ("kind", "pair")
    search_fields = ("entity", "reason", "operator")
    date_hierarchy = "time"


@admin.register(models.BacklogQueue)
class BacklogQueueAdmin(ReadOnly):
    list_display = ("path", "pair", "clean_up", "holds", "status", "is_orphan", "is_gone", "accessed_at", "seen_at")
    list_filter = ("is_orphan", "is_gone", "status", "pair")
    list_select_related = ("pair",)
    search_fields = ("path",)
    actions = ("delete_empty_orphans",)

    @admin.display(description="clean up")
    def clean_up(self, queue: models.BacklogQueue) -> SafeString:
        """A link to the page that checks its contents and asks for confirmation."""
        if queue.is_gone or not queue.is_orphan:
            return SafeString("")
        query = QueryDict(mutable=True)
        query["path"] = queue.path
        address = reverse("pair-action", args=[queue.pair.name, DELETE_QUEUE.name])
        return format_html('<a href="{}?{}">Delete…</a>', address, query.urlencode())

    @admin.display(description="holds", ordering="active")
    def holds(self, queue: models.BacklogQueue) -> str:
        """All counts that are not 0, as text."""
        return describe_counts({name: getattr(queue, name) for name in COUNTS})

    @admin.action(description="Delete the empty orphans among these…", permissions=["view"])
    def delete_empty_orphans(
        self, request: HttpRequest, queues: QuerySet[models.BacklogQueue]
    ) -> TemplateResponse | None:
        """Asks for confirmation; then each is quarantined, and deleted after the undo window if it is still empty."""
        return admin_cleanup.delete_empty_orphans(self.admin_site, request, queues)


@admin.register(models.QueueDeletion)
class QueueDeletionAdmin(ReadOnly):
    list_display = ("path", "pair", "stage", "by", "at", "due_at", "ended_at", "detail")
    list_filter = ("stage", "pair")
    list_select_related = ("pair",)
    search_fields = ("path", "by", "reason")


@admin.register(models.QueueDrain)
class QueueDrainAdmin(ReadOnly):
    list_display = ("path", "pair", "moved", "waiting", "by", "at", "ended_at", "detail")
    list_filter = ("pair",)
    list_select_related = ("pair",)
    search_fields = ("path", "by", "reason")


@admin.register(models.DeadLetterJob)
class DeadLetterJobAdmin(ReadOnly):
    list_display = ("path", "pair", "kind", "destination", "done", "failed", "total", "by", "at", "ended_at")
    list_filter = ("kind", "pair")
    list_select_related = ("pair",)
    search_fields = ("path", "by", "reason")


@admin.register(models.DiscardedMessage)
class DiscardedMessageAdmin(ReadOnly):
    list_display = ("number", "message_id", "entity", "dead_letter_reason", "size", "sha256", "at")
    list_select_related = ("job",)
    search_fields = ("message_id", "entity", "dead_letter_reason")
    date_hierarchy = "at"


@admin.register(models.AuditEntry)
class AuditAdmin(ReadOnly):
    list_display = ("at", "operator", "verb", "pair", "target", "outcome", "reason")
    list_filter = ("verb", "outcome", "pair")
    search_fields = ("operator", "target", "reason", "detail")
    date_hierarchy = "at"


@admin.register(models.SyphonPause)
class PauseAdmin(ReadOnly):
    list_display = ("pair", "queue", "by", "at", "reason")
    list_filter = ("pair",)


@admin.register(models.PrunedCount)
class PrunedCountAdmin(ReadOnly):
    list_display = ("counter", "pair", "label", "count")
    list_filter = ("counter", "pair")


@admin.register(models.Heartbeat)
class HeartbeatAdmin(ReadOnly):
    list_display = ("process", "role", "seen_at")
