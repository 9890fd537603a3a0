"""Drills."""

from django.urls import path

from dashboard.drills import views

urlpatterns = [
    path("drills/", views.listing, name="drills"),
    path("drills/start/", views.start, name="drill-start"),
    path("drills/<int:drill>/", views.detail, name="drill-detail"),
    path("drills/<int:drill>.json", views.document, name="drill-json"),
    path("drills/<int:drill>/abort/", views.abort, name="drill-abort"),
]
