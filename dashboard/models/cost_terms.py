"""How months are computed as operators chose it."""

from django.db import models

from dashboard.models.charge import RULES

ALL_MONTHS = "*"


class CostTerms(models.Model):
    """What was chosen for a month, or (`*`) for all months without a choice of their own; empty: nothing was."""

    month = models.CharField(max_length=7, unique=True, default=ALL_MONTHS)
    rule = models.CharField(max_length=12, choices=RULES, blank=True)
    allocation = models.CharField(max_length=10, blank=True)
    hours_in_month = models.PositiveIntegerField(null=True, blank=True)
    prices = models.TextField(blank=True, help_text="The path of the price list.")
    region = models.CharField(max_length=100, blank=True)
    set_by = models.CharField(max_length=150)
    set_at = models.DateTimeField()

    class Meta:
        ordering = ("month",)
        verbose_name_plural = "cost terms"

    def __str__(self) -> str:
        return f"terms of {self.month}"
