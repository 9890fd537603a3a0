"""Syphons: their pauses, limits and runs, and their ledgers."""

from django.db import models

from dashboard.models.pair import Pair
from dashboard.models.visibility import OfPair

WHOLE_PAIR = "*"


class SyphonPause(OfPair):
    """An operator's pause of a pair's syphon (queue `*`), of one backlog queue or of an entity, by path."""

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


class SyphonPace(OfPair):
    """An operator's rate limit for a pair's syphon (target `*`), for one backlog queue or for one entity."""

    pair = models.ForeignKey(Pair, on_delete=models.CASCADE, related_name="paces")
    target = models.CharField(max_length=300, default=WHOLE_PAIR)
    rate = models.FloatField(help_text="Messages a second, at most.")
    by = models.CharField(max_length=150)
    reason = models.TextField(blank=True)
    at = models.DateTimeField()

    class Meta:
        ordering = ("pair", "target")
        constraints = (
            models.UniqueConstraint(fields=("pair", "target"), name="paced_once"),
            models.CheckConstraint(condition=models.Q(rate__gt=0), name="pace_is_above_zero"),
        )

    def __str__(self) -> str:
        return f"{self.pair}: {self.target}"


class SyphonLedger(OfPair):
    """The ledger of one filling of a backlog queue: from its first message until the syphon found it empty."""

    pair = models.ForeignKey(Pair, on_delete=models.CASCADE, related_name="ledgers")
    queue = models.CharField(max_length=300)
    began_at = models.DateTimeField(help_text="The enqueue time of its first message.")
    ended_at = models.DateTimeField(null=True, blank=True, help_text="When it was found empty.")
    enqueued = models.PositiveBigIntegerField(default=0)
    home = models.PositiveBigIntegerField(default=0, help_text="Messages with a known outcome.")
    moved_at = models.DateTimeField(help_text="When the last of them was processed, as of the last look.")
    fates = models.JSONField(default=dict, help_text="Messages by outcome.")
    missing = models.BigIntegerField(null=True, blank=True, help_text="0: all accounted for. Unknown before the end.")
    reporter = models.CharField(max_length=300, blank=True)
    seen_at = models.DateTimeField()

    class Meta:
        ordering = ("-began_at", "queue")
        constraints = (
            models.UniqueConstraint(fields=("pair", "queue", "began_at"), name="one_ledger_per_filling"),
            models.CheckConstraint(
                condition=models.Q(missing__isnull=True) | models.Q(ended_at__isnull=False),
                name="ledger_is_closed_at_the_end",
            ),
        )
        indexes = (models.Index(fields=("pair", "-began_at"), name="ledger_by_pair"),)

    def __str__(self) -> str:
        return f"{self.queue} {self.began_at:%Y-%m-%d %H:%M}"


class SyphonRun(OfPair):
    """One process's lease of one backlog queue: from acquiring it until releasing or losing it."""

    pair = models.ForeignKey(Pair, on_delete=models.CASCADE, related_name="syphon_runs")
    queue = models.CharField(max_length=300)
    holder = models.CharField(max_length=300, help_text="The process that had the lease.")
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField(help_text="When it was last seen to hold the lease.")
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_because = models.TextField(blank=True)
    moved = models.PositiveBigIntegerField(default=0, help_text="Messages drained.")
    dead_lettered = models.PositiveBigIntegerField(default=0)
    otherwise = models.PositiveBigIntegerField(default=0, help_text="Expired, discarded or set aside.")
    busy_s = models.FloatField(default=0, help_text="The part of its time in which messages were moving.")

    class Meta:
        ordering = ("-started_at", "queue")
        constraints = (
            models.UniqueConstraint(
                fields=("pair", "queue"), condition=models.Q(ended_at__isnull=True), name="one_syphon_serves_a_queue"
            ),
            models.UniqueConstraint(fields=("pair", "queue", "started_at"), name="one_run_begins_at_once"),
            models.CheckConstraint(
                condition=models.Q(ended_at__isnull=True, ended_because="")
                | (
                    models.Q(ended_at__isnull=False, ended_at__gte=models.F("started_at")) & ~models.Q(ended_because="")
                ),
                name="run_ends_for_a_reason",
            ),
        )
        indexes = (models.Index(fields=("pair", "-started_at"), name="run_by_pair"),)

    def __str__(self) -> str:
        return f"{self.queue} {self.started_at:%Y-%m-%d %H:%M}"

    @property
    def pace(self) -> float | None:
        """Messages drained per second of moving time; None without any."""
        return self.moved / self.busy_s if self.moved and self.busy_s else None
