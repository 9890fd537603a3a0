"""Charts as SVG, rendered by the server: they need no script and use the colours of the page. Pure."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

Point = tuple[datetime, int]


@dataclass(frozen=True, slots=True)
class Series:
    """A named line. `tone` is the CSS class of its colour: `total`, or `series-1` to `series-5`."""

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


def sparkline(points: Sequence[Point], window: Window, label: str, width: int = 120, height: int = 28) -> SafeString:
    """A small line without axes. The label describes it in words."""
    top = max((value for _, value in points), default=0)
    drawn = _steps(points, window, max(top, 5), width, height, pad=2) if top else f"0,{height - 2} {width},{height - 2}"
    first = window.share(points[0][0]) * width if points else 0
    area = f"{first:.1f},{height - 2} {drawn} {width},{height - 2}" if top else ""
    return format_html(
        '<svg class="spark{}" viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{}" '
        'preserveAspectRatio="none"><polygon class="spark-area" points="{}"/><polyline points="{}"/></svg>',
        "" if top else " spark-flat",
        width,
        height,
        width,
        height,
        label,
        area,
        drawn,
    )


def depth_chart(
    series: Sequence[Series], window: Window, label: str, width: int = 760, height: int = 220
) -> SafeString:
    """Lines over time with labelled axes, each named at its end; the first series is the filled total."""
    return _drawn(series, window, label, width, height, right=_margin(series), ticks=4)


def small_chart(series: Sequence[Series], window: Window, label: str) -> SafeString:
    """The same for a phone: as wide as its screen, so that its labels are legible; the legend is beside it."""
    return _drawn(series, window, label, 340, 180, right=6, ticks=2)


def _drawn(
    series: Sequence[Series], window: Window, label: str, width: int, height: int, *, right: int, ticks: int
) -> SafeString:
    is_small = ticks < 4
    left, top, bottom = 46, 12, 26
    inner_w, inner_h = width - left - right, height - top - bottom
    peak = ceiling(max((value for line in series for _, value in line.points), default=0))
    return format_html(
        '<svg class="chart{}" viewBox="0 0 {} {}" preserveAspectRatio="xMinYMin meet" role="img" aria-label="{}">'
        '{}{}<g transform="translate({},{})">{}</g>{}</svg>',
        " small" if is_small else "",
        width,
        height,
        label,
        _value_axis(peak, left, top, inner_w, inner_h),
        _time_axis(window, left, top, inner_w, inner_h, ticks),
        left,
        top,
        format_html_join("", "{}", ((_line(line, window, peak, inner_w, inner_h),) for line in series)),
        "" if is_small else _names(series, peak, left + inner_w + 8, top, inner_h),
    )


def _steps(points: Sequence[Point], window: Window, peak: int, width: float, height: float, pad: float = 0) -> str:
    """Coordinates of a staircase: a depth is valid until the next measurement, and the last one until now."""
    usable = height - 2 * pad
    corners: list[tuple[float, float]] = []
    for when, value in points:
        x, y = window.share(when) * width, pad + usable * (1 - value / peak)
        if corners:
            corners.append((x, corners[-1][1]))
        corners.append((x, y))
    if corners:
        corners.append((width, corners[-1][1]))
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)


def _line(line: Series, window: Window, peak: int, width: float, height: float) -> SafeString:
    if not line.points:
        return mark_safe("")
    drawn = _steps(line.points, window, peak, width, height)
    first = window.share(line.points[0][0]) * width
    area = f"{first:.1f},{height:.1f} {drawn} {width:.1f},{height:.1f}" if line.tone == "total" else ""
    return format_html(
        '<polygon class="area {}" points="{}"/><polyline class="line {}" points="{}"/>',
        line.tone,
        area,
        line.tone,
        drawn,
    )


def _value_axis(peak: int, left: int, top: int, width: int, height: int) -> SafeString:
    marks = [(peak * part // 2, top + height * (1 - part / 2)) for part in (0, 1, 2)]
    return format_html_join(
        "",
        '<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>'
        '<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>',
        ((left, left + width, y, y, left - 8, y + 4, short_number(value)) for value, y in marks),
    )


def _time_axis(window: Window, left: int, top: int, width: int, height: int, ticks: int) -> SafeString:
    moments = [window.start + (window.end - window.start) * part / ticks for part in range(ticks + 1)]
    marks = [(_when(window, at), left + width * part / ticks) for part, at in enumerate(moments)]
    anchors = ("start", *["middle"] * (ticks - 1), "end")
    return format_html_join(
        "",
        '<text class="tick" x="{}" y="{}" text-anchor="{}">{}</text>',
        ((x, top + height + 18, anchor, text) for (text, x), anchor in zip(marks, anchors, strict=True)),
    )


def _when(window: Window, at: datetime) -> str:
    if window.is_past:
        return at.strftime("%H:%M:%S")
    minutes = (window.end - at).total_seconds() / 60
    if minutes < 0.05:
        return "now"
    if minutes <= 90:
        return f"−{minutes:.3g} min"
    return f"−{minutes / 60:.3g} h" if minutes <= 36 * 60 else f"−{minutes / 1440:.3g} d"


def _names(series: Sequence[Series], peak: int, x: float, top: int, height: int) -> SafeString:
    """The name of each line at its end, moved apart so that they do not overlap."""
    ends = sorted(
        ((top + height * (1 - line.points[-1][1] / peak), line) for line in series if line.points),
        key=lambda end: end[0],
    )
    placed: list[tuple[float, Series]] = []
    for y, line in ends:
        placed.append((max(y, placed[-1][0] + 15) if placed else y, line))
    overflow = max(0.0, placed[-1][0] - (top + height)) if placed else 0.0
    return format_html_join(
        "",
        '<text class="name {}" x="{}" y="{}">{} <tspan class="value">{}</tspan></text>',
        (
            (line.tone, x, f"{y - overflow + 4:.1f}", _shortened(line.name), short_number(line.points[-1][1]))
            for y, line in placed
        ),
    )


def _margin(series: Sequence[Series]) -> int:
    longest = max((len(_shortened(line.name)) for line in series), default=0)
    return 48 + 7 * max(longest, 6)


def _shortened(name: str) -> str:
    return name if len(name) <= 22 else f"{name[:10]}…{name[-11:]}"


def short_number(value: int) -> str:
    """A short form of a number: 1,204, 12.3k, 4.5M."""
    if value < 10_000:
        return f"{value:,}"
    if value < 1_000_000:
        return f"{value / 1000:.3g}k"
    return f"{value / 1_000_000:.3g}M"
