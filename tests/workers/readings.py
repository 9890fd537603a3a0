"""The figures that the places of the control plane show at one moment, to be compared: a part of
`test_figures_agree.py`.
"""

import csv
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from html import unescape
from typing import Any

from django.test import Client
from django.utils import timezone

from dashboard.costs.reporting.chart import GROUPS
from dashboard.fleet.usage.rates import ARRIVED
from dashboard.site.money import small_money
from dashboard.templatetags.dashboard import roughly
from pairing.telemetry.metering import KINDS
from tests.dashboard.markup import one_line

Shown = dict[str, dict[str, str]]
"""The places that show a figure, and what each of them says."""
LEDGER = {
    "waiting_before": ("In the backlog before", "In the backlog before"),
    "to_backlog": ("Sent to the backlog", "Sent to the backlog"),
    "to_primary": ("Drained", "Drained"),
    "dead_lettered": ("Dead-lettered", "Dead-lettered by the syphon"),
    "set_aside": ("Set aside", "Set aside by the syphon"),
    "resubmitted": ("Resubmitted later", "Resubmitted later"),
    "discarded": ("Discarded later", "Discarded later"),
    "waiting": ("Still in the backlog", "Still in the backlog"),
}
"""The ledger of an incident: names of the API, and the words of the page and of the document."""
LEFT_OUT = ("waiting_before", "set_aside", "resubmitted", "discarded")
"""The page does not show these if they are 0."""


@dataclass(slots=True)
class Readings:
    """The figures that are shown at one step, by figure and place."""

    browser: Client
    figures: Shown = field(default_factory=lambda: defaultdict(dict))

    def text(self, address: str) -> str:
        answer = self.browser.get(address)
        assert answer.status_code == 200, address
        return b"".join(answer.streaming_content).decode() if answer.streaming else answer.text

    def page(self, address: str) -> str:
        return one_line(self.text(address))

    def json(self, address: str) -> Any:
        return json.loads(self.text(address))

    def see(self, figure: str, place: str, value: object) -> None:
        self.figures[figure][place] = unescape(str(value)).replace(",", "")

    def found(self, figure: str, place: str, pattern: str, page: str) -> None:
        match = re.search(pattern, page)
        self.see(figure, place, match.group(1).strip() if match else f"nothing like {pattern}")

    @property
    def differing(self) -> Shown:
        return {figure: places for figure, places in self.figures.items() if len(set(places.values())) > 1}


def of_ledger(seen: Readings, address: str, api: Mapping[str, Any]) -> None:
    """The ledger of an incident by its entity: page, file, API, document."""
    page, story, document = seen.page(f"{address}/"), seen.json(f"{address}.json"), seen.text(f"{address}.md")
    for place, moved in (("file", story["moved"]), ("API", api["moved"])):
        assert moved is not None, "nothing was metered"
        for name in (*LEDGER, "expired", "of_unknown_entity"):
            seen.see(f"ledger: {name}", place, moved[name])
        known = moved["unexplained"]
        seen.see("ledger: unexplained", place, "not known yet" if known is None else known)
    for name, (shown, written) in LEDGER.items():
        seen.found(f"ledger: {name}", "document", rf"\| {written} \| ([-\d,]+) \|", document)
        zero = f" <dt>{shown}</dt> <dd>0" if name in LEFT_OUT else ""
        seen.found(f"ledger: {name}", "page", rf"<dt>{shown}</dt> <dd> ?([-\d,]+)", _first_ledger(page) + zero)
    seen.found("ledger: expired", "document", r"\| Of these, expired in the backlog \| ([\d,]+) \|", document)
    seen.found("ledger: expired", "page", r"<small>([\d,]+) of them expired", page + " <small>0 of them expired")
    unknown = "of an unknown entity"
    seen.found("ledger: of_unknown_entity", "document", rf"{unknown} \| ([\d,]+) \|", document)
    seen.found("ledger: of_unknown_entity", "page", rf"O{unknown[1:]}: ([\d,]+)", f"{page} O{unknown[1:]}: 0")
    seen.found("ledger: unexplained", "document", r"\| Not accounted for \| ([^|]+) \|", document)
    words = r'<dt>Not accounted for</dt> <dd> (?:<span class="quiet">— <small>|<b class="[^"]*">)(known|[-\d,]+)'
    seen.found("ledger: unexplained", "page", words, page)
    if seen.figures["ledger: unexplained"]["page"] == "known":  # "known once it is drained"
        seen.see("ledger: unexplained", "page", "not known yet")


def _first_ledger(page: str) -> str:
    """The part of the page with the ledger of the entity."""
    return page.partition('<dl class="facts" id="moved">')[2].partition("</dl>")[0]


def of_trend(seen: Readings) -> None:
    """Where the backlog is going, and for how long it has room: the API's seconds, and the words of the pages.

    Both follow from the last minutes that are reported, so that all of it is read while those stay the same.
    """
    minutes = None
    while minutes != (minutes := _this_minute_and_the_reported_one()):
        _read_trend(seen)


def _this_minute_and_the_reported_one() -> tuple[datetime, ...]:
    return tuple((timezone.now() - ago).replace(second=0, microsecond=0) for ago in (timedelta(), ARRIVED))


def _read_trend(seen: Readings) -> None:
    health, pair = seen.json("/api/v1/health")["pairs"][0]["trend"], seen.json("/api/v1/pairs/contoso")
    for place, said in (("API health", health), ("API pair", pair["trend"])):
        for name in ("full", "drained"):
            seen.see(f"{name} in", place, _words(said[f"{name}_in_s"]))
    room = pair["traffic"]["full_in_s"]
    seen.see("room", "API", _words(room))
    for place, page in (("overview", seen.page("/")), ("pair", seen.page("/pairs/contoso/"))):
        for name in ("full", "drained"):
            seen.found(f"{name} in", place, rf"<b>{name} in ([^<]*)</b>", f"{page} <b>{name} in not known</b>")
        seen.found("room", place, r"<dt>Room</dt> <dd> ([^<]*) <small", f"{page} <dt>Room</dt> <dd> Not known <small")
        seen.figures["room"][place] = seen.figures["room"][place].lower()


def _words(seconds: float | None) -> str:
    return "not known" if seconds is None else roughly(timedelta(seconds=seconds))


def of_money(seen: Readings) -> None:
    """The month's charges: the pictures of the page, its tables, the file and the API."""
    month = f"{timezone.now():%Y-%m}"
    page, rows = seen.page("/costs/"), seen.json(f"/api/v1/charges?month={month}&limit=500")["items"]
    operations = [row for row in rows if row["kind"] in KINDS]
    is_free = not any(Fraction(row["exact"]) for row in operations)
    column, text = ("operations", str) if is_free else ("exact", small_money)
    figure, label = f"{column} of the month", GROUPS["operations"]
    if operations:
        seen.see(figure, "API", text(sum((Fraction(row[column]) for row in operations), Fraction(0))))
        seen.see(figure, "sum of the month", _totals(page)[label])
        seen.see(figure, "chart, values by day", _in_all(_values(page, label), text))
        seen.see(figure, "chart, numbers by day", _in_all(_numbers(page, label), text))
    of_failover = page.partition('id="failover-by-day"')[2]
    for part, label in GROUPS.items() if "Cost of failover by day" in of_failover else ():
        if label in _totals(of_failover):
            seen.found(
                f"cost of {part}",
                "card",
                rf"(?i)\b{label} ((?:&lt;)?[\d.,]+\d)[,:]",
                page.partition("Cost of failover")[2],
            )
            seen.see(f"cost of {part}", "chart of failover", _totals(of_failover)[label])
    listed = list(csv.DictReader(seen.text(f"/costs.csv?month={month}").splitlines()))
    for kind in {row["kind"] for row in operations}:
        of_kind = [row for row in operations if row["kind"] == kind]
        seen.see(f"charge for {kind}", "API", sum(Decimal(row["amount"]) for row in of_kind))
        seen.see(f"charge for {kind}", "file", sum(Decimal(row["charge"]) for row in listed if row["kind"] == kind))
        money, width, count = _bars(page)[KINDS[kind].label]
        seen.see(f"charge for {kind}", "table", money)
        seen.see(f"operations of {kind}", "table", count)
        seen.see(f"operations of {kind}", "API", sum(row["operations"] for row in of_kind))
        sizes = _sizes(operations, "billing_units" if is_free else "amount")
        seen.see(f"bar of {kind}", "picture", width)
        seen.see(f"bar of {kind}", "its size", round(100 * sizes[kind] / max(sizes.values())))


def _sizes(rows: Iterable[Mapping[str, Any]], column: str) -> dict[str, Fraction]:
    sizes: dict[str, Fraction] = defaultdict(Fraction)
    for row in rows:
        sizes[row["kind"]] += Fraction(row[column])
    return sizes


def _values(page: str, label: str) -> list[str]:
    """What the script shows at each day of a chart."""
    match = re.search(rf'data-name="{label}" data-values="([^"]*)"', page)
    return match.group(1).replace(",", "").split() if match else []


def _chart_table(page: str) -> tuple[list[str], str]:
    head, _, body = page.partition('<th scope="col">Day</th>')[2].partition("</table>")[0].partition("</thead>")
    return re.findall(r'class="num">([^<]*)<', head), body


def _in_all(days: list[str], text: Callable[[Fraction], str]) -> str:
    """The sum of the days; what is below a cent is no number."""
    return days[0] if len(days) == 1 else text(sum(map(Fraction, days), Fraction(0)))


def _numbers(page: str, label: str) -> list[str]:
    """The table of numbers beside the chart."""
    heads, body = _chart_table(page)
    cells = re.findall(r'class="num">([^<]*)<', body.partition("<tfoot>")[0])
    return [one.replace(",", "") for one in cells[heads.index(label) :: len(heads)]]


def _totals(page: str) -> dict[str, str]:
    heads, body = _chart_table(page)
    return dict(zip(heads, re.findall(r'class="num">([^<]*)<', body.partition("<tfoot>")[2]), strict=True))


def _bars(page: str) -> dict[str, tuple[str, str, str]]:
    """Charge, width of the bar, and operations, of each kind of operation."""
    table = page.partition('id="by-kind"')[2].partition("</section>")[0]
    row = (
        r'<th scope="row"> <a [^>]*> ?([^<]*?) ?</a> </th> <td class="barcell">.*?<rect width="(\d+)".*?'
        r'num count"> ([\d,]+) </td> <td [^>]*num money">([\d.,]+)<'
    )
    return {label: (money, width, count) for label, width, count, money in re.findall(row, table)}
