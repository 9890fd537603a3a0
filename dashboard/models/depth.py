"""Depths over time: the peak of each step, and the samples of a month rolled up."""

from django.db import models

from dashboard.models.pair import Pair
from dashboard.models.visibility import OfPair

WHOLE_BACKLOG = "*"


class DepthPeak(OfPair):
    """The highest depth of the backlog of a pair (path `*`), or of one of its entities, in one time step."""

    pair = models.ForeignKey(Pair, on_delete=models.CASCADE, related_name="peaks")
    path = models.CharField(max_length=260, default=WHOLE_BACKLOG)
    step_s = models.PositiveIntegerField(help_text="How long the step is, in seconds.")
    at = models.DateTimeField(help_text="When the step begins: a multiple of its length.")
    peak = models.PositiveBigIntegerField()
    last = models.PositiveBigIntegerField(help_text="Messages waiting at the end of the step.")

    class Meta:
        ordering = ("pair", "path", "at")
        constraints = (
            models.UniqueConstraint(fields=("pair", "path", "step_s", "at"), name="one_peak_of_a_step"),
            models.CheckConstraint(condition=models.Q(step_s__gt=0), name="a_step_has_a_length"),
            models.CheckConstraint(condition=models.Q(peak__gte=models.F("last")), name="a_peak_is_the_highest"),
        )
        indexes = (models.Index(fields=("pair", "step_s", "at"), name="peaks_of_a_pair"),)

    def __str__(self) -> str:
        return f"{self.path} {self.at:%Y-%m-%d %H:%M}: {self.peak}"


class BacklogRollup(OfPair):
    """The depth of a pair's backlog in an hour or on a day. Values of days are computed from samples too."""

    pair = models.CharField(max_length=63)
    queue = models.CharField(max_length=300, help_text="The path of a backlog queue; * is all of the pair together.")
    month = models.CharField(max_length=7)
    begins_at = models.DateTimeField()
    is_day = models.BooleanField(help_text="A whole day; an hour otherwise.")
    samples = models.PositiveIntegerField()
    deepest = models.BigIntegerField()
    p50 = models.BigIntegerField()
    p95 = models.BigIntegerField()

    class Meta:
        ordering = ("begins_at", "pair", "queue")
        constraints = (
            models.UniqueConstraint(fields=("pair", "queue", "begins_at", "is_day"), name="one_rollup_per_period"),
        )
        indexes = (models.Index(fields=("month", "is_day"), name="rollups_of_a_month"),)

    def __str__(self) -> str:
        return f"{self.pair}/{self.queue} {self.begins_at:%Y-%m-%d %H:%M}"
