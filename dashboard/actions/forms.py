"""The forms of actions."""

from datetime import datetime, timedelta

from django import forms

from dashboard.models import Pair
from dashboard.site.forms import WithReason

EXPIRIES = {"": "until it is released", "15": "15 minutes", "60": "1 hour", "240": "4 hours", "1440": "1 day"}
MOST_SELECTED = 500


class Paths(forms.Field):
    """One path, several paths, or `*`; duplicates are removed, the order is kept."""

    widget = forms.MultipleHiddenInput

    def clean(self, value: list[str] | None) -> list[str]:
        paths = list(dict.fromkeys(one for one in value or () if one))
        if not paths or len(paths) > MOST_SELECTED or any(len(path) > 300 for path in paths):
            raise forms.ValidationError(f"Choose 1 to {MOST_SELECTED} entities, or * for all entities of the pair.")
        return paths


class ActionForm(WithReason):
    """The input of an action: target, reason, expiry of a forced failover, rate of a pace."""

    path = Paths(label="Entities")
    expires_in = forms.ChoiceField(required=False, choices=list(EXPIRIES.items()), label="Hold it")
    rate = forms.FloatField(required=False, min_value=0.01, max_value=1_000_000, label="At most")
    seen = forms.IntegerField(required=False, min_value=0, max_value=2**63 - 1)

    @property
    def path_given(self) -> str:
        """The path of a single target, `*` for the whole pair, empty for several."""
        paths: list[str] = self.cleaned_data.get("path") or []
        return paths[0] if len(paths) == 1 else ""

    def targets(self, pair: Pair) -> list[str]:
        """The named entities, or all of the pair for `*`. Empty if the pair lacks one of them."""
        paths: list[str] = self.cleaned_data["path"]
        if paths == ["*"]:
            return list(pair.entities.present().values_list("path", flat=True))
        known = set(pair.entities.filter(path__in=paths).values_list("path", flat=True))
        return paths if known.issuperset(paths) else []

    def expires(self, now: datetime) -> datetime | None:
        """When a forced state expires."""
        minutes = self.cleaned_data.get("expires_in")
        return now + timedelta(minutes=int(minutes)) if minutes else None
