"""Faults of the demo's namespaces."""

from django.urls import path

from dashboard.demo import views

urlpatterns = [path("pairs/<slug:pair>/demo/<slug:verb>/", views.break_or_mend, name="pair-demo")]
