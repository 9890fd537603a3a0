"""Counts of pruned rows, so that a counter of Prometheus never decreases."""

from django.db import models

from dashboard.models.visibility import OfPair


class PrunedCount(OfPair):
    """The part of one counter, for one value of its label, whose rows were pruned."""

    counter = models.CharField(max_length=60)
    pair = models.CharField(max_length=260)
    label = models.CharField(max_length=300, blank=True, help_text="The kind of event or the backlog queue, if any.")
    count = models.BigIntegerField(default=0)

    class Meta:
        ordering = ("counter", "pair", "label")
        constraints = (
            models.UniqueConstraint(fields=("counter", "pair", "label"), name="pruned_count_once"),
            models.CheckConstraint(condition=models.Q(count__gte=0), name="pruned_count_not_negative"),
        )

    def __str__(self) -> str:
        return f"{self.counter} of {self.pair} {self.label}".rstrip()
