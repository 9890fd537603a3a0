"""The URLs of incidents."""

from django.urls import path

from dashboard.incidents import views
from dashboard.site.menu import Entry

MENU = (
    Entry("Incidents", "incidents", 20, pages=("incident",)),
    Entry("Incidents", "incidents", 21, under="Incidents"),
)
urlpatterns = [
    path("incidents/", views.listing, name="incidents"),
    path("pairs/<slug:pair>/incidents/<slug:event_id>/", views.detail, name="incident"),
    path("pairs/<slug:pair>/incidents/<slug:event_id>.json", views.as_file, {"ending": "json"}, name="incident-json"),
    path("pairs/<slug:pair>/incidents/<slug:event_id>.csv", views.as_file, {"ending": "csv"}, name="incident-csv"),
    path("pairs/<slug:pair>/incidents/<slug:event_id>.md", views.as_file, {"ending": "md"}, name="incident-markdown"),
]
