"""The URLs of readiness."""

from django.urls import path

from dashboard.readiness import views
from dashboard.site.menu import Entry

MENU = (
    Entry("Readiness", "readiness", 50, pages=("readiness-entity",)),
    Entry("Score and checks", "readiness", 51, under="Readiness"),
    Entry("Drills", "drills", 52, pages=("drill-start", "drill-detail"), under="Readiness"),
)
urlpatterns = [
    path("readiness/", views.listing, name="readiness"),
    path("readiness/<slug:pair>/<path:path>/", views.entity, name="readiness-entity"),
]
