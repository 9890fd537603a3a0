"""The forecast of traffic: messages per hour from the last minutes and from earlier days. Pure: no I/O, no clock.

While messages flow, the last minutes say how many there are, and earlier days how that changes in the next hours. While
none flow, the same hours of earlier days are expected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from math import sqrt
from statistics import mean, stdev

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
LATEST, LONGER = timedelta(minutes=15), timedelta(hours=1)
"""The last minutes, and how far back they reach if they have few messages."""
FEW = 60
DAYS = 7
"""The number of earlier days that are compared."""
ARRIVED = timedelta(seconds=30)
"""Processes report a minute at most this long after its end."""
PARTS = 5
LONGEST = timedelta(days=3650)
Counts = Mapping[datetime, int]
"""Messages by start of a minute or an hour; those without messages may be missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Messages per hour that are expected over the next hours, and an interval.

    `words`: what it was derived from, after "as"; `over`: the length of the last minutes.
    """

    per_hour: float
    low: float
    high: float
    words: str
    over: timedelta = LATEST


@dataclass(frozen=True, slots=True)
class Traffic:
    """The messages sent so far: by minute for the last hour or longer, by hour for earlier days."""

    minutes: Counts
    hours: Counts

    def expected(self, now: datetime, ahead: timedelta = HOUR) -> Expected | None:
        """The average over the time ahead; None if nothing is known."""
        latest, days = self._latest(now), self._days(now)
        if latest is None:
            return self._as_before(now, ahead, days)
        rhythm = _rhythm(self.hours, days)
        then, soon = _per_hour(rhythm, now - latest.over, latest.over), _per_hour(rhythm, now, ahead)
        change = soon / then if then and soon else 1.0
        return replace(latest, per_hour=latest.per_hour * change, low=latest.low * change, high=latest.high * change)

    def lasts(self, room: float, now: datetime) -> timedelta | None:
        """How long so many messages take to arrive; None if nothing is known. At most ten years."""
        day = self.expected(now, DAY)
        if day is None or not day.per_hour:
            return None
        whole, left = divmod(room, day.per_hour * 24)
        took = DAY * min(whole, LONGEST / DAY)
        for hours in range(1, 25):
            soon = self.expected(now, HOUR * hours)
            arrived = soon.per_hour * hours if soon else 0.0
            if arrived >= left:
                return min(took + HOUR * hours * (left / arrived if arrived else 0), LONGEST)
        return min(took + DAY, LONGEST)

    def _latest(self, now: datetime) -> Expected | None:
        """The rate of the last minutes; None without messages."""
        end = (now - ARRIVED).replace(second=0, microsecond=0)
        lately = _sum(self.minutes, end - LATEST, end)
        if not lately:
            return None
        begin = max(end - (LATEST if lately >= FEW else LONGER), self._first(end))
        over = end - begin
        count = _sum(self.minutes, begin, end)
        per_hour = count / (over / HOUR)
        parts = [_sum(self.minutes, *part) / ((part[1] - part[0]) / HOUR) for part in _parts(begin, end)]
        by_chance = sqrt(count) / (over / HOUR)
        spread = 2 * max(by_chance, stdev(parts) / sqrt(len(parts)) if len(parts) > 1 else 0.0)
        low, high, minutes = max(0.0, per_hour - spread), per_hour + spread, round(over / MINUTE)
        words = f"in the last {minutes} minutes" if minutes > 1 else "in the last minute"
        return Expected(per_hour=per_hour, low=low, high=high, words=words, over=over)

    def _first(self, end: datetime) -> datetime:
        """Since when an entity is known to send: its first minute is left out, which is not a whole one."""
        if any(count for at, count in self.hours.items() if at + HOUR <= end - LONGER):
            return end - LONGER
        first = min(at for at, count in self.minutes.items() if count)
        return first + MINUTE if end - first > 2 * MINUTE else min(first, end - MINUTE)

    def _as_before(self, now: datetime, ahead: timedelta, days: list[datetime]) -> Expected | None:
        """What the same hours of earlier days had."""
        if not days:
            return None
        found = [_between(self.hours, day + (now - _day(now)), ahead) / (ahead / HOUR) for day in days]
        words = f"at this time of the last {len(days)} days" if len(days) > 1 else "at this time of the previous day"
        return Expected(per_hour=mean(found), low=min(found), high=max(found), words=words)

    def _days(self, now: datetime) -> list[datetime]:
        """The earlier days with the whole time of the day known: from the first one with messages."""
        known = [at for at, count in self.hours.items() if count]
        if not known:
            return []
        first = _day(min(known)) if min(known) - _day(min(known)) < HOUR else _day(min(known)) + DAY
        days = (_day(now) - DAY * back for back in range(DAYS, 0, -1))
        return [day for day in days if day >= first]


def _rhythm(hours: Counts, days: Iterable[datetime]) -> list[float]:
    """The mean number of messages by hour of the day; empty if no day is known."""
    found = [[hours.get(day + HOUR * hour, 0) for hour in range(24)] for day in days]
    return [mean(one) for one in zip(*found, strict=True)]


def _per_hour(rhythm: list[float], begin: datetime, length: timedelta) -> float:
    """The average of a daily rhythm over a time; 0 if there is none."""
    if not rhythm:
        return 0.0
    total = sum(rhythm[at.hour] * (until - at) / HOUR for at, until in _hours(begin, begin + length))
    return total / (length / HOUR)


def _between(hours: Counts, begin: datetime, length: timedelta) -> float:
    """The messages of a time, if they are spread evenly over each hour."""
    spans = _hours(begin, begin + length)
    return sum(hours.get(_hour(at), 0) * ((until - at) / HOUR) for at, until in spans)


def _hours(begin: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The parts of a time within each hour."""
    while begin < end:
        until = min(_hour(begin) + HOUR, end)
        yield begin, until
        begin = until


def _parts(begin: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    minutes = round((end - begin) / MINUTE)
    edges = [begin + MINUTE * (minutes * part // PARTS) for part in range(PARTS + 1)]
    return [(one, other) for one, other in pairwise(edges) if one < other]


def _sum(counts: Counts, begin: datetime, end: datetime) -> int:
    return sum(count for at, count in counts.items() if begin <= at < end)


def _hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def _day(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)
