"""Calendar months in UTC, as the bill counts them."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from pipeline.errors import PipelineError

PATTERN = "(?:19[7-9][0-9]|2[0-9]{3})-(?:0[1-9]|1[0-2])"
"""From 1970-01 to 2999-12."""


@dataclass(frozen=True, slots=True, order=True)
class Month:
    """A calendar month; written `2026-10`."""

    year: int
    number: int

    @classmethod
    def parse(cls, text: str) -> Month:
        """The month written as YYYY-MM; raises PipelineError for anything else."""
        if not is_month(text):
            raise PipelineError(f"“{text}” is not a month: write it as YYYY-MM, for example 2026-10.")
        return cls(int(text[:4]), int(text[5:]))

    @classmethod
    def of(cls, at: date) -> Month:
        """The month of a day, or of a time in UTC."""
        return cls(at.year, at.month)

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

    @property
    def previous(self) -> Month:
        return Month.of(self.start - timedelta(days=1))

    @property
    def following(self) -> Month:
        return Month.of(self.end)

    def passed(self, now: datetime) -> timedelta:
        """How much of the month is over."""
        return max(timedelta(), min(now, self.end) - self.start)


def is_month(text: str) -> bool:
    """Whether the text is a month, written YYYY-MM."""
    return re.fullmatch(PATTERN, text) is not None
