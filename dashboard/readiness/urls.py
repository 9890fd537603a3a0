"""The URLs of readiness."""

from django.urls import path

from dashboard.readiness import views
from dashboard.site.menu import Entry

MENU = (Entry("Readiness", "readiness", 60, pages=("readiness-entity", "drills", "drill-start", "drill-detail")),)
urlpatterns = [
    path("readiness/", views.listing, name="readiness"),
    path("readiness/<slug:pair>/<path:path>/", views.entity, name="readiness-entity"),
]
