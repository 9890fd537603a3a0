"""The last readiness of each pair and entity, and its changes."""

from datetime import datetime, timedelta

from django.db import models
from django.db.models import Q
from django.urls import reverse

from dashboard.models.cleanup import Errand
from dashboard.models.pair import Pair
from dashboard.models.visibility import OfPair

WHOLE_PAIR = "*"


class PairReadiness(OfPair):
    """The checks that all entities of a pair share. The process that advances `due_at` of a due row runs them."""

    pair = models.OneToOneField(Pair, on_delete=models.CASCADE, related_name="readiness")
    score = models.PositiveSmallIntegerField(null=True, blank=True, help_text="Of an entity without faults of its own.")
    checks = models.JSONField(default=list, blank=True, help_text="The checks, as JSON objects.")
    probes = models.JSONField(default=dict, blank=True, help_text="The probed rights and their results.")
    checked_at = models.DateTimeField(null=True, blank=True)
    due_at = models.DateTimeField()

    class Meta:
        ordering = ("pair",)
        verbose_name_plural = "readiness of pairs"

    def __str__(self) -> str:
        return f"{self.pair_id}: {self.score}"

    @classmethod
    def claim(cls, pair: Pair, now: datetime, interval: timedelta) -> "PairReadiness | None":
        """The row, if a check is due and no other process claimed it; the next one is due an interval later."""
        cls.objects.get_or_create(pair=pair, defaults={"due_at": now})
        if not cls.objects.filter(pair=pair, due_at__lte=now).update(due_at=now + interval):
            return None
        return cls.objects.get(pair=pair)


class Readiness(OfPair):
    """The readiness of one entity, 0 to 100, and the reasons for missing points."""

    pair = models.ForeignKey(Pair, on_delete=models.CASCADE, related_name="readinesses")
    entity = models.CharField(max_length=260)
    score = models.PositiveSmallIntegerField()
    previous_score = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="Before it fell; if it has not fallen, before the last change."
    )
    fell_at = models.DateTimeField(null=True, blank=True, help_text="When it last fell; empty once it is restored.")
    reasons = models.JSONField(default=list, blank=True, help_text="The checks that are not good, worst first.")
    checked_at = models.DateTimeField()
    own = models.JSONField(default=dict, blank=True, help_text="The results of its own checks, by name.")
    probe = models.JSONField(default=dict, blank=True, help_text="Whether workers may send to it in the primary.")
    probed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("score", "pair", "entity")
        verbose_name_plural = "readiness of entities"
        constraints = (
            models.UniqueConstraint(fields=("pair", "entity"), name="readiness_once_per_entity"),
            models.CheckConstraint(condition=Q(score__lte=100), name="readiness_is_a_percentage"),
        )
        indexes = (
            models.Index(fields=("score", "pair", "entity"), name="readiness_worst_first"),
            models.Index(fields=("pair", "score", "entity"), name="readiness_worst_of_pair"),
            models.Index(fields=("pair", "probed_at"), name="readiness_by_probe"),
        )

    def __str__(self) -> str:
        return f"{self.entity}: {self.score}"

    def get_absolute_url(self) -> str:
        return reverse("readiness-entity", args=[self.pair.name, self.entity])


class ReadinessChange(OfPair):
    """A change in the check results of a pair (entity `*`) or of one entity. Contains changed results only."""

    pair = models.ForeignKey(Pair, on_delete=models.CASCADE, related_name="+")
    entity = models.CharField(max_length=260, default=WHOLE_PAIR)
    at = models.DateTimeField()
    results = models.JSONField(help_text="By the name of the check: those of the pair, or of the entity.")

    class Meta:
        ordering = ("at", "id")
        indexes = (
            models.Index(fields=("pair", "entity", "at"), name="readiness_change_of_entity"),
            models.Index(fields=("at",), name="readiness_change_by_time"),
        )

    def __str__(self) -> str:
        return f"{self.entity}: {self.results}"


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
