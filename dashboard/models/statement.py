"""A month according to Azure: a bill, or metrics."""

from django.db import models

from dashboard.models.visibility import OfPair


class Statement(OfPair):
    """The billed or measured values of a month: an Azure cost export, or metrics of Azure Monitor."""

    of_pair = ""

    class Source(models.TextChoices):
        EXPORT = "export", "Azure cost export"
        METRICS = "metrics", "Azure Monitor metrics"

    month = models.CharField(max_length=7)
    source = models.CharField(max_length=8, choices=Source)
    name = models.CharField(max_length=200, help_text="The name of the uploaded file.")
    digest = models.CharField(max_length=64, help_text="SHA-256 of the file.")
    rows = models.PositiveIntegerField()
    skipped = models.JSONField(default=dict, help_text="Rows left out, by reason.")
    currency = models.CharField(max_length=3, blank=True)
    uploaded_by = models.CharField(max_length=150)
    uploaded_at = models.DateTimeField()

    class Meta:
        ordering = ("-uploaded_at",)
        constraints = (models.UniqueConstraint(fields=("month", "source"), name="one_statement_of_a_source"),)

    def __str__(self) -> str:
        return f"{self.month} {self.source}: {self.name}"


class BilledDay(OfPair):
    """A statement's sum for one meter (or metric), namespace and day."""

    of_pair = ""

    statement = models.ForeignKey(Statement, on_delete=models.CASCADE, related_name="days")
    date = models.DateField()
    scope = models.CharField(max_length=200, blank=True)
    namespace = models.CharField(max_length=260)
    meter = models.CharField(max_length=120)
    quantity = models.CharField(max_length=40, help_text="In single units: operations, hours, connections, bytes.")
    cost = models.CharField(max_length=40, blank=True)

    class Meta:
        ordering = ("date", "meter", "namespace")

    def __str__(self) -> str:
        return f"{self.date} {self.meter}"


class ConnectionDay(OfPair):
    """The connection peaks of a namespace on one day: as measured by a statement's metrics, or (without a statement) as
    computed from the reports of processes.
    """

    of_pair = ""

    statement = models.ForeignKey(
        Statement, on_delete=models.CASCADE, related_name="connections", null=True, blank=True
    )
    date = models.DateField()
    scope = models.CharField(max_length=200, blank=True)
    namespace = models.CharField(max_length=260)
    peaks = models.JSONField(help_text="By hour (UTC), from 0 to 23; null if unknown.")

    class Meta:
        ordering = ("date", "namespace")

    def __str__(self) -> str:
        return f"{self.date} {self.namespace}"
