"""The list of incidents, the page of one, and its files for a ticket or a post-mortem."""

from datetime import datetime

from django import forms
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.fleet.boards import worker_liveness
from dashboard.fleet.depth.charts import entity_chart
from dashboard.fleet.depth.marks import drained_at, marks_of
from dashboard.fleet.state.paces import limits
from dashboard.incidents.api import IncidentStory, document
from dashboard.incidents.folding import Incident
from dashboard.incidents.listing import beginnings, in_month, lines, months, still_open
from dashboard.incidents.post_mortem import COLUMNS, as_markdown, as_rows
from dashboard.incidents.story import Story, pause_of, story
from dashboard.models import FailoverEvent, Pair
from dashboard.site.charts import Mark, Window
from dashboard.site.database import from_one_reading
from dashboard.site.forms import Filter
from dashboard.site.pages import page_or_part, query_without_page
from dashboard.site.queries import page_of, read
from dashboard.site.tables import CSV, attachment, csv_lines
from pipeline.months import is_month

PAGE, MOST_LINES = 40, 12
STATES = (("", "open and over"), ("open", "still open"))


class IncidentFilter(Filter):
    """Pair, entity, month of the failover (UTC), and whether it is still open."""

    pair = forms.CharField(required=False, max_length=63, label="Pair")
    entity = forms.CharField(required=False, max_length=260, label="Entity")
    month = forms.CharField(required=False, max_length=7, label="Month (UTC)")
    state = forms.ChoiceField(required=False, choices=STATES, label="State")

    def clean_month(self) -> str:
        month: str = self.cleaned_data["month"]
        if month and not is_month(month):
            raise forms.ValidationError("Write it as YYYY-MM, for example 2026-10.")
        return month

    lookups = {"pair": "pair", "entity": "entity__icontains"}  # noqa: RUF012

    def apply(self, rows: QuerySet[FailoverEvent]) -> QuerySet[FailoverEvent]:  # type: ignore[override]
        if month := self.cleaned_data.get("month"):
            rows = in_month(rows, month)
        return super().apply(still_open(rows) if self.cleaned_data.get("state") else rows)


@require_GET
@from_one_reading
def listing(request: HttpRequest) -> HttpResponse:
    """Incidents, newest first; htmx requests return only the live part."""
    form = read(request, IncidentFilter)
    form.offer("pair", Pair.objects.values_list("name", flat=True), "any pair")
    form.offer("month", months(), "any month")
    page = page_of(request, form.apply(beginnings()).order_by("-time", "-id"), PAGE)
    now = timezone.now()
    context = {
        "board": worker_liveness(now),
        "form": form,
        "page": page,
        "lines": lines(list(page), now),
        "query": query_without_page(request),
    }
    return page_or_part(request, "incidents/list.html", context)


@require_GET
@from_one_reading
def detail(request: HttpRequest, pair: str, event_id: str) -> HttpResponse:
    """The page of one incident; htmx requests return only the live part."""
    found = story(pair, event_id)
    window = _window(found.incident, found.now)
    context = {
        "board": worker_liveness(found.now),
        "pair": found.entity.pair,
        "entity": found.entity,
        "incident": found.incident,
        "lasted": found.lasted,
        "drain": found.drain,
        "cost": found.cost,
        "chart": entity_chart(found.entity, found.samples, window, _marks(found.incident, window)),
        "first": found.timeline[:MOST_LINES],
        "rest": found.timeline[MOST_LINES:],
        "limits": limits(pair, found.entity.path),
        "moved": found.moved,
        "ledgers": found.ledgers,
        "pause": pause_of(found.entity),
        "pings": found.pings,
        "now": found.now,
    }
    return page_or_part(request, "incidents/detail.html", context)


def _as_json(found: Story) -> str:
    return IncidentStory.model_validate(document(found)).model_dump_json()


def _as_csv(found: Story) -> str:
    return "".join(csv_lines(COLUMNS, as_rows(found)))


FILES = {
    "json": ("application/json", _as_json),
    "csv": (CSV, _as_csv),
    "md": ("text/markdown; charset=utf-8", as_markdown),
}


@require_GET
@from_one_reading
def as_file(request: HttpRequest, pair: str, event_id: str, ending: str) -> HttpResponse:
    """The page as JSON or Markdown, or its timeline as CSV."""
    found, (kind, write) = story(pair, event_id), FILES[ending]
    return attachment(f"incident-{found.incident.id[:8]}.{ending}", write(found), kind)


def _window(incident: Incident, now: datetime) -> Window:
    """The time of the incident with a margin of a tenth before and after, up to the present."""
    end = incident.ended_at(now)
    margin = (end - incident.began_at) / 10
    return Window(incident.began_at - margin, end + margin if incident.is_over else now, is_past=True)


def _marks(incident: Incident, window: Window) -> list[Mark]:
    """What happened, and when the incident counts as drained."""
    found = marks_of([incident.pair], window.start, window.end, incident.entity).get(incident.pair, ())
    return [*found, *([drained_at(incident.drained_at)] if incident.drained_at else [])]
