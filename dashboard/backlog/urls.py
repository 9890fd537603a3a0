"""Backlog queues, their messages and dead letters."""

from django.urls import path

from dashboard.backlog.views import messages, queues

urlpatterns = [
    path("backlog/", queues.listing, name="backlog"),
    path("backlog/<slug:pair>/messages/", messages.listing, name="backlog-messages"),
    path("backlog/<slug:pair>/messages.json", messages.download, name="backlog-download"),
    path("backlog/<slug:pair>/dead-letters/", messages.dead_letter_action, name="dead-letters"),
    path("backlog/<slug:pair>/jobs/", messages.jobs, name="backlog-jobs"),
]
