"""The pairs of PAIRS_FILE, as rows that facts refer to."""

from django.db import models
from django.urls import reverse

from dashboard.models.visibility import OfPair


class Pair(OfPair):
    """One primary and one secondary namespace. Written by sync_pairs, without credentials."""

    of_pair = "id"

    name = models.CharField(max_length=63, unique=True)
    primary_namespace = models.CharField(max_length=260)
    secondary_namespace = models.CharField(max_length=260)
    primary_region = models.CharField(max_length=60, blank=True)
    secondary_region = models.CharField(max_length=60, blank=True)
    primary_tier = models.CharField(max_length=20, default="standard")
    secondary_tier = models.CharField(max_length=20, default="standard")
    backlog_queue_count = models.PositiveIntegerField(default=10)
    failover_interval_s = models.FloatField(default=60)
    ping_primary_interval_s = models.FloatField(default=60)
    is_emulated = models.BooleanField(default=False, help_text="Both namespaces run on this host.")
    is_configured = models.BooleanField(default=True, help_text="PAIRS_FILE names it.")
    synced_at = models.DateTimeField()
    dead_letters_at = models.DateTimeField(
        null=True, blank=True, help_text="When the dead letters of its queues were counted."
    )

    groups = models.ManyToManyField(
        "auth.Group",
        blank=True,
        related_name="pairs",
        help_text="Only members of these groups and superusers see the pair. None: everybody with a role does.",
    )

    class Meta:
        ordering = ("name",)
        permissions = (
            ("operate_pair", "Can fail over, hold, release and heal entities, pause and resume syphons"),
            ("administer_pair", "Can delete what holds messages"),
        )
        constraints = (
            models.CheckConstraint(condition=models.Q(backlog_queue_count__gte=1), name="pair_has_a_backlog_queue"),
            models.CheckConstraint(
                condition=models.Q(failover_interval_s__gte=0, ping_primary_interval_s__gt=0),
                name="pair_has_its_intervals",
            ),
            models.CheckConstraint(
                condition=~models.Q(primary_namespace=models.F("secondary_namespace")),
                name="pair_has_two_namespaces",
            ),
        )

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("pair-detail", args=[self.name])
