"""Requested operations on backlog queues and dead letters, carried out by the worker that claims the row.

A row is stored before anything is done. Workers may be killed, doubled or frozen: the holder has a claim that expires,
and every step is a conditional update, so that a process with an expired claim changes nothing.
"""

import uuid
from datetime import datetime, timedelta
from typing import Any, Self, cast

from django.db import IntegrityError, models, transaction
from django.db.models import Q

from dashboard.models.backlog import COUNTS
from dashboard.models.pair import Pair
from dashboard.models.visibility import OfPair


class Errand(OfPair):
    """An operation on one queue that an operator requested; finished once `ended_at` is set."""

    pair = models.ForeignKey(Pair, on_delete=models.CASCADE, related_name="+")
    path = models.CharField(max_length=300)
    by = models.CharField(max_length=150)
    reason = models.TextField(blank=True)
    at = models.DateTimeField()
    request_id = models.CharField(max_length=36, unique=True)
    claimed_until = models.DateTimeField(null=True, blank=True)
    claimed_by = models.CharField(max_length=32, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    detail = models.TextField(blank=True)

    class Meta:
        abstract = True
        ordering = ("-at", "-id")

    def __str__(self) -> str:
        return f"{self.pair_id}: {self.path}"

    @classmethod
    def open_ones(cls) -> models.QuerySet[Self]:
        """Unfinished rows."""
        return cast("models.QuerySet[Self]", cls._default_manager.filter(ended_at__isnull=True))

    @classmethod
    def unclaimed(cls, now: datetime) -> models.QuerySet[Self]:
        """Unfinished rows that no process has claimed."""
        return cls.open_ones().filter(Q(claimed_until__isnull=True) | Q(claimed_until__lt=now))

    def begin(self) -> bool:
        """Store the new row. False if another one is open, of which there is at most one."""
        try:
            with transaction.atomic():
                self.save()
        except IntegrityError:
            return False
        return True

    def claim(self, now: datetime, seconds: float) -> bool:
        """Claim it for this time, unless another process has claimed it."""
        token, until = uuid.uuid4().hex, now + timedelta(seconds=seconds)
        if not type(self).unclaimed(now).filter(pk=self.pk).update(claimed_until=until, claimed_by=token):
            return False
        self.refresh_from_db()
        return True

    def keep(self, **changes: Any) -> bool:
        """Store the progress. False: the claim has expired and another process continues, or it is finished."""
        mine = type(self).open_ones().filter(pk=self.pk, claimed_by=self.claimed_by)
        kept = bool(mine.update(**changes))
        if kept:
            self.refresh_from_db()
        return kept

    def lay_down(self) -> None:
        """Release the claim, so that the next look need not wait for its expiry."""
        self.keep(claimed_until=None, claimed_by="")


class QueueDeletion(Errand):
    """The deletion of a backlog queue: quarantined first, deleted after the undo window if nothing has changed."""

    class Stage(models.TextChoices):
        WANTED = "wanted"
        QUARANTINED = "quarantined"
        DELETING = "deleting"
        RETURNING = "returning"
        DELETED = "deleted"
        TAKEN_BACK = "taken_back"
        KEPT = "kept"

    stage = models.CharField(max_length=11, choices=Stage.choices, default=Stage.WANTED)
    due_at = models.DateTimeField()
    returns_as = models.CharField(max_length=11, blank=True, choices=Stage.choices)
    status_before = models.CharField(max_length=30, default="Active")
    queue_created_at = models.CharField(max_length=40, help_text="Identifies the queue, together with its path.")
    counts = models.JSONField(help_text="What the queue held when the deletion was confirmed.")

    class Meta(Errand.Meta):
        constraints = (
            models.UniqueConstraint(
                fields=("pair", "path"), condition=Q(ended_at__isnull=True), name="one_open_deletion_of_a_queue"
            ),
            models.CheckConstraint(
                condition=Q(stage__in=("deleted", "taken_back", "kept"), ended_at__isnull=False)
                | Q(stage__in=("wanted", "quarantined", "deleting", "returning"), ended_at__isnull=True),
                name="deletion_ends_in_an_end",
            ),
            models.CheckConstraint(
                condition=~Q(stage="returning") | Q(returns_as__in=("taken_back", "kept")),
                name="what_returns_knows_as_what",
            ),
        )
        indexes = (models.Index(fields=("ended_at", "due_at"), name="deletion_by_due"),)

    @property
    def messages(self) -> int:
        """Messages of all kinds that are deleted with the queue."""
        return sum(int(self.counts.get(name, 0)) for name in COUNTS)

    @property
    def is_revocable(self) -> bool:
        """Whether it can still be cancelled."""
        return self.stage in (self.Stage.WANTED, self.Stage.QUARANTINED)


class QueueDrain(Errand):
    """The drain of one backlog queue that is not served by the syphon of a pair."""

    moved = models.PositiveBigIntegerField(default=0)
    waiting = models.PositiveBigIntegerField(default=0)

    class Meta(Errand.Meta):
        constraints = (
            models.UniqueConstraint(
                fields=("pair", "path"), condition=Q(ended_at__isnull=True), name="one_open_drain_of_a_queue"
            ),
        )


class DeadLetterJob(Errand):
    """Dead letters of one queue or subscription, sent again or discarded by a worker."""

    class Kind(models.TextChoices):
        RESUBMIT = "resubmit"
        DISCARD = "discard"

    path = models.CharField(max_length=330)  # a topic's 260 and a subscription's 50, with the part between them
    kind = models.CharField(max_length=8, choices=Kind.choices)
    destination = models.CharField(max_length=300, blank=True, help_text="Empty: each to its original entity.")
    numbers = models.JSONField(default=list, help_text="Sequence numbers; empty: all up to `upto`.")
    upto = models.BigIntegerField(help_text="The highest sequence number at the time of the request.")
    finished = models.JSONField(default=list, help_text="The processed ones of `numbers`.")
    under_way = models.JSONField(default=list, help_text="Messages in progress: one that is gone is done.")
    total = models.PositiveBigIntegerField(default=0)
    done = models.PositiveBigIntegerField(default=0)
    failed = models.PositiveBigIntegerField(default=0)

    class Meta(Errand.Meta):
        constraints = (
            models.UniqueConstraint(
                fields=("pair", "path"), condition=Q(ended_at__isnull=True), name="one_open_job_of_dead_letters"
            ),
            models.CheckConstraint(
                condition=Q(kind="resubmit") | Q(kind="discard", destination=""), name="job_does_one_of_two_things"
            ),
        )

    @property
    def percent(self) -> int:
        """Its progress, 0 to 100."""
        return min(100, 100 * (self.done + self.failed) // self.total) if self.total else 0


class ResubmittedMessage(OfPair):
    """A dead letter of a backlog queue that was sent again: stored once the send is acknowledged, then completed."""

    of_pair = "job__pair"

    job = models.ForeignKey(DeadLetterJob, on_delete=models.CASCADE, related_name="resubmitted")
    number = models.BigIntegerField()
    entity = models.CharField(max_length=300, blank=True, help_text="The one that it was sent to first.")
    enqueued_at = models.DateTimeField(null=True, blank=True, help_text="In the backlog queue.")
    at = models.DateTimeField()

    class Meta:
        ordering = ("-at", "number")
        constraints = (models.UniqueConstraint(fields=("job", "number"), name="resubmitted_once"),)
        indexes = (models.Index(fields=("entity", "enqueued_at"), name="resubmitted_by_entity"),)

    def __str__(self) -> str:
        return f"{self.number}: {self.entity}"


class DiscardedMessage(OfPair):
    """The record of a discarded dead letter: stored before it is discarded, with only a digest of its body."""

    of_pair = "job__pair"

    job = models.ForeignKey(DeadLetterJob, on_delete=models.PROTECT, related_name="discarded")
    number = models.BigIntegerField()
    message_id = models.CharField(max_length=300, blank=True)
    entity = models.CharField(max_length=300, blank=True)
    dead_letter_reason = models.CharField(max_length=300, blank=True)
    enqueued_at = models.DateTimeField(null=True, blank=True)
    size = models.PositiveBigIntegerField(default=0)
    sha256 = models.CharField(max_length=64, help_text="Of the body.")
    at = models.DateTimeField()

    class Meta:
        ordering = ("-at", "number")
        constraints = (models.UniqueConstraint(fields=("job", "number"), name="discarded_once"),)

    def __str__(self) -> str:
        return f"{self.number}: {self.message_id}"
