"""Administration: facts are read-only, people and groups are not."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest

from dashboard import models

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin


class ReadOnly(ModelAdmin):
    """Facts: nobody adds, changes or deletes them by hand."""

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
    list_display = ("path", "pair", "active", "scheduled", "dead_lettered", "status", "is_orphan", "is_gone", "seen_at")
    list_filter = ("is_orphan", "is_gone", "status", "pair")
    list_select_related = ("pair",)
    search_fields = ("path",)


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


@admin.register(models.Heartbeat)
class HeartbeatAdmin(ReadOnly):
    list_display = ("process", "role", "seen_at")
