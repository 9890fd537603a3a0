"""The pages of readiness of all pairs and entities."""

from datetime import datetime

from django import forms
from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.fleet.boards import worker_liveness
from dashboard.models import EntityHealth, Pair, Readiness
from dashboard.readiness.boards import STATES, entity_board, pair_lines, score_now
from dashboard.readiness.score import Check, faults_of
from dashboard.site.database import from_one_reading
from dashboard.site.forms import Filter, Row
from dashboard.site.pages import page_or_part, query_without_page
from dashboard.site.queries import page_of, read

PAGE = 19
MANY_PAIRS, MOST_PAIRS = 12, 3
"""From more pairs on, only those with the lowest scores have a card."""


class ReadinessFilter(Filter):
    """Search and state filters."""

    pair = forms.SlugField(required=False, max_length=63)
    q = forms.CharField(required=False, max_length=260, label="Entity", widget=forms.SearchInput)
    state = forms.ChoiceField(
        required=False, choices=[("", "any score"), *((state, state) for state in STATES)], label="Score"
    )

    lookups = {"q": "entity__icontains", "pair": "pair__name"}  # noqa: RUF012

    def apply(self, rows: QuerySet[Row]) -> QuerySet[Row]:
        state = self.cleaned_data.get("state")
        return super().apply(rows.filter(STATES[state]) if state else rows)


@require_GET
@from_one_reading
def listing(request: HttpRequest) -> HttpResponse:
    """All pairs with their checks, and the entities, worst first; htmx requests return only the live part."""
    now, form = timezone.now(), read(request, ReadinessFilter)
    worst_first = Readiness.objects.select_related("pair").order_by("score", "pair_id", "entity")
    page = page_of(request, form.apply(worst_first), PAGE)
    pairs = Pair.objects.filter(is_configured=True).order_by("readiness__score", "name")
    names = sorted(pair.name for pair in pairs)
    form.offer("pair", names, "any pair")
    chosen = form.cleaned_data.get("pair")
    is_large = not chosen and len(names) > MANY_PAIRS
    shown = pairs.filter(name=chosen) if chosen else pairs
    context = {
        "lines": pair_lines(shown[:MOST_PAIRS] if is_large else shown, now),
        "others": len(names) - MOST_PAIRS if is_large else 0,
        "board": worker_liveness(now),
        "rows": [_row(row, now) for row in page],
        "form": form,
        "page": page,
        "query": query_without_page(request),
    }
    return page_or_part(request, "readiness/list.html", context)


@require_GET
@from_one_reading
def entity(request: HttpRequest, pair: str, path: str) -> HttpResponse:
    """One entity: its checks with remedies, and its score over time; before the first check, how it comes to one."""
    row = Readiness.objects.select_related("pair").filter(pair__name=pair, entity=path).first()
    if row is None:
        return _unchecked(request, pair, path)
    context = {"board": entity_board(row, timezone.now()), "pair": row.pair, "row": row}
    return page_or_part(request, "readiness/entity.html", context)


def _unchecked(request: HttpRequest, pair: str, path: str) -> HttpResponse:
    known = get_object_or_404(EntityHealth.objects.select_related("pair"), pair__name=pair, path=path)
    context = {
        "entity": known,
        "is_watched": EntityHealth.objects.present().filter(pk=known.pk).exists(),
        "board": worker_liveness(timezone.now()),
        "every_s": settings.READINESS_INTERVAL_S,
    }
    return page_or_part(request, "readiness/unchecked.html", context)


def _row(row: Readiness, now: datetime) -> dict[str, object]:
    faults = faults_of(Check.from_json(reported) for reported in row.reasons)
    return {"row": row, "score": score_now(row, now), "faults": faults, "first": faults[0] if faults else None}
