"""Forms for backlog queues: the input of actions, and the filters of messages."""

from collections.abc import Mapping

from django import forms

from dashboard.backlog.actions import LETTER_ACTIONS
from dashboard.site.forms import WithReason

LONGEST_PATH = 330


class QueueActionForm(WithReason):
    """The queue's path, the reason, and for a deletion the confirmation shown and the path typed."""

    path = forms.CharField(max_length=300)
    typed = forms.CharField(required=False, max_length=300, label="Type its path")
    confirmed = forms.CharField(required=False, max_length=400)


class PlacesField(forms.Field):
    """Where a list of several queues goes on: `<sequence number>@<queue>`, once for each queue."""

    widget = forms.MultipleHiddenInput

    def clean(self, value: list[str] | None) -> dict[str, int]:
        places = {}
        for text in value or ():
            number, _, queue = text.partition("@")
            if not (
                queue and len(queue) <= LONGEST_PATH and number.isascii() and number.isdigit() and len(number) < 20
            ):
                raise forms.ValidationError("The list starts again.")
            places[queue] = int(number)
        return places

    @staticmethod
    def written(places: Mapping[str, int]) -> list[str]:
        """The values of the address."""
        return [f"{number}@{queue}" for queue, number in places.items()]


class MessageFilter(forms.Form):
    """Filters of the messages or dead letters of a backlog queue."""

    queue = forms.CharField(required=False, max_length=330)
    q = forms.CharField(required=False, max_length=200, label="Text")
    entity = forms.CharField(required=False, max_length=300, label="Destination")
    session = forms.CharField(required=False, max_length=200, label="Session")
    older_min = forms.IntegerField(required=False, min_value=0, max_value=10_000_000, label="Older than, minutes")
    larger_kb = forms.IntegerField(required=False, min_value=0, max_value=200_000, label="Larger than, KB")
    after = forms.IntegerField(required=False, min_value=0, label="From number")
    at = PlacesField(required=False, label="Place in the list")
    show = forms.ChoiceField(required=False, choices=[("", "waiting"), ("dead", "dead")], label="Kind")

    NARROWING = ("q", "entity", "session", "older_min", "larger_kb")

    @property
    def is_used(self) -> bool:
        return any(self.cleaned_data.get(name) not in (None, "") for name in self.NARROWING)


class DeadLetterForm(WithReason):
    """The action on dead letters of a queue or subscription, and the dead letters."""

    queue = forms.CharField(max_length=330)
    verb = forms.ChoiceField(choices=[(action.choice, action.label) for action in LETTER_ACTIONS])
    which = forms.ChoiceField(required=False, choices=[("some", "the chosen ones"), ("all", "all")])
    destination = forms.CharField(required=False, max_length=300, label="Send to")

    MOST_CHOSEN = 1000

    def numbers(self) -> list[int]:
        """The selected sequence numbers, without duplicates."""
        reported = self.data.getlist("number") if hasattr(self.data, "getlist") else []
        return sorted({int(number) for number in reported[: self.MOST_CHOSEN] if number.isascii() and number.isdigit()})
