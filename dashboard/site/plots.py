"""Drawings as SVG, rendered by the server. Pure.

Lengths over time are percentages and heights are pixels, so a drawing is as wide as its place, and its words are as
large as the words of the page. Only the lines are stretched, in a drawing of their own inside. Nothing has an inline
style.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from zlib import crc32

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from dashboard.site.charts import Chart, Line, NumberedMark, Point, Window

TOP, PLOT, BOTTOM = 24, 190, 24
"""Heights of the row of marks, of the plot, and of the labels of the time."""
UNITS = 1000
"""The width and the height of the stretched drawing."""
PARTS = (4, 6, 7, 2)
"""An axis of time is divided into the first of these that gives whole minutes, hours or days, otherwise into four."""
ENDS: Mapping[float, str] = {0.0: "start", 100.0: "end"}
"""The labels at both ends of an axis do not stand out of it."""
NOTHING = SafeString("")
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def drawing(chart: Chart) -> SafeString:
    """The plot of a chart: grid, lines, marks and the axis of time."""
    shapes = [_line(line, chart) for line in chart.lines]
    marks = format_html_join("", "{}", ((_mark(mark, chart.window),) for mark in chart.marks))
    return plot(shapes, chart.label, _moments(chart.window), marks)


def plot(
    shapes: Iterable[SafeString], label: str, ticks: Iterable[tuple[float, str]], marks: SafeString = NOTHING
) -> SafeString:
    """A plot: a grid, shapes in thousandths of its width and height, and labels below at these percentages."""
    return format_html(
        '<svg class="chart" width="100%" height="{}" role="img" aria-label="{}">{}'
        '<svg y="{}" width="100%" height="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">{}</svg>{}{}</svg>',
        TOP + PLOT + BOTTOM,
        label,
        _grid(),
        TOP,
        PLOT,
        UNITS,
        UNITS,
        format_html_join("", "{}", ((shape,) for shape in shapes)),
        marks,
        _labels(ticks),
    )


def value_axis(top: int, unit: str) -> SafeString:
    """The labels of the values, with their unit: beside the plot, because their width does not grow with it."""
    return labelled_axis([short_number(top), short_number(top // 2), "0"], unit)


def labelled_axis(labels: Sequence[str], unit: str) -> SafeString:
    """The labels from top to bottom."""
    places = [TOP + PLOT * part / (len(labels) - 1) for part in range(len(labels))]
    return format_html(
        '<svg class="axis" width="64" height="{}" aria-hidden="true"><text class="unit" x="0" y="11">{}</text>{}</svg>',
        TOP + PLOT + BOTTOM,
        unit,
        format_html_join(
            "",
            '<text class="tick" x="56" y="{}" text-anchor="end">{}</text>',
            ((f"{y + 4:.0f}", label) for y, label in zip(places, labels, strict=True)),
        ),
    )


def _grid() -> SafeString:
    return format_html_join(
        "",
        '<line class="grid" x1="0" x2="100%" y1="{}" y2="{}"/>',
        ((y, y) for y in (TOP, TOP + PLOT // 2, TOP + PLOT)),
    )


def _line(line: Line, chart: Chart) -> SafeString:
    """A staircase: a value is valid until the next one, and the last one until the end. The first line is filled."""
    known = [(at, value) for at, value in zip(chart.stops, line.values, strict=True) if value is not None]
    if not known:
        return NOTHING
    drawn = _staircase(known, chart.window, chart.top)
    first = _x(chart.window, known[0][0])
    area = format_html('<path class="area {}" d="{}V{}H{}Z"/>', line.tone, drawn, UNITS, first)
    return format_html('{}<path class="line {}" d="{}"/>', area if line is chart.lines[0] else "", line.tone, drawn)


def _staircase(points: Sequence[Point], window: Window, top: int) -> str:
    first, *others = ((_x(window, at), f"{UNITS * (1 - value / top):.4g}") for at, value in points)
    return f"M{first[0]} {first[1]}" + "".join(f"H{x}V{y}" for x, y in others) + f"H{UNITS}"


def _x(window: Window, at: datetime) -> str:
    return f"{window.share(at) * UNITS:.4g}"


def _mark(mark: NumberedMark, window: Window) -> SafeString:
    share = 100 * window.share(mark.at)
    return format_html(
        '<g class="happening is-{tone}"><title>{words}</title><line x1="{x}%" x2="{x}%" y1="{top}" y2="{floor}"/>'
        '<circle cx="{x}%" cy="11" r="9"/><text x="{x}%" y="15" text-anchor="middle">{number}</text></g>',
        tone=mark.tone,
        words=f"{mark.at:%H:%M:%S} UTC, {', '.join(mark.words)}",
        x=f"{share:.4g}",
        top=20,
        floor=TOP + PLOT,
        number=mark.number,
    )


def _moments(window: Window) -> list[tuple[float, str]]:
    parts = _parts(window)
    moments = [window.start + (window.end - window.start) * part / parts for part in range(parts + 1)]
    return [(100 * part / parts, when(window, at)) for part, at in enumerate(moments)]


def _parts(window: Window) -> int:
    length = window.end - window.start
    unit = next((unit for unit in (DAY, HOUR) if length >= 2 * unit), MINUTE)
    return next((parts for parts in PARTS if not length % (unit * parts)), PARTS[0])


def _labels(ticks: Iterable[tuple[float, str]]) -> SafeString:
    """Labels below the plot; a phone shows every other one, among them the last."""
    labels = list(ticks)
    return format_html_join(
        "",
        '<text class="tick{}" x="{}%" y="{}" text-anchor="{}">{}</text>',
        (
            (" between" if left % 2 else "", f"{share:.4g}", TOP + PLOT + 17, ENDS.get(share, "middle"), text)
            for left, (share, text) in zip(reversed(range(len(labels))), labels, strict=True)
        ),
    )


def when(window: Window, at: datetime) -> str:
    """The label of a moment: −20 min, now; of past windows the time of day, or the date."""
    if window.is_past:
        is_long = (window.end - window.start).days >= 1
        return at.strftime("%m-%d %H:%M" if is_long else "%H:%M:%S")
    minutes = (window.end - at).total_seconds() / 60
    if minutes < 0.05:
        return "now"
    if minutes <= 90:
        return f"−{minutes:.3g} min"
    is_of_days = window.end - window.start >= 2 * DAY
    return f"−{minutes / 1440:.3g} d" if is_of_days else f"−{minutes / 60:.3g} h"


def sparkline(
    points: Sequence[Point],
    window: Window,
    label: str,
    tone: str = "total",
    width: int = 120,
    height: int = 28,
    least_top: int = 5,
) -> SafeString:
    """A small line without axes, at least `least_top` high. The label describes it in words."""
    top = max((value for _, value in points), default=0)
    floor = f"0,{height - 2} {width},{height - 2}"
    drawn = _steps(points, window, max(top, least_top), width, height, pad=2) if top else floor
    first = window.share(points[0][0]) * width if points else 0
    area = f"{first:.1f},{height - 2} {drawn} {width},{height - 2}" if top else ""
    return format_html(
        '<svg class="spark {}{}" viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{}" '
        'preserveAspectRatio="none"><polygon class="spark-area" points="{}"/><polyline points="{}"/></svg>',
        tone,
        "" if top else " spark-flat",
        width,
        height,
        width,
        height,
        label,
        area,
        drawn,
    )


def _steps(points: Sequence[Point], window: Window, peak: int, width: float, height: float, pad: float = 0) -> str:
    """Coordinates of a staircase in pixels."""
    usable = height - 2 * pad
    corners: list[tuple[float, float]] = []
    for at, value in points:
        x, y = window.share(at) * width, pad + usable * (1 - value / peak)
        if corners:
            corners.append((x, corners[-1][1]))
        corners.append((x, y))
    if corners:
        corners.append((width, corners[-1][1]))
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)


def short_number(value: int) -> str:
    """A short form of a number: 1,204, 12.3k, 4.5M."""
    if value < 10_000:
        return f"{value:,}"
    if value < 1_000_000:
        return f"{value / 1000:.3g}k"
    return f"{value / 1_000_000:.3g}M"


HUES = 5
"""`hue-1` to `hue-5` of the stylesheet; none of them is the colour of a state."""
TOTAL = "total"
"""The class of a line that is no entity's, in the colour of text."""
DASHES = ("", " dashed", " dotted", " dash-dotted")


def hue(name: str) -> str:
    """The CSS class of a name's colour, the same in all charts, processes and installations."""
    return f"hue-{crc32(name.casefold().encode()) % HUES + 1}"


def looks(names: Iterable[str]) -> list[str]:
    """The CSS classes of lines of one chart: names that share a colour have different dashes."""
    found: list[str] = []
    for name in names:
        tone = hue(name)
        found.append(tone + DASHES[sum(one.split()[0] == tone for one in found) % len(DASHES)])
    return found
