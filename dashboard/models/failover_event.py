"""Failover events, each reported once by the process that observed it."""

from django.db import models


class FailoverEvent(models.Model):
    """One event. Its id identifies it across redeliveries, so it is stored once; events outlive their pairs."""

    class Kind(models.TextChoices):
        FAILING = "failing"
        FAILED_OVER = "failed_over"
        RECOVERED = "recovered"
        FORCED = "forced"
        HELD = "held"
        RELEASED = "released"
        QUEUE_PULLED = "queue_pulled"
        QUEUE_RETURNED = "queue_returned"
        DEAD_LETTERED = "dead_lettered"
        SET_ASIDE = "set_aside"
        SYPHON_STARTED = "syphon_started"
        SYPHON_PAUSED = "syphon_paused"
        SYPHON_RESUMED = "syphon_resumed"
        SYPHON_STOPPED = "syphon_stopped"
        CAPACITY_WARNING = "capacity_warning"
        ORDER_AT_RISK = "order_at_risk"
        LEDGER_UNBALANCED = "ledger_unbalanced"

    event_id = models.CharField(max_length=36, unique=True)
    time = models.DateTimeField()
    pair = models.CharField(max_length=260)
    entity = models.CharField(max_length=260)
    kind = models.CharField(max_length=20, choices=Kind)
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
