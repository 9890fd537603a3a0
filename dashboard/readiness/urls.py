"""The URLs of readiness."""

from django.urls import path

from dashboard.readiness import views

urlpatterns = [
    path("readiness/", views.listing, name="readiness"),
    path("readiness/<slug:pair>/<path:path>/", views.entity, name="readiness-entity"),
]
