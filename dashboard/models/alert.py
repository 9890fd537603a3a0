"""Alerts: conditions that people should know of, the rules for notifications, and the messages.

Addresses that work as keys are not stored: CHANNELS_FILE names the variables that hold them.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any

from django.db import models
from django.db.models import Q
from django.urls import reverse

from dashboard.models.visibility import OfPair

ANY = "*"


class Severity(models.TextChoices):
    """The severity of an alert, mildest first."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class Alert(OfPair):
    """One condition from its start to its end. While it lasts, there is one row with its key."""

    class Kind(models.TextChoices):
        FAILOVER = "failover", "failed over"
        FORCED_EXPIRING = "forced_expiring", "forced state about to expire"
        BACKLOG = "backlog", "backlog over a threshold"
        CAPACITY = "capacity", "backlog filling up"
        STALLED = "stalled", "syphon stalled"
        LEDGER = "ledger", "ledger unbalanced"
        DEAD_LETTERS = "dead_letters", "dead letters"
        BUDGET = "budget", "budget reached"
        READINESS = "readiness", "readiness fell"
        WORKERS = "workers", "workers silent"
        USAGE = "usage", "usage not written"

    key = models.CharField(
        max_length=420, help_text="The subject of the condition, which identifies it while it lasts."
    )
    kind = models.CharField(max_length=20, choices=Kind)
    severity = models.CharField(max_length=8, choices=Severity)
    pair = models.CharField(max_length=63)
    entity = models.CharField(max_length=300, default=ANY)
    title = models.CharField(max_length=300)
    detail = models.TextField(blank=True)
    began_at = models.DateTimeField(help_text="When the condition began, if known.")
    opened_at = models.DateTimeField(help_text="When it was noticed.")
    ended_at = models.DateTimeField(null=True, blank=True, help_text="When the condition was over.")
    resolved_at = models.DateTimeField(null=True, blank=True, help_text="When that was noticed.")
    acknowledged_at = models.DateTimeField(null=True, blank=True)
    acknowledged_by = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ("-opened_at", "-id")
        constraints = (
            models.UniqueConstraint(fields=("key",), condition=Q(resolved_at__isnull=True), name="one_open_alert"),
            models.CheckConstraint(
                condition=Q(resolved_at__isnull=True) | Q(ended_at__isnull=False), name="resolved_alert_has_an_end"
            ),
            models.CheckConstraint(
                condition=Q(acknowledged_at__isnull=True, acknowledged_by="")
                | (Q(acknowledged_at__isnull=False) & ~Q(acknowledged_by="")),
                name="somebody_acknowledged_it",
            ),
        )
        indexes = (
            models.Index(fields=("resolved_at", "-opened_at"), name="alert_by_end"),
            models.Index(fields=("key", "-began_at"), name="alert_by_key"),
        )

    def __str__(self) -> str:
        return self.title

    @property
    def is_open(self) -> bool:
        return self.resolved_at is None

    @property
    def where(self) -> str:
        """Pair and entity as text."""
        if self.entity == ANY:
            return "everything" if self.pair == ANY else self.pair
        return f"{self.pair} / {self.entity}"


class AlertRule(OfPair):
    """Which channels are notified of which alerts."""

    name = models.CharField(max_length=80, unique=True)
    is_enabled = models.BooleanField(default=True)
    pair = models.CharField(max_length=63, default=ANY, help_text="A name; * stands for any characters.")
    entity = models.CharField(max_length=300, default=ANY, help_text="A path; * stands for any characters.")
    kinds = models.JSONField(default=list, blank=True, help_text="Empty: all.")
    least_severity = models.CharField(max_length=8, choices=Severity, default=Severity.INFO)
    threshold = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="The number of messages in the backlog that raises an alert."
    )
    channels = models.JSONField(default=list, help_text="Names in CHANNELS_FILE.")
    notifies_resolved = models.BooleanField(default=True)
    changed_by = models.CharField(max_length=150, blank=True)
    changed_at = models.DateTimeField()

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("alert-rule", args=[self.pk])


class Notice(OfPair):
    """One message to one channel about one alert, or a test. Its id is the same in every attempt."""

    class State(models.TextChoices):
        WAITING = "waiting"
        SENT = "sent"
        GIVEN_UP = "given_up", "given up"

    class Phase(models.TextChoices):
        OPENED = "opened"
        RESOLVED = "resolved"
        TEST = "test"

    notice_id = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    channel = models.CharField(max_length=63)
    alert = models.ForeignKey(Alert, on_delete=models.CASCADE, null=True, related_name="notices")
    phase = models.CharField(max_length=9, choices=Phase)
    notifies_resolved = models.BooleanField(default=False, help_text="The channel is notified of the end, too.")
    pair = models.CharField(max_length=63, default=ANY)
    created_at = models.DateTimeField()
    due_at = models.DateTimeField()
    state = models.CharField(max_length=8, choices=State, default=State.WAITING)
    message = models.JSONField(null=True, blank=True, help_text="The content, fixed at the first attempt.")
    attempts = models.PositiveIntegerField(default=0)
    claimed_until = models.DateTimeField(null=True, blank=True)
    claimed_by = models.CharField(max_length=32, blank=True)
    status = models.PositiveIntegerField(null=True, blank=True, help_text="Of the last HTTP response.")
    reason = models.TextField(blank=True, help_text="Why the last attempt failed, or why it was not sent.")
    ended_at = models.DateTimeField(null=True, blank=True)
    by = models.CharField(max_length=150, blank=True, help_text="Who requested the test.")

    class Meta:
        ordering = ("-created_at", "-id")
        indexes = (
            models.Index(fields=("due_at",), condition=Q(state="waiting"), name="notice_by_due"),
            models.Index(fields=("channel", "-created_at"), name="notice_by_channel"),
            models.Index(fields=("-created_at", "-id"), name="notice_by_time"),
        )
        constraints = (
            models.CheckConstraint(
                condition=Q(state="waiting", ended_at__isnull=True) | ~Q(state="waiting") & Q(ended_at__isnull=False),
                name="notice_ends_in_an_end",
            ),
            models.UniqueConstraint(fields=("alert", "channel", "phase"), name="notified_once"),
        )

    def __str__(self) -> str:
        return f"{self.channel}: {self.phase}"

    @classmethod
    def open_ones(cls) -> models.QuerySet[Notice]:
        """Messages that are still to be sent."""
        return cls._default_manager.filter(state=cls.State.WAITING)

    @classmethod
    def unclaimed(cls, now: datetime) -> models.QuerySet[Notice]:
        """Due messages that no process has claimed."""
        free = Q(claimed_until__isnull=True) | Q(claimed_until__lt=now)
        return cls.open_ones().filter(free, due_at__lte=now)

    def claim(self, now: datetime, seconds: float) -> bool:
        """Claim it for this time, unless another process has claimed it."""
        token, until = uuid.uuid4().hex, now + timedelta(seconds=seconds)
        if not type(self).unclaimed(now).filter(pk=self.pk).update(claimed_until=until, claimed_by=token):
            return False
        self.refresh_from_db()
        return True

    def keep(self, **changes: Any) -> bool:
        """Store the result and release the claim. False: the claim has expired, and another process has it."""
        mine = type(self).open_ones().filter(pk=self.pk, claimed_by=self.claimed_by)
        return bool(mine.update(**{"claimed_until": None, "claimed_by": "", **changes}))


class ChannelState(models.Model):
    """The state of a channel. A channel without a row has never failed."""

    channel = models.CharField(max_length=63, unique=True)
    failing_since = models.DateTimeField(null=True, blank=True)
    reason = models.TextField(blank=True)
    disabled_at = models.DateTimeField(null=True, blank=True, help_text="Its receiver reported that it is gone.")
    sent_at = models.DateTimeField(null=True, blank=True, help_text="When it last accepted a message.")

    class Meta:
        ordering = ("channel",)

    def __str__(self) -> str:
        return self.channel


class AlertRound(models.Model):
    """The last evaluation of all conditions. Its only row is locked meanwhile, so there is one evaluation at a time."""

    ran_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.ran_at:%Y-%m-%d %H:%M:%S}"
