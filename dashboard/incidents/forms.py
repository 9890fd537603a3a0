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

    def apply(self, begun: QuerySet[FailoverEvent]) -> QuerySet[FailoverEvent]:
        """The incidents that match."""
        self.is_valid()
        given = self.cleaned_data
        if pair := given.get("pair"):
            begun = begun.filter(pair=pair)
        if entity := given.get("entity"):
            begun = begun.filter(entity__icontains=entity)
        if month := given.get("month"):
            begun = in_month(begun, month)
        return still_open(begun) if given.get("state") else begun
