"""Pauses of syphons."""

from django.db import models

from dashboard.models.pair import Pair

WHOLE_PAIR = "*"


class SyphonPause(models.Model):
    """An operator's wish that a pair's syphon (queue `*`), or one backlog queue's, stand still. Redis carries it."""

    pair = models.ForeignKey(Pair, on_delete=models.CASCADE, related_name="pauses")
    queue = models.CharField(max_length=300, default=WHOLE_PAIR)
    by = models.CharField(max_length=150)
    reason = models.TextField(blank=True)
    at = models.DateTimeField()

    class Meta:
        ordering = ("pair", "queue")
        constraints = (models.UniqueConstraint(fields=("pair", "queue"), name="paused_once"),)

    def __str__(self) -> str:
        return f"{self.pair}: {self.queue}"
