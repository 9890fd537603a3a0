"""Drills in Django's admin."""

from dashboard import models
from dashboard.site.read_only import register

register(
    models.Drill,
    ("at", "pair", "path", "by", "ended_at", "detail", "step", "outcome"),
    ("outcome", "step", "pair"),
    ("path", "by", "reason"),
)
