"""The form that starts a drill."""

from django import forms

from dashboard.drills.canary import CANARY
from dashboard.drills.requests import LEAST, MOST, USUAL
from dashboard.models import Drill
from dashboard.site.forms import WithReason


class DrillForm(WithReason):
    """Pair, canary, number of messages, reason; for an unmarked queue also its typed name."""

    pair = forms.SlugField(max_length=63)
    path = forms.CharField(required=False, max_length=260, label="Canary")
    messages = forms.IntegerField(required=False, min_value=LEAST, max_value=MOST, label="Messages")
    typed = forms.CharField(required=False, max_length=260, label="Its name, typed")
    creates = forms.BooleanField(required=False, label="Create it")
    kind = forms.ChoiceField(required=False, choices=Drill.Kind.choices, label="As a")
    request_id = forms.UUIDField(required=False)

    def canary(self, marked: str | None) -> str:
        """The queue: the given one, the marked one, or the one that a drill would create."""
        return self.cleaned_data["path"].strip() or marked or CANARY

    @property
    def count(self) -> int:
        """The number of messages."""
        return self.cleaned_data.get("messages") or USUAL
