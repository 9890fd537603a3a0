"""Pairs, entities, events, depths and syphons in Django's admin."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from dashboard import models
from dashboard.access.audited import Request
from dashboard.access.people import set_groups
from dashboard.access.visibility import sees_all
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.site.read_only import ReadOnly, register


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


@admin.register(models.PrunedCount)
class PrunedCountAdmin(ReadOnly):
    list_display = ("counter", "pair", "label", "count")
    list_filter = ("counter", "pair")


@admin.register(models.Heartbeat)
class HeartbeatAdmin(ReadOnly):
    list_display = ("process", "role", "seen_at")

    def get_exclude(self, request: HttpRequest, obj: object | None = None) -> list[str]:
        return [] if sees_all() else ["problems"]  # they name pairs and queues


register(
    models.SyphonLedger,
    ("queue", "pair", "began_at", "ended_at", "enqueued", "home", "missing"),
    ("pair", ("ended_at", admin.EmptyFieldListFilter)),
    ("queue",),
)
register(
    models.SyphonRun,
    ("queue", "pair", "holder", "started_at", "ended_at", "moved", "dead_lettered", "ended_because"),
    ("pair", ("ended_at", admin.EmptyFieldListFilter)),
    ("queue", "holder", "ended_because"),
)
register(
    models.TopicSubscription,
    ("name", "topic", "dead_lettered", "counted_at"),
    ("topic__pair",),
    ("name", "topic__path"),
)
register(models.PairDepth, ("at", "pair", "messages", "dead_lettered", "size_bytes"), ("pair",))
register(
    models.DepthSample,
    ("at", "queue", "active", "scheduled", "dead_lettered", "size_bytes"),
    ("queue__pair",),
)
register(models.DepthPeak, ("at", "pair", "path", "step_s", "peak", "last"), ("pair", "step_s"), ("path",))
register(models.WaitingSample, ("at", "entity", "waiting"), ("entity__pair",), ("entity__path",))
register(
    models.MeteredRecord, ("minute", "pair", "entity", "kind", "operations", "messages"), ("pair", "kind"), ("entity",)
)
register(
    models.MeteredUsage,
    ("begins_at", "pair", "entity", "kind", "operations", "messages"),
    ("pair", "kind"),
    ("entity",),
)
register(models.PingTally, ("entity", "began_at", "last_at", "accepted", "count"), ("accepted",), ("entity__path",))
