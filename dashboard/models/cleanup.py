"""What is to be done with backlog queues and dead letters: due rows, carried out by whichever worker claims them.

A row is written before anything is done. Workers may be killed, doubled or frozen: who carries a row on holds a claim
that lapses, and every step is a conditional update, so that a process whose claim has lapsed changes nothing more.
"""

import uuid
from datetime import datetime, timedelta
from typing import Any, Self

from django.db import models
from django.db.models import Q

from dashboard.models.backlog import COUNTS
from dashboard.models.pair import Pair


class Errand(models.Model):
    """Something an operator wants done about one queue; over once `ended_at` is set."""

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
        """Those that are not over."""
        return cls._default_manager.filter(ended_at__isnull=True)

    @classmethod
    def unclaimed(cls, now: datetime) -> models.QuerySet[Self]:
        """Those that are not finished and not claimed by a process."""
        return cls.open_ones().filter(Q(claimed_until__isnull=True) | Q(claimed_until__lt=now))

    def claim(self, now: datetime, seconds: float) -> bool:
        """Claim it for so long, unless another process has claimed it."""
        token, until = uuid.uuid4().hex, now + timedelta(seconds=seconds)
        if not type(self).unclaimed(now).filter(pk=self.pk).update(claimed_until=until, claimed_by=token):
            return False
        self.refresh_from_db()
        return True

    def keep(self, **changes: Any) -> bool:
        """Write down how far it is. False: the claim has lapsed and another carries it on, or it is over."""
        mine = type(self).open_ones().filter(pk=self.pk, claimed_by=self.claimed_by)
        kept = bool(mine.update(**changes))
        if kept:
            self.refresh_from_db()
        return kept

    def lay_down(self) -> None:
        """Give the claim up, so that the next look need not wait for its end."""
        self.keep(claimed_until=None, claimed_by="")


class QueueDeletion(Errand):
    """The deletion of a backlog queue: quarantined first, deleted once the undo window is over and nothing changed."""

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
    queue_created_at = models.CharField(max_length=40, help_text="With its path, a queue's identity.")
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
        """Messages of every kind that go with the queue."""
        return sum(int(self.counts.get(name, 0)) for name in COUNTS)

    @property
    def is_revocable(self) -> bool:
        """Whether it can still be taken back."""
        return self.stage in (self.Stage.WANTED, self.Stage.QUARANTINED)


class QueueDrain(Errand):
    """A syphon's run for one backlog queue that no pair's own syphon serves."""

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

    path = models.CharField(max_length=330)  # a topic's 260 and a subscription's 50, with what stands between
    kind = models.CharField(max_length=8, choices=Kind.choices)
    destination = models.CharField(max_length=300, blank=True, help_text="Empty: each to the entity it was meant for.")
    numbers = models.JSONField(default=list, help_text="Sequence numbers; empty: all up to `upto`.")
    upto = models.BigIntegerField(help_text="The highest sequence number there was when it was wanted.")
    finished = models.JSONField(default=list, help_text="Those of `numbers` that are done.")
    under_way = models.JSONField(default=list, help_text="What a worker has begun with: once gone, it is done.")
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
        """How far it is, 0 to 100."""
        return min(100, 100 * (self.done + self.failed) // self.total) if self.total else 0


class DiscardedMessage(models.Model):
    """What is kept of a dead letter that was discarded: written before it is, its body as a digest only."""

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
