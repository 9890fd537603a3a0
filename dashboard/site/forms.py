"""Forms: filters of pages, and what an action asks for."""

from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.db.models import Q, QuerySet

from dashboard.models import EntityHealth, FailoverEvent, Pair

STATES = {
    "failed-over": Q(state="failed_over", held_by__isnull=True),
    "held": Q(state="failed_over", held_by__isnull=False),
    "failing": Q(state="failing"),
    "draining": Q(state__in=("healthy", "unknown"), waiting__gt=0),
    "healthy": Q(state__in=("healthy", "unknown")) & (Q(waiting=0) | Q(waiting__isnull=True)),
}
EXPIRIES = {"": "until somebody releases it", "15": "15 minutes", "60": "1 hour", "240": "4 hours", "1440": "1 day"}
MOST_SELECTED = 500


class EntityFilter(forms.Form):
    """Search and state of the overview. What makes no sense is ignored, so that a link never breaks."""

    q = forms.CharField(required=False, max_length=260)
    state = forms.ChoiceField(required=False, choices=[("", "any state"), *((state, state) for state in STATES)])
    under = forms.CharField(required=False, max_length=260, strip=False)
    group = forms.ChoiceField(required=False, choices=[("", "worst first"), ("folder", "by folder")])

    def apply(self, entities: QuerySet[EntityHealth]) -> QuerySet[EntityHealth]:
        self.is_valid()
        if text := self.cleaned_data.get("q"):
            entities = entities.filter(Q(path__icontains=text) | Q(pair__name__icontains=text))
        if state := self.cleaned_data.get("state"):
            entities = entities.filter(STATES[state])
        if folder := self.cleaned_data.get("under"):
            entities = entities.filter(path__startswith=folder)
        return entities

    @property
    def is_grouped(self) -> bool:
        """Whether folders are asked for, and not the entities themselves."""
        return self.cleaned_data.get("group") == "folder"

    @property
    def is_used(self) -> bool:
        return any(self.cleaned_data.values())


class EventFilter(forms.Form):
    """Filters of the events page: pair, entity, kind, and the first and last moment (UTC)."""

    pair = forms.CharField(required=False, max_length=260)
    entity = forms.CharField(required=False, max_length=260)
    kind = forms.ChoiceField(required=False, choices=[("", "any kind"), *FailoverEvent.Kind.choices])
    since = forms.DateTimeField(required=False)
    until = forms.DateTimeField(required=False)

    def apply(self, events: QuerySet[FailoverEvent]) -> QuerySet[FailoverEvent]:
        self.is_valid()
        given = {name: value for name, value in self.cleaned_data.items() if value}
        lookups = {
            "pair": "pair",
            "entity": "entity__icontains",
            "kind": "kind",
            "since": "time__gte",
            "until": "time__lt",
        }
        return events.filter(**{lookups[name]: value for name, value in given.items()})

    @property
    def is_used(self) -> bool:
        return any(self.cleaned_data.values())


class WithReason(forms.Form):
    """A form that asks why. Where it must be said, blanks say nothing."""

    reason = forms.CharField(
        required=False, max_length=500, error_messages={"required": "Say why; it is kept in the audit trail."}
    )

    def __init__(self, *args: Any, needs_reason: bool = False, **named: Any) -> None:
        super().__init__(*args, **named)
        self.fields["reason"].required = needs_reason

    @property
    def lacks_only_reason(self) -> bool:
        """Whether everything else is as it should be."""
        return set(self.errors) == {"reason"}


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
