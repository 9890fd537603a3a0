"""Which files each day of usage is made of, and the days whose files have changed since they were summed.

A day is made of the files in its folder, and of those in the folders of other days that have rows of it. That a file
has such rows is found when its own folder's day is summed, and noted there: then the other day has changed as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from pipeline.usage.folder import Child, Mark, UsageFolder, printable
from pipeline.usage.table import DayTable, Header


class Listing:
    """Which files each day is made of, by what the folders have now and what the table says of files."""

    def __init__(self, folder: UsageFolder, headers: Mapping[str, Header]) -> None:
        self.folder, self.headers = folder, headers
        self.folders, self.others = folder.days("usage")
        self._peaks = set(folder.days("connections")[0])
        self.days = {*self.folders, *self._peaks}
        self._files: dict[str, dict[str, Child]] = {}
        self._elsewhere: dict[str, set[str]] = defaultdict(set)
        for header in headers.values():
            for name, days in header.elsewhere.items():
                for day in days:
                    self._elsewhere[day].add(name)

    def in_folder(self, day: str) -> dict[str, Child]:
        """The files in the folder of the day, by name."""
        if day not in self._files:
            found = self.folder.files("usage", day) if day in self.folders else []
            self._files[day] = {f"date={day}/{printable(child.name)}": child for child in found}
        return self._files[day]

    def sources(self, day: str) -> dict[str, Child]:
        """The files that have rows of the day, by name."""
        found = dict(self.in_folder(day))
        for name in self._elsewhere[day]:
            if (child := self.in_folder(name[5:15]).get(name)) is not None:
                found[name] = child
        return found

    def marks(self, day: str) -> dict[str, Mark]:
        """The marks of all that has changed when the day has: its peaks of connections are read anew by each run."""
        peaks = self.folder.files("connections", day) if day in self._peaks else ()
        of_peaks = {f"connections/{printable(child.name)}": child.mark for child in peaks}
        return of_peaks | {name: child.mark for name, child in self.sources(day).items()}

    def is_outdated(self, day: str) -> bool:
        """Whether its sums lack anything but files that were added to the folders of the day."""
        marks, known = self.marks(day), self.headers[day].sources
        own = (f"date={day}/", "connections/")
        return known != {name: mark for name, mark in marks.items() if name in known or not name.startswith(own)}

    def of_month(self, month: str) -> list[str]:
        """The days of the month that have files."""
        return sorted(day for day in {*self.days, *self._elsewhere} if day.startswith(month) and self.marks(day))

    def stale(self, month: str) -> list[str]:
        """Those of which the table has other sums, or none."""
        return [day for day in self.of_month(month) if self._is_stale(day)]

    def _is_stale(self, day: str) -> bool:
        header = self.headers.get(day)
        return header is None or not header.is_final or header.sources != self.marks(day)


def changed_days(folder: UsageFolder, table: DayTable) -> list[str]:
    """The days whose files have changed since they were summed, in months that have a folder."""
    listing = Listing(folder, table.headers())
    return [day for month in sorted({day[:7] for day in listing.days}) for day in listing.stale(month)]
