"""Heartbeats of workers."""

from django.db import models


class Heartbeat(models.Model):
    """The last heartbeat of a process."""

    process = models.CharField(max_length=300, unique=True)
    role = models.CharField(max_length=60)
    seen_at = models.DateTimeField()
    problems = models.JSONField(default=dict, blank=True, help_text="Its problems, by pair or by backlog queue.")

    class Meta:
        ordering = ("role", "process")
        indexes = (models.Index(fields=("-seen_at",), name="heartbeat_by_time"),)

    def __str__(self) -> str:
        return self.process
