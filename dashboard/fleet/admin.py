"""Pairs with their groups, and heartbeats in Django's admin."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from dashboard import models
from dashboard.access.admin_site import ReadOnly
from dashboard.access.audited import Request
from dashboard.access.people import set_groups
from dashboard.access.visibility import sees_all
from dashboard.models.syphon import WHOLE_PAIR


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
    filter_horizontal = ("groups",)

    def has_change_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        """Who sees all pairs decides whose they are; nothing else of a pair can be changed."""
        return sees_all() and self.has_view_permission(request, obj)

    def get_readonly_fields(self, request: HttpRequest, obj: object | None = None) -> list[str]:
        return [field.name for field in models.Pair._meta.fields]

    def save_model(self, request: HttpRequest, obj: models.Pair, form: Any, change: bool) -> None:
        """Nothing: the fields of the row are those of PAIRS_FILE."""

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        set_groups(Request(request.user, form.instance, WHOLE_PAIR, via="administration"), form.cleaned_data["groups"])


@admin.register(models.Heartbeat)
class HeartbeatAdmin(ReadOnly):
    list_display = ("process", "role", "seen_at")

    def get_exclude(self, request: HttpRequest, obj: object | None = None) -> list[str]:
        return [] if sees_all() else ["problems"]  # they name pairs and queues
