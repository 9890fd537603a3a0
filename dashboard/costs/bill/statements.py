"""Statements of Azure for a month: a cost export of any account type (docs/pricing.md, section 10).

Users upload the files, so they may contain anything. An unusable file is rejected with one sentence; an unusable row is
skipped and counted.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import BinaryIO

from dashboard.access.audited import ActionError
from dashboard.site.forms import LARGEST_BYTES

MOST_ROWS = 1_000_000
LONGEST_FIELD = 64 * 1024
SERVICE, BANDWIDTH = "service bus", "bandwidth"
# Two patterns, each of linear time: one for both would try every pair of places in a text that somebody has made.
SUBSCRIPTION = re.compile(r"/subscriptions/([\w.-]+)/", re.IGNORECASE | re.ASCII)
NAMESPACE = re.compile(r"/providers/microsoft\.servicebus/namespaces/([\w$.-]+)(?![^/])", re.IGNORECASE | re.ASCII)
LONGEST_NUMBER = 64
UNIT = re.compile(r"(\d+)\s*([KMB]?)(?:\s*[/ ]?\s*(?:hours?|gb|month|day))?", re.IGNORECASE)
MULTIPLES = {"": 1, "K": 1_000, "M": 1_000_000, "B": 1_000_000_000}
# The column names of all account types, without case, spaces and underscores: Microsoft Customer Agreement,
# Enterprise Agreement (new and old), pay-as-you-go, FOCUS.
COLUMNS = {
    "date": ("date", "usagedatetime", "usagedate", "chargeperiodstart"),
    "category": ("metercategory", "xskumetercategory", "servicename"),
    "meter": ("metername", "xskumetername", "skumeter"),
    "quantity": ("quantity", "consumedquantity", "usagequantity", "pricingquantity"),
    "unit": ("unitofmeasure", "pricingunit", "consumedunit"),
    "cost": ("costinbillingcurrency", "pretaxcost", "cost", "extendedcost", "billedcost"),
    "currency": ("billingcurrency", "billingcurrencycode", "currency"),
    "resource": ("resourceid", "instanceid", "instancename"),
    "scope": ("subscriptionid", "subscriptionguid", "subaccountid"),
    "type": ("chargetype", "chargecategory"),
}
OPTIONAL = ("scope", "type")
DAY_FIRST = (
    "The dates of the file have the day first ({}), and those of an Azure export the month: export the file again, and "
    "do not save it in a spreadsheet program."
)


class StatementError(ActionError):
    """The file cannot be used; the text is one sentence with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """The sum of a statement for one day, namespace and meter, in single units."""

    date: date
    scope: str
    namespace: str
    meter: str
    quantity: Fraction
    cost: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """The sums of a file for a month, the number of rows in them, and the number of skipped rows by reason."""

    sums: tuple[Sum, ...]
    rows: int
    skipped: Mapping[str, int]
    currency: str


class Unusable(Exception):
    """Why a row is skipped."""


def read_export(file: BinaryIO, month: str) -> Parsed:
    """The Service Bus rows of a cost export for the month. Raises StatementError."""
    lines = _rows(text_of(file))
    columns, currencies, skipped = _columns(next(lines, [])), set[str](), Counter[str]()
    sums: dict[tuple[date, str, str, str], list[Sum]] = defaultdict(list)
    for number, row in enumerate(lines):
        if number >= MOST_ROWS:
            raise StatementError(f"The file has more than {MOST_ROWS:,} rows: export less of it at a time.")
        try:
            found = _billed(row, columns, currencies)
            if f"{found.date:%Y-%m}" != month:
                raise Unusable("of another month")
        except Unusable as reason:
            skipped[str(reason)] += 1
        else:
            sums[found.date, found.scope, found.namespace, found.meter].append(found)
    if len(currencies) > 1:
        raise StatementError(
            f"The export mixes currencies ({', '.join(sorted(currencies)[:5])}): export one billing account."
        )
    if not sums:
        raise StatementError(f"The export has no row of Service Bus in {month}{why(skipped)}.")
    return Parsed(
        sums=tuple(_together(sums[key]) for key in sorted(sums)),
        rows=sum(map(len, sums.values())),
        skipped=dict(skipped),
        currency=next(iter(currencies), ""),
    )


def _together(rows: Sequence[Sum]) -> Sum:
    quantity, cost = sum(row.quantity for row in rows), sum(row.cost for row in rows)
    return replace(rows[0], quantity=Fraction(quantity), cost=Fraction(cost))


def why(skipped: Mapping[str, int]) -> str:
    """The skipped rows in brackets; empty if there are none."""
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(skipped.items()))
    return f" ({reasons})" if reasons else ""


def text_of(file: BinaryIO) -> str:
    """The file as text. Raises StatementError if it is not text, or too large."""
    data = file.read(LARGEST_BYTES + 1)
    if len(data) > LARGEST_BYTES:
        raise StatementError(f"The file is larger than {LARGEST_BYTES // 2**20} MB: export less of it at a time.")
    if not data.strip():
        raise StatementError("The file is empty.")
    if data[:2] in (b"\x1f\x8b", b"PK") or data[:4] == b"PAR1":
        raise StatementError("The file is compressed or Parquet: upload the CSV instead.")
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise StatementError("The file is not UTF-8 text.") from error
    if "\0" in text:
        raise StatementError("The file is not UTF-8 text: it contains zero bytes.")
    return text


def _rows(text: str) -> Iterator[list[str]]:
    """The lines of the CSV that are not empty."""
    csv.field_size_limit(LONGEST_FIELD)
    head = text[: text.find("\n")]
    delimiter = ";" if head.count(";") > head.count(",") else ","
    try:
        yield from (row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row)
    except csv.Error as error:
        raise StatementError(f"The file is not CSV: {error}.") from error


def _columns(head: list[str]) -> dict[str, int]:
    """The position of each column; if several names of a column exist, the first one."""
    known = {re.sub(r"[\s_]", "", name).lower(): place for place, name in reversed(list(enumerate(head)))}
    columns = {}
    for column, names in COLUMNS.items():
        found = next((known[name] for name in names if name in known), None)
        if found is not None:
            columns[column] = found
        elif column not in OPTIONAL:
            raise StatementError(
                f"This is not an Azure cost export: it has no column for the {column} (such as {names[0]})."
            )
    if "consumedunit" not in known or "unitofmeasure" in known:
        return columns
    # FOCUS has two quantities, each with its own unit; mixing them would be wrong by a factor of a million.
    if "pricingquantity" in known and "pricingunit" in known:
        return columns | {"quantity": known["pricingquantity"], "unit": known["pricingunit"]}
    return columns | {"unit": known["consumedunit"]}


def _billed(row: list[str], columns: Mapping[str, int], currencies: set[str]) -> Sum:
    if len(row) <= max(columns.values()):
        raise Unusable("with too few columns")
    reported = {name: row[place].strip() for name, place in columns.items()}
    resource = resource_of(reported["resource"])
    category = reported["category"].lower().replace("azure ", "")
    if category != SERVICE and not (category == BANDWIDTH and resource):
        raise Unusable("of other services")
    if reported.get("type", "usage").lower() not in ("usage", "", "roundingadjustment"):
        raise Unusable("that are not usage")
    if not reported["meter"]:
        raise Unusable("without a meter")
    found = Sum(
        date=day_of(reported["date"]),
        scope=(reported.get("scope") or (resource[0] if resource else "")).lower().removeprefix("/subscriptions/"),
        namespace=resource[1] if resource else "",
        meter=reported["meter"][:120],
        quantity=number_of(reported["quantity"]) * _multiple(reported["unit"]),
        cost=number_of(reported["cost"]),
    )
    currencies.add(reported["currency"].upper()[:10])
    return found


def resource_of(text: str) -> tuple[str, str] | None:
    """Subscription and namespace of the id of a resource, in lower case; None if it belongs to no namespace."""
    subscription = SUBSCRIPTION.search(text)
    namespaces = NAMESPACE.findall(text, subscription.end()) if subscription else []
    return (subscription[1].lower(), namespaces[-1].lower()) if subscription and namespaces else None


def day_of(text: str) -> date:
    """Parse a day of an export: 2026-10-01, 2026-10-01T00:00:00Z, or 10/01/2026 with the month first."""
    try:
        if match := re.match(r"(\d{1,2})/(\d{1,2})/(\d{4})", text):
            if 12 < int(match[1]) <= 31 and 0 < int(match[2]) <= 12:
                raise StatementError(DAY_FIRST.format(text[: match.end()]))
            return date(int(match[3]), int(match[1]), int(match[2]))
        return datetime.fromisoformat(text).date()
    except ValueError:
        raise Unusable("with an unreadable date") from None


def number_of(text: str) -> Fraction:
    """The exact number. Raises Unusable, also for numbers that are impossible on a bill."""
    if len(text) > LONGEST_NUMBER:
        raise Unusable("with an unreadable number")
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise Unusable("with an unreadable number") from None
    if not number.is_finite() or not -30 < number.adjusted() < 14:
        raise Unusable("with an unreadable number")
    return Fraction(number)


def _multiple(unit: str) -> int:
    match = UNIT.fullmatch(unit.strip()) if len(unit) <= LONGEST_NUMBER else None
    if match is None or not 0 < int(match[1][:12]) <= 10**9:
        raise Unusable("in an unknown unit")
    return int(match[1]) * MULTIPLES[match[2].upper()]
