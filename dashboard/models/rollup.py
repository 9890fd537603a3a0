"""The depth of backlogs by hour and day."""

from django.db import models

from dashboard.models.visibility import OfPair


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
