"""How many alerts are open: the number beside the menu's entry, on every page."""

from dataclasses import dataclass

from django.db import DatabaseError
from django.db.models import Count, Q

from dashboard.models import Alert

MOST = 999


@dataclass(frozen=True, slots=True)
class OpenAlerts:
    """Open alerts, and how many of them nobody has acknowledged."""

    open: int
    unacknowledged: int

    @property
    def word(self) -> str:
        """The number as there is room for it; empty for none."""
        return f"{MOST}+" if self.open > MOST else str(self.open or "")

    @property
    def sentence(self) -> str:
        """What the number means."""
        return f"{self.open:,} open, {self.unacknowledged:,} of them not acknowledged"


def open_alerts() -> OpenAlerts:
    """In one query. None are told of where the database does not answer: even the page that says so has a menu."""
    fresh = Q(acknowledged_at__isnull=True)
    try:
        counted = Alert.objects.filter(resolved_at__isnull=True).aggregate(
            open=Count("pk"), unacknowledged=Count("pk", filter=fresh)
        )
    except DatabaseError:
        return OpenAlerts(0, 0)
    return OpenAlerts(**counted)
