"""What the pages ask about an action."""

from datetime import datetime, timedelta

from django import forms

from dashboard.models import Pair
from dashboard.site.forms import WithReason

EXPIRIES = {"": "until somebody releases it", "15": "15 minutes", "60": "1 hour", "240": "4 hours", "1440": "1 day"}
MOST_SELECTED = 500


class Paths(forms.Field):
    """One path, several, or `*`; in the order given, each once."""

    widget = forms.MultipleHiddenInput

    def clean(self, value: list[str] | None) -> list[str]:
        paths = list(dict.fromkeys(one for one in value or () if one))
        if not paths or len(paths) > MOST_SELECTED or any(len(path) > 300 for path in paths):
            raise forms.ValidationError(f"Choose 1 to {MOST_SELECTED} entities, or * for all of the pair.")
        return paths


class ActionForm(WithReason):
    """What an action needs: what it is about, why, for a forced failover until when, for a pace how fast."""

    path = Paths()
    expires_in = forms.ChoiceField(required=False, choices=list(EXPIRIES.items()))
    rate = forms.FloatField(required=False, min_value=0.01, max_value=1_000_000)
    request_id = forms.UUIDField(required=False)
    seen = forms.IntegerField(required=False)

    @property
    def path_given(self) -> str:
        """The path where there is one, `*` for the whole pair, empty for several."""
        paths: list[str] = self.cleaned_data.get("path") or []
        return paths[0] if len(paths) == 1 else ""

    def targets(self, pair: Pair) -> list[str]:
        """The entities meant: those named, or all of the pair for `*`. Empty where the pair lacks one of them."""
        paths: list[str] = self.cleaned_data["path"]
        if paths == ["*"]:
            return list(pair.entities.present().values_list("path", flat=True))
        known = set(pair.entities.filter(path__in=paths).values_list("path", flat=True))
        return paths if known.issuperset(paths) else []

    def expires(self, now: datetime) -> datetime | None:
        """When a forced state ends by itself."""
        minutes = self.cleaned_data.get("expires_in")
        return now + timedelta(minutes=int(minutes)) if minutes else None
