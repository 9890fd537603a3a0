"""Backlog queues of secondary namespaces, and their depth over time: samples, peaks, and rollups of a month."""

from django.db import models

from dashboard.models.pair import Pair
from dashboard.models.visibility import OfPair

COUNTS = ("active", "scheduled", "dead_lettered", "transfer", "transfer_dead_lettered")


class BacklogQueue(OfPair):
    """A backlog queue at its last sample. `index` is null if the name does not end in a number."""

    pair = models.ForeignKey(Pair, on_delete=models.CASCADE, related_name="backlog_queues")
    path = models.CharField(max_length=300)
    index = models.PositiveIntegerField(null=True, blank=True)
    active = models.PositiveBigIntegerField(default=0)
    scheduled = models.PositiveBigIntegerField(default=0)
    dead_lettered = models.PositiveBigIntegerField(default=0)
    transfer = models.PositiveBigIntegerField(default=0)
    transfer_dead_lettered = models.PositiveBigIntegerField(default=0)
    size_bytes = models.PositiveBigIntegerField(default=0)
    max_size_bytes = models.PositiveBigIntegerField(default=0)
    status = models.CharField(max_length=30, default="Active")
    deviations = models.JSONField(default=dict, blank=True, help_text="{property: [expected, actual]}")
    is_orphan = models.BooleanField(default=False)
    created_at = models.DateTimeField(null=True, blank=True)
    accessed_at = models.DateTimeField(null=True, blank=True)
    deliverable_since = models.DateTimeField(
        null=True, blank=True, help_text="Since when it holds messages for entities that accept them."
    )
    seen_at = models.DateTimeField()
    is_gone = models.BooleanField(default=False, help_text="It does not exist in the namespace any more.")

    class Meta:
        ordering = ("pair", "index", "path")
        constraints = (
            models.UniqueConstraint(fields=("pair", "path"), name="backlog_queue_once_per_pair"),
            models.CheckConstraint(
                condition=models.Q(is_gone=False)
                | models.Q(
                    active=0,
                    scheduled=0,
                    dead_lettered=0,
                    transfer=0,
                    transfer_dead_lettered=0,
                    size_bytes=0,
                    deliverable_since__isnull=True,
                ),
                name="what_is_gone_holds_nothing",
            ),
        )
        indexes = (models.Index(fields=("pair", "is_gone"), name="backlog_queue_by_pair"),)

    def __str__(self) -> str:
        return self.path

    @property
    def messages(self) -> int:
        """Messages still to be drained, without dead-lettered ones."""
        return self.active + self.scheduled

    @property
    def share_full(self) -> float:
        """How full the queue is, 0 to 1; 0 if its size limit is unknown."""
        return self.size_bytes / self.max_size_bytes if self.max_size_bytes else 0.0


class PairDepth(OfPair):
    """The counts of all backlog queues of one pair at one moment, the source of the pair's charts."""

    pair = models.ForeignKey(Pair, on_delete=models.CASCADE, related_name="depths")
    at = models.DateTimeField()
    messages = models.PositiveBigIntegerField()
    dead_lettered = models.PositiveBigIntegerField(default=0)
    size_bytes = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("pair", "at"), name="pair_sampled_once_a_moment"),)
        indexes = (models.Index(fields=("at",), name="pair_depth_by_time"),)

    def __str__(self) -> str:
        return f"{self.pair_id}: {self.messages}"


class DepthSample(OfPair):
    """The counts of one backlog queue at one moment."""

    of_pair = "queue__pair"

    queue = models.ForeignKey(BacklogQueue, on_delete=models.CASCADE, related_name="samples")
    at = models.DateTimeField()
    active = models.PositiveBigIntegerField()
    scheduled = models.PositiveBigIntegerField(default=0)
    dead_lettered = models.PositiveBigIntegerField(default=0)
    size_bytes = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("queue", "at"), name="queue_sampled_once_a_moment"),)
        indexes = (models.Index(fields=("at",), name="depth_by_time"),)

    def __str__(self) -> str:
        return f"{self.queue_id}: {self.active}"


WHOLE_BACKLOG = "*"


class DepthPeak(OfPair):
    """The highest depth of the backlog of a pair (path `*`), or of one of its entities, in one time step."""

    pair = models.ForeignKey(Pair, on_delete=models.CASCADE, related_name="peaks")
    path = models.CharField(max_length=260, default=WHOLE_BACKLOG)
    step_s = models.PositiveIntegerField(help_text="How long the step is, in seconds.")
    at = models.DateTimeField(help_text="When the step begins: a multiple of its length.")
    peak = models.PositiveBigIntegerField()
    last = models.PositiveBigIntegerField(help_text="Messages waiting at the end of the step.")

    class Meta:
        ordering = ("pair", "path", "at")
        constraints = (
            models.UniqueConstraint(fields=("pair", "path", "step_s", "at"), name="one_peak_of_a_step"),
            models.CheckConstraint(condition=models.Q(step_s__gt=0), name="a_step_has_a_length"),
            models.CheckConstraint(condition=models.Q(peak__gte=models.F("last")), name="a_peak_is_the_highest"),
        )
        indexes = (models.Index(fields=("pair", "step_s", "at"), name="peaks_of_a_pair"),)

    def __str__(self) -> str:
        return f"{self.path} {self.at:%Y-%m-%d %H:%M}: {self.peak}"


class BacklogRollup(OfPair):
    """The depth of a pair's backlog in an hour or on a day. Values of days are computed from samples too."""

    pair = models.CharField(max_length=63)
    queue = models.CharField(max_length=300, help_text="The path of a backlog queue; * is all of the pair together.")
    month = models.CharField(max_length=7)
    begins_at = models.DateTimeField()
    is_day = models.BooleanField(help_text="A whole day; an hour otherwise.")
    samples = models.PositiveIntegerField()
    deepest = models.BigIntegerField()
    p50 = models.BigIntegerField()
    p95 = models.BigIntegerField()

    class Meta:
        ordering = ("begins_at", "pair", "queue")
        constraints = (
            models.UniqueConstraint(fields=("pair", "queue", "begins_at", "is_day"), name="one_rollup_per_period"),
        )
        indexes = (models.Index(fields=("month", "is_day"), name="rollups_of_a_month"),)

    def __str__(self) -> str:
        return f"{self.pair}/{self.queue} {self.begins_at:%Y-%m-%d %H:%M}"
