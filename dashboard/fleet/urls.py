"""The URLs of the overview, pairs, entities, events and workers."""

from django.urls import URLPattern, path

from dashboard.fleet.boards import PanelOf
from dashboard.fleet.views import entities, events, live, overview, pairs, workers
from dashboard.fleet.views.entities import OutagesOf
from dashboard.site.menu import Entry

MENU = (
    Entry("Overview", "overview", 10, pages=("pair-detail", "entity-detail", "pair-action")),
    Entry("All events", "events", 22, under="Incidents"),
    Entry("Workers", "workers", 83, under="Settings"),
)


def urls(*, panel_of: PanelOf, outages_of: OutagesOf) -> list[URLPattern]:
    """The URLs of this package. Additional content of its pages is passed in, so that it imports no other package."""
    return [
        path("", overview.overview, {"panel_of": panel_of}, name="overview"),
        path("pairs/<slug:pair>/", pairs.detail, {"panel_of": panel_of}, name="pair-detail"),
        path(
            "pairs/<slug:pair>/entities/<path:path>/",
            entities.detail,
            {"outages_of": outages_of},
            name="entity-detail",
        ),
        path("events/", events.listing, name="events"),
        path("events.csv", events.as_csv, name="events-csv"),
        path("workers/", workers.listing, name="workers"),
        path("live/", live.stream, name="live"),
    ]
