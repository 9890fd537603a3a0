"""The pings of each failover."""

from django.db import models

from dashboard.models.entity import EntityHealth
from dashboard.models.visibility import OfPair


class PingTally(OfPair):
    """The pings of one failover of an entity, kept when later failovers are pinged."""

    of_pair = "entity__pair"

    entity = models.ForeignKey(EntityHealth, on_delete=models.CASCADE, related_name="ping_tallies")
    began_at = models.DateTimeField(help_text="When the entity failed over; of its first known ping if unknown.")
    last_at = models.DateTimeField()
    accepted = models.BooleanField()
    reason = models.TextField(blank=True)
    count = models.PositiveIntegerField()

    class Meta:
        ordering = ("entity", "-began_at")
        verbose_name_plural = "ping tallies"
        constraints = (models.UniqueConstraint(fields=("entity", "began_at"), name="one_tally_per_failover"),)

    def __str__(self) -> str:
        return f"{self.entity_id}: {self.count} since {self.began_at:%Y-%m-%d %H:%M}"
