"""Subscriptions of topics in primary namespaces, with their dead letters."""

from django.db import models

from dashboard.models.entity import EntityHealth
from dashboard.models.visibility import OfPair

BELOW = "/Subscriptions/"


class TopicSubscription(OfPair):
    """A subscription and its dead letters at the last count. A deleted one has no row."""

    of_pair = "topic__pair"

    topic = models.ForeignKey(EntityHealth, on_delete=models.CASCADE, related_name="subscriptions")
    name = models.CharField(max_length=50)
    dead_lettered = models.PositiveBigIntegerField()
    counted_at = models.DateTimeField()

    class Meta:
        ordering = ("topic", "name")
        constraints = (
            models.UniqueConstraint(fields=("topic", "name"), name="subscription_once_per_topic"),
            models.CheckConstraint(condition=~models.Q(name=""), name="subscription_has_a_name"),
        )

    def __str__(self) -> str:
        return self.path

    @property
    def path(self) -> str:
        """Its address in the namespace."""
        return f"{self.topic.path}{BELOW}{self.name}"
