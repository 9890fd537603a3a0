"""The filters of the list of incidents."""

from django import forms
from django.db.models import QuerySet

from dashboard.incidents.listing import in_month, still_open
from dashboard.models import FailoverEvent
from dashboard.site.forms import Filter
from pipeline.months import is_month

STATES = (("", "open and over"), ("open", "still open"))


class IncidentFilter(Filter):
    """Pair, entity, month of the failover (UTC), and whether it is still open."""

    pair = forms.CharField(required=False, max_length=63, label="Pair")
    entity = forms.CharField(required=False, max_length=260, label="Entity")
    month = forms.CharField(required=False, max_length=7, label="Month (UTC)")
    state = forms.ChoiceField(required=False, choices=STATES, label="State")

    def clean_month(self) -> str:
        month: str = self.cleaned_data["month"]
        if month and not is_month(month):
            raise forms.ValidationError("Write it as YYYY-MM, for example 2026-10.")
        return month

    lookups = {"pair": "pair", "entity": "entity__icontains"}  # noqa: RUF012

    def apply(self, rows: QuerySet[FailoverEvent]) -> QuerySet[FailoverEvent]:  # type: ignore[override]
        if month := self.cleaned_data.get("month"):
            rows = in_month(rows, month)
        return super().apply(still_open(rows) if self.cleaned_data.get("state") else rows)
