"""Charts over time: what they show, as data that `plots.py` draws and pages repeat in words. Pure."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from dashboard.site.durations import lasting

Point = tuple[datetime, int]
Key = TypeVar("Key")
STOPS, TABLE_ROWS, MOST_NAMED = 180, 12, 4
NEAR, SAME_TIME = 0.03, timedelta(minutes=1)
"""Events nearer to each other, as a share of the window, have one mark; those of the same time are one moment."""


def by_key(rows: Iterable[tuple[Key, datetime, int]]) -> Mapping[Key, list[Point]]:
    """The points of each key, in their order."""
    found: dict[Key, list[Point]] = defaultdict(list)
    for key, at, value in rows:
        found[key].append((at, value))
    return found


@dataclass(frozen=True, slots=True)
class Series:
    """A named line. `tone` is the CSS class of its colour (`hues.py`)."""

    name: str
    points: Sequence[Point]
    tone: str


@dataclass(frozen=True, slots=True)
class Window:
    """The period that a chart shows."""

    start: datetime
    end: datetime
    is_past: bool = False
    """Axis labels: the time of day (UTC) for past windows, otherwise the time before now."""

    @classmethod
    def last(cls, span: timedelta, now: datetime) -> "Window":
        return cls(now - span, now)

    def share(self, at: datetime) -> float:
        """The position of a moment in the window, from 0 at the start to 1 at the end."""
        return min(1.0, max(0.0, (at - self.start) / (self.end - self.start)))

    def time_of(self, at: datetime) -> str:
        """A time within it, UTC: with the date if it is longer than a day."""
        return f"{at:%Y-%m-%d %H:%M}" if self.end - self.start > timedelta(days=1) else f"{at:%H:%M:%S}"

    @property
    def words(self) -> str:
        """`last 20 min`; for past windows its length."""
        length = lasting(self.end - self.start)
        return length if self.is_past else f"last {length}"

    @property
    def bounds(self) -> str:
        """`13:42 to 14:02 UTC`, with the date where it is not one day."""
        if self.start.date() == self.end.date():
            return f"{self.start:%H:%M} to {self.end:%H:%M} UTC"
        return f"{self.start:%Y-%m-%d %H:%M} to {self.end:%Y-%m-%d %H:%M} UTC"


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened, to what. `tone` is the state whose colour it has; `is_end`: it ends an outage."""

    at: datetime
    words: str
    tone: str
    subject: str = ""
    is_end: bool = False


@dataclass(frozen=True, slots=True)
class NumberedMark:
    """What happened at about one time; `number` stands in the drawing and in the list beside it."""

    number: int
    at: datetime
    offset_s: float
    tone: str
    when: str
    words: Sequence[str]


@dataclass(frozen=True, slots=True)
class Line:
    """The values of a series at the stops of its chart; None before its first point."""

    name: str
    tone: str
    values: Sequence[int | None]

    @property
    def known(self) -> list[int]:
        return [value for value in self.values if value is not None]

    @property
    def last(self) -> int:
        return self.known[-1] if self.known else 0

    @property
    def peak(self) -> int:
        return max(self.known, default=0)

    @property
    def written(self) -> str:
        """The values for the script that reads them out: `- 0 12`."""
        return " ".join("-" if value is None else str(value) for value in self.values)


@dataclass(frozen=True, slots=True)
class Chart:
    """What a drawing shows; the same values stand beside it as text."""

    window: Window
    unit: str
    top: int
    """The upper end of its axis."""
    stops: Sequence[datetime]
    lines: Sequence[Line]
    marks: Sequence[NumberedMark]
    label: str
    step: str = ""
    """What a point stands for, if it is the highest of a period: `5 min`."""

    @property
    def start_s(self) -> str:
        """The start of the window since 1970, for the script."""
        return f"{self.window.start.timestamp():.1f}"

    @property
    def length_s(self) -> str:
        return f"{(self.window.end - self.window.start).total_seconds():.1f}"

    @property
    def is_empty(self) -> bool:
        """Whether nothing was measured."""
        return not self.lines

    @property
    def is_flat(self) -> bool:
        """Whether there is nothing to see: all values are zero, and nothing happened."""
        return not self.marks and not any(line.peak for line in self.lines)

    @property
    def is_quiet(self) -> bool:
        """Whether a sentence stands instead of the drawing."""
        return self.is_empty or self.is_flat

    @property
    def offsets(self) -> str:
        """The stops in seconds since the start of the window, for the script."""
        return " ".join(f"{(at - self.window.start).total_seconds():.1f}" for at in self.stops)

    @property
    def rows(self) -> list[tuple[datetime, list[int | None]]]:
        """A few of the stops, with the values of all lines: the peaks and the present."""
        if not self.lines:
            return []
        first = list(zip(self.stops, (value or 0 for value in self.lines[0].values), strict=True))
        shown = {at for at, _ in thin(first, self.window, TABLE_ROWS)}
        return [(at, [line.values[n] for line in self.lines]) for n, at in enumerate(self.stops) if at in shown]


def chart(
    series: Sequence[Series],
    window: Window,
    subject: str,
    unit: str,
    marks: Iterable[Mark] = (),
    step: str = "",
    least_top: int = 0,
) -> Chart:
    """A chart whose lines are read at the same moments, so that its values are of one reading.

    The moments are those of the first series' peaks, and the peak of every other one. `subject`: what it shows.
    `least_top`: what the axis reaches at least, for values of a scale such as points of 100.
    """
    within = (Series(one.name, _within(one.points, window), one.tone) for one in series)
    shown = [one for one in within if one.points]
    numbered = numbered_marks(marks, window)
    stops = _stops(shown, window, [mark.at for mark in numbered])
    lines = [Line(one.name, one.tone, _values(one.points, stops)) for one in shown]
    return Chart(
        window=window,
        unit=unit,
        top=ceiling(max(least_top, *(line.peak for line in lines), 0)),
        stops=stops,
        lines=lines,
        marks=numbered,
        label=_label(subject, window, lines, stops),
        step=step,
    )


def _label(subject: str, window: Window, lines: Sequence[Line], stops: Sequence[datetime]) -> str:
    if not lines:
        return f"{subject}, {window.words}: nothing measured"
    first = lines[0]
    at = stops[first.values.index(first.peak)]
    now = "at the end" if window.is_past else "now"
    return f"{subject}, {window.words}: highest {first.peak:,} at {window.time_of(at)} UTC, {now} {first.last:,}"


def _within(points: Sequence[Point], window: Window) -> list[Point]:
    """The points of the window, beginning with the value at its start."""
    before = [(window.start, value) for at, value in points if at < window.start][-1:]
    return before + [(at, value) for at, value in points if window.start <= at <= window.end]


def _stops(series: Sequence[Series], window: Window, marked: Sequence[datetime]) -> list[datetime]:
    """The moments at which values are read: the thinned first line's, the other lines' peaks, and the marks'."""
    if not series:
        return []
    lead, *others = series
    stops = {at for at, _ in thin(lead.points, window, STOPS)} | {one.points[0][0] for one in series}
    stops |= {max(one.points, key=lambda point: point[1])[0] for one in others}
    first = min(stops)
    return sorted(stops | {at for at in marked if at > first})


def _values(points: Sequence[Point], stops: Sequence[datetime]) -> list[int | None]:
    """The value at each stop: that of the last point until then."""
    found: list[int | None] = []
    value, place = None, 0
    for stop in stops:
        while place < len(points) and points[place][0] <= stop:
            value, place = points[place][1], place + 1
        found.append(value)
    return found


def numbered_marks(marks: Iterable[Mark], window: Window) -> list[NumberedMark]:
    """The marks of the window in order, those at about the same time together."""
    groups: list[list[Mark]] = []
    for mark in sorted(marks, key=lambda one: (one.at, one.subject)):
        if not window.start <= mark.at <= window.end:
            continue
        if groups and window.share(mark.at) - window.share(groups[-1][0].at) < NEAR:
            groups[-1].append(mark)
        else:
            groups.append([mark])
    return [
        NumberedMark(
            number=number,
            at=group[0].at,
            offset_s=(group[0].at - window.start).total_seconds(),
            tone=group[0].tone,
            when=window.time_of(group[0].at),
            words=_together(group, window),
        )
        for number, group in enumerate(groups, start=1)
    ]


def _together(marks: Sequence[Mark], window: Window) -> list[str]:
    """What happened, once each, with all it happened to: `Failed over: orders, payments and 2 more`. What happened
    later than the first begins with its own time.
    """
    subjects: dict[str, list[str]] = {}
    moment = first = marks[0].at
    for mark in marks:
        moment = mark.at if mark.at - moment > SAME_TIME else moment
        time = f"{window.time_of(moment)} " if moment != first else ""
        known = subjects.setdefault(time + mark.words, [])
        if mark.subject and mark.subject not in known:
            known.append(mark.subject)
    return [f"{words}: {_named(known)}" if known else words for words, known in subjects.items()]


def _named(subjects: Sequence[str]) -> str:
    named, others = subjects[:MOST_NAMED], len(subjects) - MOST_NAMED
    return ", ".join(named) + (f" and {others} more" if others > 0 else "")


def thin(points: Iterable[Point], window: Window, buckets: int) -> list[Point]:
    """At most one point per bucket: the highest, so that peaks remain visible.

    Before a gap, and at the end, also the bucket's last point, because that value lasted, and not the peak.
    """
    best: dict[int, Point] = {}
    last: dict[int, Point] = {}
    for point in points:
        bucket = min(buckets - 1, int(window.share(point[0]) * buckets))
        last[bucket] = point
        if bucket not in best or point[1] >= best[bucket][1]:
            best[bucket] = point
    thinned: list[Point] = []
    for bucket in sorted(best):
        thinned.append(best[bucket])
        if bucket + 1 not in best and last[bucket] != best[bucket]:
            thinned.append(last[bucket])
    return thinned


def ceiling(value: int) -> int:
    """The next round number at or above the value; at least 10, so that a single message does not look alarming."""
    if value <= 10:
        return 10
    power = 10 ** math.floor(math.log10(value))
    return next(int(step * power) for step in (1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10) if step * power >= value)
