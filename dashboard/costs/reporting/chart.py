"""The days of a month as stacked bars, drawn on the server. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction

from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from dashboard.site.charts import ceiling
from dashboard.site.money import cents, money, small_money
from dashboard.site.plots import UNITS, labelled_axis, plot, short_number

DAYS = 31
GROUPS = {"operations": "All operations", "outages": "Outages", "idle": "Idle syphons", "pings": "Pings"}


@dataclass(frozen=True, slots=True)
class DayOf:
    """The operations and the cost of one group on one day."""

    date: date
    group: str
    operations: int
    exact: Fraction


@dataclass(frozen=True, slots=True)
class DaysChart:
    """The drawing, its legend with the values of each day, and its numbers as (day, [values])."""

    svg: SafeString
    axis: SafeString
    unit: str
    keys: Sequence[tuple[str, str, str]]
    """The CSS class, the label and the values of each group."""
    heads: Sequence[str]
    rows: Sequence[tuple[date, Sequence[str]]]
    totals: Sequence[str]
    """Of the month, by group: the sums of the days before they are rounded."""
    of_money: bool

    @property
    def stops(self) -> str:
        """The middles of the days, for the script that shows values."""
        return " ".join(f"{day.day - 0.5}" for day, _ in self.rows)

    @property
    def labels(self) -> str:
        return "|".join(f"{day:%Y-%m-%d}" for day, _ in self.rows)

    @property
    def days(self) -> int:
        """The length of the axis."""
        return DAYS


def days_chart(month: str, rows: Iterable[DayOf], currency: str) -> DaysChart | None:
    """One bar per day: money, or operations if all of them are included. None without usage."""
    known = list(rows)
    of_money = any(row.exact for row in known)
    values: dict[date, dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for row in known:
        values[row.date][row.group] += row.exact if of_money else Fraction(row.operations)
    top = max((sum(groups.values(), Fraction(0)) for groups in values.values()), default=Fraction(0))
    if not top:
        return None
    present = [name for name in GROUPS if any(name in groups for groups in values.values())]
    unit = currency if of_money else "operations"
    label = f"{'Charges in ' + currency if of_money else 'Operations'} by day of {month}"
    scale, days = _top(top, of_money), sorted(values)
    return DaysChart(
        svg=_svg({day.day: values[day] for day in days}, scale, label),
        axis=labelled_axis([_label(scale * part / 2, of_money) for part in (2, 1, 0)], unit),
        unit=unit,
        keys=[(name, GROUPS[name], " ".join(_text(values[day][name], of_money) for day in days)) for name in present],
        heads=[GROUPS[name] for name in present],
        rows=[(day, [_text(values[day][name], of_money) for name in present]) for day in days],
        totals=[_text(sum((values[day][name] for day in days), Fraction(0)), of_money) for name in present],
        of_money=of_money,
    )


def _top(highest: Fraction, of_money: bool) -> Fraction:
    """The upper end of the scale: a round number; for money, a round number of cents."""
    return Fraction(ceiling(cents(highest)), 100) if of_money else Fraction(ceiling(int(highest)))


def _text(value: Fraction, of_money: bool) -> str:
    return small_money(value) if of_money else f"{int(value):,}"


def _label(value: Fraction, of_money: bool) -> str:
    return money(cents(value)) if of_money else short_number(int(value))


def _svg(days: Mapping[int, Mapping[str, Fraction]], top: Fraction, label: str) -> SafeString:
    bars = format_html_join(
        "",
        '<rect class="bar {}" x="{}" y="{}" width="{}" height="{}"/>',
        (bar for day, groups in sorted(days.items()) for bar in _bars(day, groups, top)),
    )
    return plot([bars], label, ((100 * (day - 0.5) / DAYS, str(day)) for day in (1, 5, 10, 15, 20, 25, 30)))


def _bars(day: int, groups: Mapping[str, Fraction], top: Fraction) -> Iterable[tuple[str, str, str, str, str]]:
    floor, step = float(UNITS), UNITS / DAYS
    for name in GROUPS:
        height = float(groups.get(name, Fraction(0)) / top) * UNITS
        if height <= 0:
            continue
        floor -= height
        yield name, f"{step * (day - 0.93):.1f}", f"{floor:.1f}", f"{step * 0.86:.1f}", f"{max(height, 4):.1f}"
