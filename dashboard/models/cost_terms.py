"""How the installation counts operations."""

from django.db import models

from dashboard.models.charge import ALLOCATIONS, PUBLISHED, RULES, TIME


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
