"""Monthly charges: runs of the pipeline, and their results. Money is stored as whole cents, its exact share as text."""

import math
from datetime import datetime

from django.db import models

from dashboard.models.visibility import OfPair

PUBLISHED, SETTLEMENTS = "published", "settlements"
RULES = ((PUBLISHED, "published: transfers only"), (SETTLEMENTS, "settlements: settling counts too"))
TIME = "time"
ALLOCATIONS = ((TIME, "time: the first operations of a month"), ("pro-rata", "pro-rata: all operations by share"))
"""What the included operations go to."""


class ChargeRun(OfPair):
    """One run of the charges job for a month: its progress, its input, and why it failed if it did."""

    of_pair = ""

    class Status(models.TextChoices):
        WANTED = "wanted"
        RUNNING = "running"
        SUCCEEDED = "succeeded"
        FAILED = "failed"

    month = models.CharField(max_length=7)
    status = models.CharField(max_length=10, choices=Status, default=Status.RUNNING)
    rule = models.CharField(max_length=12, choices=RULES, default=PUBLISHED)
    allocation = models.CharField(max_length=10, choices=ALLOCATIONS, default=TIME)
    stage = models.CharField(max_length=80, blank=True)
    share = models.FloatField(default=0)
    rows = models.BigIntegerField(default=0)
    details = models.JSONField(default=dict, help_text="Counts, reasons and price rows from the job.")
    error = models.TextField(blank=True)
    started_by = models.CharField(max_length=150, blank=True)
    started_at = models.DateTimeField()
    heard_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-started_at", "-id")
        indexes = (models.Index(fields=("month", "-started_at"), name="charge_runs_of_a_month"),)

    def __str__(self) -> str:
        return f"{self.month}: {self.status}"

    @property
    def percent(self) -> int:
        return round(100 * self.share)

    @property
    def as_of(self) -> datetime:
        """The minute from which on nothing is priced, as not all records were written yet when it read them."""
        return datetime.fromisoformat(self.details["until"]) if "until" in self.details else self.started_at


class Invoice(OfPair):
    """The bill of one billing scope for one month, as its newest run computed it."""

    of_pair = ""

    run = models.ForeignKey(ChargeRun, on_delete=models.PROTECT, related_name="invoices")
    month = models.CharField(max_length=7)
    scope = models.CharField(max_length=200)
    rule = models.CharField(max_length=12, choices=RULES)
    allocation = models.CharField(max_length=10)
    currency = models.CharField(max_length=3)
    cents = models.BigIntegerField()
    exact = models.CharField(max_length=40)
    units = models.BigIntegerField(help_text="Billable operations of the month.")
    tiers = models.JSONField(default=list, help_text="The units in each price tier; then Basic's, then Premium's.")
    unpriced_bytes = models.BigIntegerField(default=0, help_text="They crossed regions at an unknown price.")

    class Meta:
        ordering = ("month", "scope")
        constraints = (models.UniqueConstraint(fields=("month", "scope"), name="one_invoice_per_scope"),)

    def __str__(self) -> str:
        return f"{self.month} {self.scope} ({self.rule})"


class MonthlyReport(OfPair):
    """The rows of a month as a run computed them, so that a report that was paid can be had again."""

    of_pair = ""

    run = models.OneToOneField(ChargeRun, on_delete=models.PROTECT, related_name="report")
    cents = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    csv = models.TextField(help_text="The file with the columns of costs.csv.")

    class Meta:
        ordering = ("-run__started_at", "-run__id")

    def __str__(self) -> str:
        return f"report of {self.run}"


class Charge(OfPair):
    """A row of an invoice: the cost of a namespace, entity and kind for a pair. Rows sum to the invoice to the cent."""

    invoice = models.ForeignKey(Invoice, on_delete=models.CASCADE, related_name="charges")
    pair = models.CharField(max_length=63, blank=True)
    namespace = models.CharField(max_length=260)
    entity = models.CharField(max_length=300)
    kind = models.CharField(max_length=30)
    operations = models.BigIntegerField()
    messages = models.BigIntegerField(default=0)
    bytes = models.BigIntegerField(default=0)
    billing_units = models.BigIntegerField()
    included_units = models.BigIntegerField()
    quantity = models.CharField(max_length=40)
    exact = models.CharField(max_length=40)
    cents = models.BigIntegerField()
    tiers = models.JSONField(default=list, help_text="Its units in each price tier; then Basic's, then Premium's.")

    class Meta:
        ordering = ("namespace", "entity", "kind", "pair")
        constraints = (
            models.UniqueConstraint(
                fields=("invoice", "namespace", "entity", "kind", "pair"), name="one_charge_per_key"
            ),
        )

    def __str__(self) -> str:
        return f"{self.namespace}/{self.entity} {self.kind}"


class DailyCharge(OfPair):
    """The cost of the operations of one kind on one day, before rounding."""

    of_pair = ""

    invoice = models.ForeignKey(Invoice, on_delete=models.CASCADE, related_name="days")
    date = models.DateField()
    kind = models.CharField(max_length=30)
    operations = models.BigIntegerField()
    billing_units = models.BigIntegerField()
    exact = models.CharField(max_length=40)

    class Meta:
        ordering = ("date", "kind")
        constraints = (models.UniqueConstraint(fields=("invoice", "date", "kind"), name="one_daily_charge_per_kind"),)

    def __str__(self) -> str:
        return f"{self.date} {self.kind}"


class Outage(OfPair):
    """An outage of one entity in one month: from its failover to its recovery, with its operations."""

    run = models.ForeignKey(ChargeRun, on_delete=models.PROTECT, related_name="outages")
    month = models.CharField(max_length=7)
    pair = models.CharField(max_length=260)
    entity = models.CharField(max_length=300)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    cause = models.CharField(max_length=20)
    reason = models.TextField(blank=True)
    down_s = models.FloatField(help_text="Inside the month.")
    units = models.JSONField(default=dict, help_text="Billable units by kind, to the entity's next outage.")
    extra = models.JSONField(default=dict, help_text="By counting rule: operations that it caused.")

    class Meta:
        ordering = ("-started_at", "pair", "entity")
        indexes = (models.Index(fields=("month", "-started_at"), name="outages_of_a_month"),)

    def __str__(self) -> str:
        return f"{self.pair}/{self.entity} {self.started_at:%Y-%m-%d %H:%M}"

    @property
    def lasted_s(self) -> float | None:
        """From its beginning to its end, inside the month or not; None if it has not ended."""
        return (self.ended_at - self.started_at).total_seconds() if self.ended_at else None

    @property
    def was_in_its_month(self) -> bool:
        """False if it ended before the month began, and only its backlog was drained in the month."""
        return self.ended_at is None or self.ended_at > datetime.fromisoformat(f"{self.month}-01T00:00Z")

    @property
    def has_other_months(self) -> bool:
        """Whether it began or ended in another month."""
        return any(f"{at:%Y-%m}" != self.month for at in (self.started_at, self.ended_at) if at)


class Availability(OfPair):
    """The downtime of an entity in a month."""

    month = models.CharField(max_length=7)
    pair = models.CharField(max_length=260)
    entity = models.CharField(max_length=300)
    episodes = models.PositiveIntegerField()
    down_s = models.FloatField()
    period_s = models.FloatField()
    repair_s = models.FloatField(null=True, blank=True, help_text="Mean time to repair, of the outages that ended.")

    class Meta:
        ordering = ("-down_s", "pair", "entity")
        verbose_name_plural = "availabilities"
        constraints = (models.UniqueConstraint(fields=("month", "pair", "entity"), name="one_availability_per_month"),)

    def __str__(self) -> str:
        return f"{self.month} {self.pair}/{self.entity}"

    @property
    def percent(self) -> float:
        """The share of the past part of the period in which the entity accepted sends in the primary."""
        return 100 * (1 - self.down_s / self.period_s) if self.period_s else 100.0

    @property
    def percent_shown(self) -> float:
        """The same, rounded down to three decimals: 100 appears only without any outage."""
        return math.floor(self.percent * 1000) / 1000
