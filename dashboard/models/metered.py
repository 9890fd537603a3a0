"""Metered operations as they are reported, for figures of the present; the files of usage are what is billed."""

from django.db import models

from dashboard.models.visibility import OfPair


class Metered(OfPair):
    """The operations of one kind for one entity in a time."""

    scope = models.CharField(max_length=200)
    pair = models.CharField(max_length=63)
    namespace = models.CharField(max_length=260)
    entity = models.CharField(max_length=300)
    kind = models.CharField(max_length=30)
    operations = models.BigIntegerField()
    messages = models.BigIntegerField()
    bytes = models.BigIntegerField()
    billing_units = models.BigIntegerField()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.namespace}/{self.entity} {self.kind}"


class MeteredRecord(Metered):
    """The last report of one process about one minute. Rolled up into MeteredUsage after two hours."""

    digest = models.CharField(max_length=64, unique=True, help_text="SHA-256 of the record's identity.")
    seq = models.BigIntegerField()
    minute = models.DateTimeField()

    class Meta:
        indexes = (
            models.Index(fields=("minute",), name="metered_by_minute"),
            models.Index(fields=("pair", "entity", "minute"), name="metered_of_an_entity"),
        )


class MeteredUsage(Metered):
    """The sums of all processes from this time to the end of its hour, or of its minute for what a failover causes."""

    begins_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("begins_at", "pair", "namespace", "entity", "kind", "scope"), name="metered_usage_once"
            ),
        )
        indexes = (models.Index(fields=("pair", "entity", "begins_at"), name="metered_usage_of_an_entity"),)
        verbose_name_plural = "metered usage"
