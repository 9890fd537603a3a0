"""Monthly budgets, and when they were reached."""

from django.db import models

from dashboard.models.charge import ALLOCATIONS, PUBLISHED, RULES, TIME
from dashboard.models.visibility import OfPair


class Budget(OfPair):
    """The budget of a month, for one pair or (`*`) for all; reaching `alert_percent` of it is reported once."""

    pair = models.CharField(max_length=63, unique=True, default="*")
    cents = models.PositiveBigIntegerField()
    alert_percent = models.PositiveSmallIntegerField(default=80)
    set_by = models.CharField(max_length=150)
    set_at = models.DateTimeField()

    class Meta:
        ordering = ("pair",)

    def __str__(self) -> str:
        return f"{self.pair}: {self.cents}"


class BudgetAlert(OfPair):
    """A month has reached a share of a budget: stored once per share, and reported as an alert."""

    month = models.CharField(max_length=7)
    pair = models.CharField(max_length=63)
    percent = models.PositiveSmallIntegerField(help_text="The share that was reached: that of the budget, or 100.")
    cents = models.BigIntegerField(help_text="The cost of the month at that time.")
    budget_cents = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    raised_at = models.DateTimeField()

    class Meta:
        ordering = ("-raised_at", "pair")
        constraints = (models.UniqueConstraint(fields=("month", "pair", "percent"), name="one_alert_per_share"),)

    def __str__(self) -> str:
        return f"{self.month} {self.pair}: {self.percent} %"


class CostRule(models.Model):
    """What administrators chose for all charges from now on; without a row, the defaults."""

    rule = models.CharField(max_length=12, choices=RULES, default=PUBLISHED)
    allocation = models.CharField(max_length=10, choices=ALLOCATIONS, default=TIME)
    set_by = models.CharField(max_length=150)
    set_at = models.DateTimeField()

    class Meta:
        ordering = ("-set_at",)

    def __str__(self) -> str:
        return f"{self.rule}, {self.allocation}"
