"""The days of a month as stacked bars, drawn on the server. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from dashboard.site.charts import ceiling, short_number
from dashboard.site.money import cents, money
from pairing.telemetry.metering import KINDS

WIDTH, HEIGHT = 960, 220
LEFT, RIGHT, TOP, BOTTOM = 56, 8, 12, 26
GROUPS = {
    "traffic": "Your traffic",
    "failover": "Failover",
    "idle": "Idle syphon",
    "administration": "Administration",
}


@dataclass(frozen=True, slots=True)
class DayOf:
    """The operations and the cost of one kind on one day."""

    date: date
    kind: str
    operations: int
    exact: Fraction


@dataclass(frozen=True, slots=True)
class DaysChart:
    """The drawing, its legend, and its numbers as (day, [values])."""

    svg: SafeString
    keys: Sequence[tuple[str, str]]
    heads: Sequence[str]
    rows: Sequence[tuple[date, Sequence[str]]]
    of_money: bool


def days_chart(month: str, rows: Iterable[DayOf], currency: str) -> DaysChart | None:
    """One bar per day: money, or operations if all of them are included. None without usage."""
    known = list(rows)
    of_money = any(row.exact for row in known)
    values: dict[date, dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for row in known:
        values[row.date][_group(row.kind)] += row.exact if of_money else Fraction(row.operations)
    top = max((sum(groups.values(), Fraction(0)) for groups in values.values()), default=Fraction(0))
    if not top:
        return None
    present = [name for name in GROUPS if any(name in groups for groups in values.values())]
    label = f"{'Charges in ' + currency if of_money else 'Operations'} by day of {month}"
    drawn = {day.day: values[day] for day in values}
    return DaysChart(
        svg=_svg(drawn, _top(top, of_money), of_money, label),
        keys=[(name, GROUPS[name]) for name in present],
        heads=[GROUPS[name] for name in present],
        rows=[(day, [_text(values[day][name], of_money) for name in present]) for day in sorted(values)],
        of_money=of_money,
    )


def _group(kind: str) -> str:
    return KINDS[kind].group if kind in KINDS else "administration"


def _top(highest: Fraction, of_money: bool) -> Fraction:
    """The upper end of the scale: a round number; for money, a round number of cents."""
    return Fraction(ceiling(cents(highest)), 100) if of_money else Fraction(ceiling(int(highest)))


def _text(value: Fraction, of_money: bool) -> str:
    return money(cents(value)) if of_money else f"{int(value):,}"


def _svg(days: Mapping[int, Mapping[str, Fraction]], top: Fraction, of_money: bool, label: str) -> SafeString:
    return format_html(
        '<svg class="dayschart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}{}</svg>',
        WIDTH,
        HEIGHT,
        label,
        _axis(top, of_money),
        format_html_join(
            "",
            '<rect class="{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>',
            (bar for day, groups in sorted(days.items()) for bar in _bars(day, groups, top, of_money)),
        ),
        format_html_join(
            "",
            '<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>',
            ((f"{_x(day) + _step() / 2:.1f}", HEIGHT - 8, day) for day in (1, 5, 10, 15, 20, 25, 30)),
        ),
    )


def _axis(top: Fraction, of_money: bool) -> SafeString:
    inner = HEIGHT - TOP - BOTTOM
    marks = [(top * part / 2, TOP + inner * (1 - part / 2)) for part in (0, 1, 2)]
    return format_html_join(
        "",
        '<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>'
        '<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>',
        (
            (LEFT, WIDTH - RIGHT, y, y, LEFT - 8, y + 4, money(cents(value)) if of_money else short_number(int(value)))
            for value, y in marks
        ),
    )


def _bars(
    day: int, groups: Mapping[str, Fraction], top: Fraction, of_money: bool
) -> Iterable[tuple[str, str, str, str, str, str]]:
    inner, floor = HEIGHT - TOP - BOTTOM, float(HEIGHT - BOTTOM)
    for name in GROUPS:
        value = groups.get(name, Fraction(0))
        height = float(value / top) * inner
        if height <= 0:
            continue
        floor -= height
        words = f"{day}: {GROUPS[name]}, {_text(value, of_money)}"
        yield name, f"{_x(day) + 2:.1f}", f"{floor:.1f}", f"{_step() - 4:.1f}", f"{max(height, 0.8):.1f}", words


def _step() -> float:
    return (WIDTH - LEFT - RIGHT) / 31


def _x(day: int) -> float:
    return LEFT + _step() * (day - 1)
