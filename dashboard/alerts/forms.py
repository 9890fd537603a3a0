"""The form of a rule, and the filter of the history."""

from __future__ import annotations

from typing import Any

from django import forms

from dashboard.models import Alert, AlertRule, Notice, Severity
from dashboard.site.forms import Filter


class RuleForm(forms.ModelForm):  # type: ignore[type-arg]  # not generic at run time
    """The fields of a rule. Channels are those of CHANNELS_FILE, and those that the rule already names."""

    kinds = forms.MultipleChoiceField(
        required=False, choices=Alert.Kind.choices, widget=forms.CheckboxSelectMultiple, label="Kinds"
    )
    channels = forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple, label="Channels")
    request_id = forms.UUIDField(required=False)

    class Meta:
        model = AlertRule
        fields = (
            "name",
            "is_enabled",
            "pair",
            "entity",
            "kinds",
            "least_severity",
            "threshold",
            "channels",
            "notifies_resolved",
        )
        labels = {  # noqa: RUF012
            "is_enabled": "Enabled",
            "least_severity": "Severity from",
            "threshold": "Backlog from",
            "notifies_resolved": "Also notifies when resolved",
        }

    def __init__(self, *args: Any, known: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = dict.fromkeys([*known, *(self.instance.channels or [])])
        self.fields["channels"].choices = [(name, name) for name in names]  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        if given.get("threshold") is None and given.get("kinds") == [Alert.Kind.BACKLOG]:
            self.add_error("threshold", "Enter the number of messages from which a backlog is an alert.")
        if given.get("threshold") == 0:
            self.add_error("threshold", "Enter at least 1.")
        return given


class HistoryFilter(Filter):
    """Filters of closed alerts."""

    pair = forms.CharField(required=False, max_length=63)
    kind = forms.ChoiceField(required=False, choices=[("", "any kind"), *Alert.Kind.choices])
    severity = forms.ChoiceField(required=False, choices=[("", "any"), *Severity.choices])


class DeliveryFilter(Filter):
    """Filters of deliveries."""

    channel = forms.CharField(required=False, max_length=63)
    state = forms.ChoiceField(required=False, choices=[("", "any state"), *Notice.State.choices])


class LastShown(forms.Form):
    """The newest alert that a page showed; without it, all."""

    last = forms.IntegerField(required=False, min_value=0, max_value=2**63 - 1)
