"""The URLs of incidents."""

from django.urls import path

from dashboard.incidents import views

urlpatterns = [
    path("pairs/<slug:pair>/incidents/<slug:event_id>/", views.detail, name="incident"),
    path("pairs/<slug:pair>/incidents/<slug:event_id>.json", views.as_json, name="incident-json"),
]
