"""Drills: real failovers of a canary entity, carried out step by step by the worker that claims the row."""

from django.db import models
from django.db.models import Q
from django.urls import reverse

from dashboard.models.cleanup import Errand


class Drill(Errand):
    """One drill. `path` is the canary; `course` holds progress and observations, stored after each step."""

    class Outcome(models.TextChoices):
        PASSED = "passed"
        FAILED = "failed"
        ABORTED = "aborted"

    class Kind(models.TextChoices):
        QUEUE = "queue"
        SESSIONS = "session_queue", "queue with sessions"
        TOPIC = "topic"

    kind = models.CharField(
        max_length=13, choices=Kind.choices, default=Kind.QUEUE, help_text="The type of the canary."
    )
    step = models.CharField(max_length=12, default="preparing")
    messages = models.PositiveIntegerField(default=30)
    is_scheduled = models.BooleanField(default=False)
    creates_canary = models.BooleanField(default=False)
    expires_at = models.DateTimeField(help_text="When the forced failover expires in any case.")
    course = models.JSONField(default=dict, blank=True, help_text="Progress and observations.")
    abort_wanted_by = models.CharField(max_length=150, blank=True)
    outcome = models.CharField(max_length=7, blank=True, choices=Outcome.choices)
    report = models.JSONField(default=dict, blank=True)

    class Meta(Errand.Meta):
        constraints = (
            models.UniqueConstraint(
                fields=("pair",), condition=Q(ended_at__isnull=True), name="one_open_drill_of_a_pair"
            ),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True, outcome="") | (Q(ended_at__isnull=False) & ~Q(outcome="")),
                name="drill_ends_with_an_outcome",
            ),
        )
        indexes = (models.Index(fields=("pair", "path", "-at"), name="drill_of_canary"),)

    def get_absolute_url(self) -> str:
        return reverse("drill-detail", args=[self.pk])
