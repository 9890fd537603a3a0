"""What processes report: failover events, heartbeats, metered operations and pings; and counts of what was pruned."""

from __future__ import annotations

from django.db import models

from dashboard.models.visibility import OfPair, visible_here
from pairing.events import KINDS


def kinds() -> list[tuple[str, str]]:
    """The choices of the column. Migrations refer to this function, so that a new kind needs none."""
    return [(name, kind.label) for name, kind in KINDS.items()]


class FailoverEvent(OfPair):
    """One event. Its id identifies it across redeliveries, so it is stored once; events outlive their pairs."""

    event_id = models.CharField(max_length=36, unique=True)
    time = models.DateTimeField()
    pair = models.CharField(max_length=260)
    entity = models.CharField(max_length=260)
    kind = models.CharField(max_length=20, choices=kinds)
    reason = models.TextField(blank=True)
    process = models.CharField(max_length=300, blank=True)
    operator = models.CharField(max_length=150, null=True, blank=True)
    alerted_at = models.DateTimeField(null=True, blank=True, editable=False, help_text="When the alerts evaluated it.")

    class Meta:
        ordering = ("-time", "-id")
        constraints = (
            # A list of kinds would stop the collector, or drop events, if applications are newer than this version.
            models.CheckConstraint(condition=models.Q(kind__regex=r"^[a-z][a-z_]*$"), name="event_kind_is_a_word"),
        )
        indexes = (
            models.Index(fields=("-time", "-id"), name="event_by_time"),
            models.Index(fields=("pair", "-time"), name="event_by_pair"),
            models.Index(fields=("pair", "entity", "-time"), name="event_by_entity"),
            models.Index(fields=("kind", "-time"), name="event_by_kind"),
            models.Index(fields=("time",), condition=models.Q(alerted_at__isnull=True), name="event_without_alert"),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.entity}"


GATEWAY = "gateway of "
"""How the role of a pair's gateways begins, before its name."""


class Processes(models.Manager["Heartbeat"]):
    """Leaves out gateways, whose role names their pair, where not all pairs are seen."""

    def get_queryset(self) -> models.QuerySet[Heartbeat]:
        rows = super().get_queryset()
        return rows if visible_here() is None else rows.exclude(role__startswith=GATEWAY)


class Heartbeat(models.Model):
    """The last heartbeat of a process."""

    process = models.CharField(max_length=300, unique=True)
    role = models.CharField(max_length=60)
    seen_at = models.DateTimeField()
    problems = models.JSONField(default=dict, blank=True, help_text="Its problems, by pair or by backlog queue.")

    objects = Processes()

    class Meta:
        ordering = ("role", "process")
        indexes = (models.Index(fields=("-seen_at",), name="heartbeat_by_time"),)

    def __str__(self) -> str:
        return self.process


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
