"""What beginning a drill asks for."""

from django import forms

from dashboard.drills.canary import CANARY
from dashboard.drills.requests import LEAST, MOST, USUAL
from dashboard.models import Drill
from dashboard.site.forms import WithReason


class DrillForm(WithReason):
    """Pair and canary, how many messages, why; for a queue that is not marked its name typed."""

    pair = forms.SlugField(max_length=63)
    path = forms.CharField(required=False, max_length=260)
    messages = forms.IntegerField(required=False, min_value=LEAST, max_value=MOST)
    typed = forms.CharField(required=False, max_length=260)
    creates = forms.BooleanField(required=False)
    kind = forms.ChoiceField(required=False, choices=Drill.Kind.choices)
    request_id = forms.UUIDField(required=False)

    def canary(self, marked: str | None) -> str:
        """The queue that is meant: the given one, the marked one, or the one a drill would make."""
        return self.cleaned_data["path"].strip() or marked or CANARY

    @property
    def count(self) -> int:
        """How many messages."""
        return self.cleaned_data["messages"] or USUAL
