"""Filters of the overview and of the events page. The page reports a value that cannot be read, and shows the rest."""

from collections import defaultdict
from collections.abc import Mapping

from django import forms
from django.db.models import Q, QuerySet

from dashboard.fleet.pairs.pairs_file import tags
from dashboard.models import EntityHealth, Pair
from dashboard.models.records import kinds
from dashboard.site.forms import Filter, TimeField

STATES = {
    "failed-over": Q(state="failed_over", held_by__isnull=True),
    "held": Q(state="failed_over", held_by__isnull=False),
    "failing": Q(state="failing"),
    "draining": Q(state__in=("healthy", "unknown"), waiting__gt=0),
    "healthy": Q(state__in=("healthy", "unknown")) & (Q(waiting=0) | Q(waiting__isnull=True)),
}


def tagged() -> Mapping[str, list[str]]:
    """The pairs that one sees by tag, `team: shop`."""
    found, known = defaultdict[str, list[str]](list), tags()
    for pair in Pair.objects.values_list("name", flat=True) if any(known.values()) else ():
        for key, value in known.get(pair, {}).items():
            found[f"{key}: {value}"].append(pair)
    return dict(sorted(found.items()))


class EntityFilter(Filter):
    """Search, state and tag filters of the overview."""

    q = forms.CharField(required=False, max_length=260, label="Search entities")
    state = forms.ChoiceField(required=False, choices=[("", "any state"), *((state, state) for state in STATES)])

    tag = forms.ChoiceField(required=False, choices=lambda: [("", "any tag"), *((tag, tag) for tag in tagged())])

    def apply(self, rows: QuerySet[EntityHealth]) -> QuerySet[EntityHealth]:  # type: ignore[override]
        if text := self.cleaned_data.get("q"):
            rows = rows.filter(Q(path__icontains=text) | Q(pair__name__icontains=text))
        if state := self.cleaned_data.get("state"):
            rows = rows.filter(STATES[state])
        if tag := self.cleaned_data.get("tag"):
            rows = rows.filter(pair__name__in=tagged()[tag])
        return super().apply(rows)


class EventFilter(Filter):
    """Filters of the events page: pair, entity, kind, and time range (UTC)."""

    pair = forms.CharField(required=False, max_length=260)
    entity = forms.CharField(required=False, max_length=260)
    kind = forms.ChoiceField(required=False, choices=lambda: [("", "any kind"), *kinds()])
    since = TimeField(label="From (UTC)")
    until = TimeField(label="Before (UTC)")

    lookups = {  # noqa: RUF012
        "pair": "pair",
        "entity": "entity__icontains",
        "kind": "kind",
        "since": "time__gte",
        "until": "time__lt",
    }
