"""The form of a rule, and the filter of the history."""

from __future__ import annotations

from typing import Any
from zoneinfo import available_timezones

from django import forms

from dashboard.models import Alert, AlertRule, Notice, Severity
from dashboard.site.forms import Filter

MOST_MINUTES, MOST_SECONDS = 7 * 24 * 60, 3600
LEAST_STEPS = 3
"""So many fields for the steps of an escalation are shown, and always an empty one."""


class StepsField(forms.Field):
    """Names of channels in their order: one field each, or all of them in one, separated by commas (the API)."""

    widget = forms.MultipleHiddenInput

    def clean(self, value: list[str] | str | None) -> list[str]:
        given = [value] if isinstance(value, str) else value or []
        return [name.strip() for text in given for name in text.split(",") if name.strip()]


class RuleForm(forms.ModelForm):  # type: ignore[type-arg]  # not generic at run time
    """The fields of a rule. Channels are those of CHANNELS_FILE, and those that the rule already names."""

    kinds = forms.MultipleChoiceField(
        required=False, choices=Alert.Kind.choices, widget=forms.CheckboxSelectMultiple, label="Kinds"
    )
    channels = forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple, label="Immediately")
    escalation = StepsField(required=False, label="Then, until somebody acknowledges")
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
            "escalation",
            "escalate_after_min",
            "group_s",
            "quiet_from",
            "quiet_until",
            "time_zone",
            "wakes_from",
            "notifies_resolved",
        )
        labels = {  # noqa: RUF012
            "is_enabled": "Enabled",
            "least_severity": "Severity from",
            "threshold": "Backlog from",
            "escalate_after_min": "Minutes between escalations",
            "group_s": "Seconds to collect alerts for one message",
            "quiet_from": "From",
            "quiet_until": "Until",
            "time_zone": "Time zone",
            "wakes_from": "Notified anyway from severity",
            "notifies_resolved": "Also notifies when resolved",
        }

    def __init__(self, *args: Any, known: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = dict.fromkeys([*known, *(self.instance.channels or [])])
        self.fields["channels"].choices = [(name, name) for name in names]  # type: ignore[attr-defined]
        self.known = {*names, *(self.instance.escalation or [])}

    @property
    def steps(self) -> list[str]:
        """The channel of each step of the escalation, as the fields show them; empty ones for further steps."""
        chosen = StepsField().clean(self["escalation"].value())
        return [*chosen, *[""] * max(1, LEAST_STEPS - len(chosen))]

    @property
    def offered(self) -> list[str]:
        """The channels of a step: those that are known, and those that were chosen."""
        return sorted({*self.known, *filter(None, self.steps)})

    def clean_escalation(self) -> list[str]:
        names: list[str] = self.cleaned_data["escalation"]
        unknown = [name for name in names if name not in self.known]
        if unknown:
            raise forms.ValidationError(f"There is no channel {unknown[0]}.")
        return names

    def clean_time_zone(self) -> str:
        name: str = self.cleaned_data["time_zone"]
        if name not in available_timezones():
            raise forms.ValidationError("Enter a time zone such as Europe/Berlin.")
        return name

    def clean_escalate_after_min(self) -> int:
        return self._at_most("escalate_after_min", MOST_MINUTES, least=1)

    def clean_group_s(self) -> int:
        return self._at_most("group_s", MOST_SECONDS)

    def _at_most(self, name: str, most: int, least: int = 0) -> int:
        value: int = self.cleaned_data[name]
        if not least <= value <= most:
            raise forms.ValidationError(f"Enter a number from {least} to {most}.")
        return value

    def clean(self) -> dict[str, Any]:
        said = super().clean() or self.cleaned_data
        if (said.get("quiet_from") is None) != (said.get("quiet_until") is None):
            self.add_error("quiet_until", "Quiet hours need a beginning and an end.")
        if said.get("threshold") is None and said.get("kinds") == [Alert.Kind.BACKLOG]:
            self.add_error("threshold", "Enter the number of messages from which a backlog is an alert.")
        if said.get("threshold") == 0:
            self.add_error("threshold", "Enter at least 1.")
        return said


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
