"""A month according to Azure: its bill."""

from django.db import models

from dashboard.models.visibility import OfPair


class Statement(OfPair):
    """The billed values of a month: an Azure cost export."""

    of_pair = ""

    month = models.CharField(max_length=7, unique=True)
    name = models.CharField(max_length=200, help_text="The name of the uploaded file.")
    digest = models.CharField(max_length=64, help_text="SHA-256 of the file.")
    rows = models.PositiveIntegerField()
    skipped = models.JSONField(default=dict, help_text="Rows left out, by reason.")
    currency = models.CharField(max_length=3, blank=True)
    uploaded_by = models.CharField(max_length=150)
    uploaded_at = models.DateTimeField()

    class Meta:
        ordering = ("-uploaded_at",)

    def __str__(self) -> str:
        return f"{self.month}: {self.name}"


class BilledDay(OfPair):
    """A statement's sum for one meter, namespace and day."""

    of_pair = ""

    statement = models.ForeignKey(Statement, on_delete=models.CASCADE, related_name="days")
    date = models.DateField()
    scope = models.CharField(max_length=200, blank=True)
    namespace = models.CharField(max_length=260)
    meter = models.CharField(max_length=120)
    quantity = models.CharField(max_length=40, help_text="In single units: operations, hours, connections, GB.")
    cost = models.CharField(max_length=40)

    class Meta:
        ordering = ("date", "meter", "namespace")

    def __str__(self) -> str:
        return f"{self.date} {self.meter}"
