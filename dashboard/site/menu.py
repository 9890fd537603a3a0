"""The menu of every page: each room declares its entries in its `urls.py`."""

from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: its label, the name of its page, and the pages below it."""

    label: str
    page: str
    place: int
    """Entries with lower numbers come first."""
    pages: tuple[str, ...] = ()
    """Further pages on which the entry is marked as the current one."""

    @property
    def names(self) -> tuple[str, ...]:
        """All pages on which the entry is marked as current."""
        return (self.page, *self.pages)


def menu_of(rooms: Iterable[ModuleType]) -> tuple[Entry, ...]:
    """The entries that these modules declare as `MENU`, in order."""
    declared = [entry for room in rooms for entry in getattr(room, "MENU", ())]
    return tuple(sorted(declared, key=lambda entry: entry.place))
