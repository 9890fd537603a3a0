"""The menu of every page: each room declares its entries in its `urls.py`.

A heading is one task: seeing what is wrong, looking back at an incident, watching the costs. The pages of a task are
its tabs, also where several rooms contribute to it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import ModuleType

from django.db import DatabaseError
from django.db.models import Count, Q

from dashboard.models import Alert


@dataclass(frozen=True, slots=True)
class Entry:
    """One heading or tab: its label, the name of its page, and the pages below it."""

    label: str
    page: str
    place: int
    """Entries with lower numbers come first."""
    pages: tuple[str, ...] = ()
    """Further pages on which the entry is marked as the current one."""
    under: str = ""
    """The label of the heading that this is a tab of; empty for a heading."""
    is_for_administrators: bool = False
    tabs: tuple["Entry", ...] = ()

    @property
    def own(self) -> tuple[str, ...]:
        """The pages of the entry without those of its tabs."""
        return (self.page, *self.pages)

    @property
    def names(self) -> tuple[str, ...]:
        """All pages on which the entry is marked as current."""
        return tuple(dict.fromkeys((*self.own, *(name for tab in self.tabs for name in tab.own))))


def menu_of(rooms: Iterable[ModuleType]) -> tuple[Entry, ...]:
    """The headings that these modules declare as `MENU`, in order, each with its tabs."""
    declared = sorted((entry for room in rooms for entry in getattr(room, "MENU", ())), key=lambda one: one.place)
    return tuple(
        replace(heading, tabs=tuple(tab for tab in declared if tab.under == heading.label))
        for heading in declared
        if not heading.under
    )


def tabs_on(menu: Iterable[Entry], page: str, *, is_administrator: bool) -> tuple[Entry, ...]:
    """The tabs of the task that a page belongs to; empty if the page is none of them, or the only one."""
    tabs = next((heading.tabs for heading in menu if any(page in tab.own for tab in heading.tabs)), ())
    shown = tuple(tab for tab in tabs if is_administrator or not tab.is_for_administrators)
    return shown if len(shown) > 1 else ()


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
