"""The highest depth of a backlog in each time step, the source of charts of more than an hour."""

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
