"""The number of open alerts, for the menu of every page."""

from dataclasses import dataclass

from django.db import DatabaseError
from django.db.models import Count, Q

from dashboard.models import Alert

MOST = 999


@dataclass(frozen=True, slots=True)
class OpenAlerts:
    """The number of open alerts, and of those that are not acknowledged."""

    open: int
    unacknowledged: int

    @property
    def word(self) -> str:
        """The number in a short form; empty for 0."""
        return f"{MOST}+" if self.open > MOST else str(self.open or "")

    @property
    def sentence(self) -> str:
        """The meaning of the number."""
        return f"{self.open:,} open, {self.unacknowledged:,} of them not acknowledged"


def open_alerts() -> OpenAlerts:
    """Both numbers in one query; 0 if the database does not respond, because the error page also has a menu."""
    fresh = Q(acknowledged_at__isnull=True)
    try:
        counted = Alert.objects.filter(resolved_at__isnull=True).aggregate(
            open=Count("pk"), unacknowledged=Count("pk", filter=fresh)
        )
    except DatabaseError:
        return OpenAlerts(0, 0)
    return OpenAlerts(**counted)
