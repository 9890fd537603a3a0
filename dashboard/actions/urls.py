"""The URL of the action dialog."""

from django.urls import path

from dashboard.actions import views

urlpatterns = [path("pairs/<slug:pair>/actions/<slug:verb>/", views.action, name="pair-action")]
