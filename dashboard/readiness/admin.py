"""The readiness of pairs and entities in Django's admin."""

from dashboard import models
from dashboard.site.read_only import register

register(models.PairReadiness, ("pair", "score", "checked_at", "due_at"), searched=("pair__name",))
register(
    models.Readiness,
    ("entity", "pair", "score", "previous_score", "fell_at", "checked_at"),
    ("pair",),
    ("entity",),
)
register(models.ReadinessChange, ("at", "pair", "entity"), ("pair",), ("entity",))
