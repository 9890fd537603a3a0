"""Failover events, each reported once by the process that observed it."""

from django.db import models

from dashboard.models.visibility import OfPair
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
