"""Alerts, their rules and what was sent of them in Django's admin."""

from dashboard import models
from dashboard.site.read_only import register

register(
    models.Alert,
    ("opened_at", "severity", "kind", "pair", "entity", "title", "resolved_at", "acknowledged_by"),
    ("kind", "severity", "pair"),
    ("title", "entity"),
)
register(
    models.AlertRule,
    ("name", "is_enabled", "pair", "entity", "changed_by", "changed_at"),
    ("is_enabled",),
    ("name",),
)
register(
    models.Notice,
    ("created_at", "channel", "phase", "state", "attempts", "due_at", "reason"),
    ("state", "channel", "phase"),
    ("reason",),
)
register(models.AlertRound, ("ran_at",))
register(
    models.ChannelState,
    ("channel", "failing_since", "disabled_at", "sent_at", "reason"),
    searched=("channel",),
)
