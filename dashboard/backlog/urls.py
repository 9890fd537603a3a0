"""The URLs of backlog queues, their messages and dead letters."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from dashboard.backlog.actions import QUEUE_ACTIONS
from dashboard.backlog.views import cleanup, messages, queues
from dashboard.site.menu import Entry


class QueueActionName(StringConverter):
    """The name of an action on a backlog queue, with `-` or `_`."""

    regex = "|".join(action.name.replace("_", "[_-]") for action in QUEUE_ACTIONS)

    def to_url(self, value: str) -> str:
        if value not in {action.name for action in QUEUE_ACTIONS}:
            raise ValueError
        return value


register_converter(QueueActionName, "queue_action")
MENU = (Entry("Backlog", "backlog", 30, pages=("backlog-messages", "dead-letters")),)
urlpatterns = [
    path("pairs/<slug:pair>/actions/<queue_action:verb>/", cleanup.action, name="pair-action"),
    path("backlog/", queues.listing, name="backlog"),
    path("backlog/<slug:pair>/messages/", messages.listing, name="backlog-messages"),
    path("backlog/<slug:pair>/messages.json", messages.download, name="backlog-download"),
    path("backlog/<slug:pair>/dead-letters/", messages.dead_letter_action, name="dead-letters"),
    path("backlog/<slug:pair>/jobs/", messages.jobs, name="backlog-jobs"),
]
