"""The other facts in Django's admin: columns and filters of each list."""

from typing import Any

from django.contrib import admin
from django.db.models import Model

from dashboard import models
from dashboard.admin import ReadOnly

Columns = tuple[str, ...]
Filters = tuple[str | tuple[str, Any], ...]
QUEUE_ERRAND: Columns = ("at", "pair", "path", "by", "ended_at", "detail")
LISTS: dict[type[Model], tuple[Columns, Filters, Columns]] = {
    # model: (columns, filters, searched)
    models.Alert: (
        ("opened_at", "severity", "kind", "pair", "entity", "title", "resolved_at", "acknowledged_by"),
        ("kind", "severity", "pair"),
        ("title", "entity"),
    ),
    models.AlertRule: (
        ("name", "is_enabled", "pair", "entity", "changed_by", "changed_at"),
        ("is_enabled",),
        ("name",),
    ),
    models.Notice: (
        ("created_at", "channel", "phase", "state", "attempts", "due_at", "reason"),
        ("state", "channel", "phase"),
        ("reason",),
    ),
    models.NoticeItem: (("notice", "alert", "channel", "phase"), ("channel", "phase"), ("alert__title",)),
    models.AlertRound: (("ran_at",), (), ()),
    models.ChannelState: (("channel", "failing_since", "disabled_at", "sent_at", "reason"), (), ("channel",)),
    models.SyphonPace: (("pair", "target", "rate", "by", "at", "reason"), ("pair",), ()),
    models.SyphonLedger: (
        ("queue", "pair", "began_at", "ended_at", "enqueued", "home", "missing"),
        ("pair", ("ended_at", admin.EmptyFieldListFilter)),
        ("queue",),
    ),
    models.SyphonRun: (
        ("queue", "pair", "holder", "started_at", "ended_at", "moved", "dead_lettered", "ended_because"),
        ("pair", ("ended_at", admin.EmptyFieldListFilter)),
        ("queue", "holder", "ended_because"),
    ),
    models.TopicSubscription: (
        ("name", "topic", "dead_lettered", "counted_at"),
        ("topic__pair",),
        ("name", "topic__path"),
    ),
    models.PairDepth: (("at", "pair", "messages", "dead_lettered", "size_bytes"), ("pair",), ()),
    models.DepthSample: (("at", "queue", "active", "scheduled", "dead_lettered", "size_bytes"), ("queue__pair",), ()),
    models.Drill: ((*QUEUE_ERRAND, "step", "outcome"), ("outcome", "step", "pair"), ("path", "by", "reason")),
    models.PairReadiness: (("pair", "score", "checked_at", "due_at"), (), ("pair__name",)),
    models.Readiness: (("entity", "pair", "score", "previous_score", "fell_at", "checked_at"), ("pair",), ("entity",)),
    models.ReadinessChange: (("at", "pair", "entity"), ("pair",), ("entity",)),
    models.DepthPeak: (("at", "pair", "path", "step_s", "peak", "last"), ("pair", "step_s"), ("path",)),
    models.WaitingSample: (("at", "entity", "waiting"), ("entity__pair",), ("entity__path",)),
    models.ChargeRun: (
        ("month", "status", "rule", "allocation", "rows", "started_by", "started_at", "finished_at"),
        ("status", "rule", "month"),
        ("month", "error", "started_by"),
    ),
    models.Invoice: (
        ("month", "scope", "rule", "currency", "cents", "units", "closed_at"),
        ("rule", "month"),
        ("scope",),
    ),
    models.ClosedMonth: (("month", "closed_at"), (), ("month",)),
    models.Charge: (
        ("invoice", "pair", "namespace", "entity", "kind", "operations", "billing_units", "cents"),
        ("invoice__month", "kind", "pair"),
        ("namespace", "entity"),
    ),
    models.DailyCharge: (("date", "invoice", "kind", "operations", "billing_units"), ("kind", "invoice__month"), ()),
    models.Adjustment: (("made_at", "invoice", "namespace", "entity", "kind", "cents"), ("kind",), ("entity",)),
    models.Outage: (
        ("started_at", "pair", "entity", "ended_at", "cause", "down_s", "month"),
        ("month", "cause", "pair"),
        ("entity", "reason"),
    ),
    models.Availability: (
        ("month", "pair", "entity", "episodes", "down_s", "repair_s"),
        ("month", "pair"),
        ("entity",),
    ),
    models.Budget: (("pair", "cents", "alert_percent", "set_by", "set_at"), (), ("pair",)),
    models.BudgetAlert: (("raised_at", "month", "pair", "percent", "cents", "budget_cents"), ("month", "pair"), ()),
    models.Statement: (
        ("month", "source", "name", "rows", "currency", "uploaded_by", "uploaded_at"),
        ("source", "month"),
        ("name", "uploaded_by"),
    ),
    models.BilledDay: (("date", "statement", "namespace", "meter", "quantity", "cost"), ("meter",), ("namespace",)),
    models.ConnectionDay: (("date", "statement", "scope", "namespace", "peaks"), ("scope",), ("namespace",)),
    models.BacklogRollup: (
        ("begins_at", "pair", "queue", "is_day", "samples", "deepest"),
        ("is_day", "pair"),
        ("queue",),
    ),
    models.QueueDeletion: ((*QUEUE_ERRAND, "stage"), ("stage", "pair"), ("path", "by", "reason")),
    models.QueueDrain: ((*QUEUE_ERRAND, "moved", "waiting"), ("pair",), ("path", "by", "reason")),
    models.DeadLetterJob: ((*QUEUE_ERRAND, "kind", "done", "failed"), ("kind", "pair"), ("path", "by", "reason")),
    models.ApiToken: (
        ("prefix", "name", "owner", "scope", "made_at", "expires_at", "used_at", "revoked_at", "revoked_by"),
        ("scope", ("revoked_at", admin.EmptyFieldListFilter)),
        ("name", "prefix", "owner__username"),
    ),
    models.Identity: (("user", "issuer", "subject", "made_at", "seen_at"), ("issuer",), ("subject", "user__username")),
    models.DiscardedMessage: (
        ("at", "job", "number", "message_id", "entity", "dead_letter_reason"),
        ("dead_letter_reason",),
        ("message_id", "entity"),
    ),
}


def _register(model: type[Model], columns: Columns, filters: Filters, searched: Columns) -> None:
    joined = tuple(name for name in columns if model._meta.get_field(name).is_relation)
    body: dict[str, Any] = {
        "list_display": columns,
        "list_filter": filters,
        "search_fields": searched,
        "list_select_related": joined or False,
        "show_full_result_count": False,  # counting a million samples would slow down the list
    }
    admin.site.register(model, type(f"{model.__name__}Admin", (ReadOnly,), body))


for _model, _shown in LISTS.items():
    if not admin.site.is_registered(_model):
        _register(_model, *_shown)
