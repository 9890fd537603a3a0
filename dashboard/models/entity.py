"""Entities of primary namespaces, and their health."""

from typing import ClassVar, Self

from django.db import models
from django.urls import reverse

from dashboard.models.pair import Pair
from dashboard.models.visibility import OfPair, PairScoped

DRILLS_CANARY = "pairing-canary"
"""The name of canaries that drills create."""
AT_REST = 3
"""The rank of an entity that is neither failed over nor failing, and without waiting messages."""


class Entities(models.QuerySet["EntityHealth"]):
    """A query set of entities."""

    def present(self) -> Self:
        """Entities to show; a deleted one is shown while it is failed over, or while messages wait for it.

        A canary that only drills use is none of the entities that people watch and count.
        """
        return self.exclude(gone_at__isnull=False, rank=AT_REST).exclude(is_canary=True, is_configured=False)

    def of_drills(self) -> Self:
        """Canaries that only drills use: what happens to them is no outage."""
        return self.filter(is_canary=True, is_configured=False)

    def seen_in(self) -> models.Exists:
        """Whether an event, in a query of events, is of one of these entities."""
        return models.Exists(self.filter(pair__name=models.OuterRef("pair"), path=models.OuterRef("entity")))


EntityManager = PairScoped.from_queryset(Entities)


class EntityHealth(OfPair):
    """The last reported health of one entity. Changed only by compare and set on its version (projection.py)."""

    class Kind(models.TextChoices):
        QUEUE = "queue"
        TOPIC = "topic"

    class State(models.TextChoices):
        UNKNOWN = "unknown"
        HEALTHY = "healthy"
        FAILING = "failing"
        FAILED_OVER = "failed_over"

    pair = models.ForeignKey(Pair, on_delete=models.CASCADE, related_name="entities")
    path = models.CharField(max_length=260)
    kind = models.CharField(max_length=5, choices=Kind, default=Kind.QUEUE)
    state = models.CharField(max_length=11, choices=State, default=State.UNKNOWN)
    since = models.DateTimeField(null=True, blank=True)
    reason = models.TextField(blank=True)
    held_by = models.CharField(max_length=150, null=True, blank=True)
    expires = models.DateTimeField(null=True, blank=True)
    origin = models.CharField(max_length=7, default="organic", choices=(("organic", "organic"), ("forced", "forced")))
    version = models.BigIntegerField(default=0)
    process = models.CharField(max_length=300, blank=True)
    applied_at = models.DateTimeField(null=True, blank=True)
    failed_over_in = models.PositiveIntegerField(null=True, blank=True, help_text="Processes that do not dispute it.")
    processes = models.PositiveIntegerField(null=True, blank=True, help_text="Living processes that send; empty: all.")
    is_configured = models.BooleanField(default=False, help_text="PAIRS_FILE names it.")
    is_canary = models.BooleanField(
        default=False, help_text="Reserved for drills; not counted unless PAIRS_FILE names it."
    )
    gone_at = models.DateTimeField(
        null=True, blank=True, help_text="Since when it is neither in PAIRS_FILE nor in the primary."
    )

    last_ping_at = models.DateTimeField(null=True, blank=True)
    last_ping_accepted = models.BooleanField(null=True, blank=True)
    last_ping_reason = models.TextField(blank=True)
    ping_count = models.PositiveIntegerField(default=0)
    pings_ever = models.PositiveBigIntegerField(default=0, help_text="In all its failovers; never decreases.")
    next_ping_at = models.DateTimeField(null=True, blank=True)

    rank = models.GeneratedField(
        expression=models.Case(
            models.When(state="failed_over", then=models.Value(0)),
            models.When(state="failing", then=models.Value(1)),
            models.When(waiting__gt=0, then=models.Value(2)),
            default=models.Value(AT_REST),
        ),
        output_field=models.PositiveSmallIntegerField(),
        db_persist=True,
        help_text="Worst first, so that an index serves the first page of a long list.",
    )

    waiting = models.PositiveBigIntegerField(null=True, blank=True, help_text="Messages for it in the backlog.")
    waiting_is_complete = models.BooleanField(default=True, help_text="False: an estimate.")
    waiting_at = models.DateTimeField(null=True, blank=True)
    oldest_waiting_at = models.DateTimeField(null=True, blank=True)
    dead_lettered = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="Its dead letters in the primary; empty: unknown."
    )

    objects: ClassVar["EntityManager[EntityHealth]"] = EntityManager()  # type: ignore[assignment]

    class Meta:
        ordering = ("path",)
        verbose_name = "entity"
        verbose_name_plural = "entities"
        constraints = (
            models.UniqueConstraint(fields=("pair", "path"), name="entity_once_per_pair"),
            models.CheckConstraint(
                condition=models.Q(state__in=("unknown", "healthy", "failing", "failed_over")),
                name="entity_state_is_known",
            ),
            models.CheckConstraint(condition=models.Q(kind__in=("queue", "topic")), name="entity_kind_is_known"),
            models.CheckConstraint(
                condition=models.Q(state="unknown") | models.Q(since__isnull=False), name="entity_state_has_a_beginning"
            ),
            models.CheckConstraint(
                condition=models.Q(held_by__isnull=True) | models.Q(state="failed_over"),
                name="only_failed_over_is_held",
            ),
            models.CheckConstraint(
                condition=models.Q(expires__isnull=True) | models.Q(held_by__isnull=False),
                name="only_what_is_held_expires",
            ),
            models.CheckConstraint(
                condition=models.Q(last_ping_at__isnull=True, last_ping_accepted__isnull=True)
                | models.Q(last_ping_at__isnull=False, last_ping_accepted__isnull=False),
                name="a_ping_is_accepted_or_not",
            ),
            models.CheckConstraint(
                condition=models.Q(oldest_waiting_at__isnull=True) | models.Q(waiting__gt=0),
                name="the_oldest_is_one_that_waits",
            ),
            models.CheckConstraint(condition=models.Q(origin__in=("organic", "forced")), name="entity_origin_is_known"),
            models.CheckConstraint(
                condition=models.Q(processes__isnull=True, failed_over_in__isnull=True)
                | models.Q(
                    processes__isnull=False, failed_over_in__isnull=False, failed_over_in__lte=models.F("processes")
                ),
                name="some_of_all_processes",
            ),
        )
        indexes = (
            models.Index(fields=("pair", "state"), name="entity_by_state"),
            models.Index(fields=("rank", "pair", "path"), name="entity_worst_first"),
            models.Index(fields=("pair", "rank", "path"), name="entity_worst_of_pair"),
        )

    def __str__(self) -> str:
        return self.path

    def get_absolute_url(self) -> str:
        return reverse("entity-detail", args=[self.pair.name, self.path])

    @property
    def is_gone(self) -> bool:
        """Whether it is not to be shown."""
        return self.gone_at is not None and self.rank == AT_REST

    @property
    def disagreement(self) -> str:
        """`failed over in 1 of 8` if some processes, whose sends are accepted, dispute it; otherwise empty."""
        if self.state != self.State.FAILED_OVER or self.processes is None:
            return ""
        return f"failed over in {self.failed_over_in} of {self.processes}"


class WaitingSample(OfPair):
    """The number of messages for one entity in the backlog at one moment, the source of sparklines."""

    of_pair = "entity__pair"

    entity = models.ForeignKey(EntityHealth, on_delete=models.CASCADE, related_name="samples")
    at = models.DateTimeField()
    waiting = models.PositiveBigIntegerField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=("entity", "at"), name="entity_sampled_once_a_moment"),)
        indexes = (models.Index(fields=("at",), name="waiting_by_time"),)

    def __str__(self) -> str:
        return f"{self.entity_id}: {self.waiting}"


BELOW = "/Subscriptions/"


class TopicSubscription(OfPair):
    """A subscription and its dead letters at the last count. A deleted one has no row."""

    of_pair = "topic__pair"

    topic = models.ForeignKey(EntityHealth, on_delete=models.CASCADE, related_name="subscriptions")
    name = models.CharField(max_length=50)
    dead_lettered = models.PositiveBigIntegerField()
    counted_at = models.DateTimeField()

    class Meta:
        ordering = ("topic", "name")
        constraints = (
            models.UniqueConstraint(fields=("topic", "name"), name="subscription_once_per_topic"),
            models.CheckConstraint(condition=~models.Q(name=""), name="subscription_has_a_name"),
        )

    def __str__(self) -> str:
        return self.path

    @property
    def path(self) -> str:
        """Its address in the namespace."""
        return f"{self.topic.path}{BELOW}{self.name}"
