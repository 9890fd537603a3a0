"""Heartbeats: which workers are alive."""

from django.db import models


class Heartbeat(models.Model):
    """When one process was last heard of."""

    process = models.CharField(max_length=300, unique=True)
    role = models.CharField(max_length=60)
    seen_at = models.DateTimeField()
    problems = models.JSONField(
        default=dict, blank=True, help_text="What keeps it from its work, by pair or by backlog queue."
    )

    class Meta:
        ordering = ("role", "process")
        indexes = (models.Index(fields=("-seen_at",), name="heartbeat_by_time"),)

    def __str__(self) -> str:
        return self.process
