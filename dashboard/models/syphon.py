"""Syphons: their pauses, and the books of what they brought home."""

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


class SyphonLedger(models.Model):
    """The books of one backlog queue for one filling: from its first message until the syphon found it drained."""

    pair = models.ForeignKey(Pair, on_delete=models.CASCADE, related_name="ledgers")
    queue = models.CharField(max_length=300)
    began_at = models.DateTimeField(help_text="When its first message was put there, by the broker.")
    ended_at = models.DateTimeField(null=True, blank=True, help_text="When it was found drained.")
    enqueued = models.PositiveBigIntegerField(default=0)
    home = models.PositiveBigIntegerField(default=0, help_text="Messages that have met a fate.")
    moved_at = models.DateTimeField(help_text="When the last of them did, as far as anybody looked.")
    fates = models.JSONField(default=dict, help_text="Messages by what became of them.")
    missing = models.BigIntegerField(null=True, blank=True, help_text="0: all accounted for. Not known before the end.")
    reporter = models.CharField(max_length=300, blank=True)
    seen_at = models.DateTimeField()

    class Meta:
        ordering = ("-began_at", "queue")
        constraints = (
            models.UniqueConstraint(fields=("pair", "queue", "began_at"), name="one_ledger_per_filling"),
            models.CheckConstraint(
                condition=models.Q(missing__isnull=True) | models.Q(ended_at__isnull=False),
                name="books_are_closed_at_the_end",
            ),
        )
        indexes = (models.Index(fields=("pair", "-began_at"), name="ledger_by_pair"),)

    def __str__(self) -> str:
        return f"{self.queue} {self.began_at:%Y-%m-%d %H:%M}"
