"""Calendar months in UTC, as the bill counts them."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from pipeline.errors import PipelineError

LAST_YEAR = 2999


@dataclass(frozen=True, slots=True, order=True)
class Month:
    """A calendar month; written `2026-10`."""

    year: int
    number: int

    @classmethod
    def parse(cls, text: str) -> Month:
        """The month written as YYYY-MM; raises PipelineError for anything else."""
        match = re.fullmatch(r"([0-9]{4})-([0-9]{2})", text)
        if match is None or not 1 <= int(match[2]) <= 12 or not 1970 <= int(match[1]) <= LAST_YEAR:
            raise PipelineError(f"“{text}” is not a month: write it as YYYY-MM, for example 2026-10.")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.year:04d}-{self.number:02d}"

    @property
    def days(self) -> int:
        return calendar.monthrange(self.year, self.number)[1]

    @property
    def hours(self) -> int:
        return 24 * self.days

    @property
    def start(self) -> datetime:
        return datetime(self.year, self.number, 1, tzinfo=UTC)

    @property
    def end(self) -> datetime:
        """The first moment that is not in the month any more."""
        return self.start + timedelta(days=self.days)

    @property
    def dates(self) -> tuple[date, ...]:
        return tuple(date(self.year, self.number, day) for day in range(1, self.days + 1))
