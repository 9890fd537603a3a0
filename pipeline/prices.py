"""Prices as data: the response of the Azure Retail Prices API as price tiers (docs/pricing.md, sections 1, 10)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from pipeline.errors import PriceError
from pipeline.months import Month
from pipeline.price_tiers import BASE, BASIC_OPERATIONS, CONNECTIONS, OPERATIONS, PREMIUM_UNIT, Price, tier

SKUS = {
    BASE: "Standard",
    OPERATIONS: "Standard",
    CONNECTIONS: "Standard",
    BASIC_OPERATIONS: "Basic",
    PREMIUM_UNIT: "Premium",
}
BANDWIDTH = re.compile(r".*Data Transfer Out")
PUBLISHED_TIERS = {OPERATIONS: (13, 100, 2_500), CONNECTIONS: (1_000, 100_000, 500_000)}
"""Where the paid tiers begin that the service publishes, in units of measure."""
MOST, MOST_DECIMALS = 10**12, 100
TEXT = re.compile(r"\S")
SAMPLE_KEY = "Sample"
SKIPPED = re.compile(r"[?&](?:\$|%24)skip=(\d{1,9})(?:&|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Page:
    """One response of the API, or one bare item. `next`: where the response says that more follow, if they do.
    `is_sample`: whether it is marked as example prices, which the API never does.
    """

    items: Sequence[dict[str, Any]]
    next: str = ""
    is_sample: bool = False


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One row of the list: from `minimum` (in units of `unit`) on, one `unit` of the meter costs `price`."""

    sku: str
    meter: str
    unit: str
    minimum: Decimal
    price: Decimal
    currency: str
    region: str
    valid_from: datetime
    valid_to: datetime | None


@dataclass(frozen=True, slots=True)
class PriceList:
    """The prices valid in one month, in one currency. What only some need, may be missing: it is asked for by name.

    `bandwidth`: of each meter for data that leaves a region, the price of a GB. `is_sample`: whether the file says that
    its prices are examples.
    """

    currency: str
    base_per_hour: Fraction
    operations: Price
    connections: Price | None
    rows: tuple[PriceRow, ...]
    basic: Price | None = None
    premium_per_hour: Fraction | None = None
    bandwidth: Mapping[str, Price] = field(default_factory=dict)
    is_sample: bool = False


def read_prices(path: Path, month: Month, region: str | None = None) -> PriceList:
    """The prices in the file that are valid in the month; raises PriceError in one sentence."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise PriceError(f"The price list {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise PriceError(f"The price list {path} is not UTF-8 text.") from error
    try:
        pages = _complete_pages(text)
        found = price_list([item for page in pages for item in page.items], month, region)
    except PriceError as error:
        raise PriceError(f"The price list {path} cannot be used: {error}") from error
    return replace(found, is_sample=any(page.is_sample for page in pages))


def parse_items(text: str) -> Iterator[dict[str, Any]]:
    """The items of one page, of a list of pages or items, or of pages written one after the other."""
    yield from chain.from_iterable(page.items for page in _complete_pages(text))


def _complete_pages(text: str) -> list[Page]:
    if not text.strip():
        raise PriceError("it is empty.")
    try:
        pages = list(chain.from_iterable(map(_pages, _documents(text))))
    except json.JSONDecodeError as error:
        raise PriceError(f"it is not JSON ({error.msg}).") from error
    except RecursionError:
        raise PriceError("it is nested too deeply.") from None
    except ArithmeticError as error:
        raise PriceError("it has a number that cannot be read.") from error
    require_all_pages(pages)
    return pages


def _documents(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal)
    place = _next_text(text, 0)
    while place < len(text):
        document, end = decoder.raw_decode(text, place)
        yield document
        place = _next_text(text, end)


def _next_text(text: str, place: int) -> int:
    """Where the next character is that is no space. The text is not copied for it: there may be many documents."""
    found = TEXT.search(text, place)
    return found.start() if found else len(text)


def _pages(document: Any) -> Iterator[Page]:
    match document:
        case {"Items": list(items)}:
            inside = [item for each in items for page in _pages(each) for item in page.items]
            yield Page(inside, str(document.get("NextPageLink") or ""), is_sample=SAMPLE_KEY in document)
        case list():
            for entry in document:
                yield from _pages(entry)
        case {"meterName": _}:
            yield Page([document])
        case _:
            raise PriceError("it has no “Items”, as the response of the Retail Prices API has.")


def require_all_pages(pages: Sequence[Page]) -> None:
    """Refuses a list of which pages are missing: the links of the others show it."""
    linked = [page for page in pages if page.next]
    skipped = [int(found[1]) for page in linked if (found := SKIPPED.search(page.next))]
    if linked and (len(linked) == len(pages) or max(skipped, default=0) > sum(len(page.items) for page in linked)):
        raise PriceError(
            "pages are missing: a page has a NextPageLink. Save the response to that address too, and so on until a "
            "page has none, all in one file."
        )


def price_list(items: Sequence[dict[str, Any]], month: Month, region: str | None = None) -> PriceList:
    """The prices among the items that can be needed, those valid in the month."""
    rows = [row for row in map(_row, items) if row is not None and _wanted(row, region)]
    _one("currencies", {row.currency for row in rows}, "ask the API for one (currencyCode)")
    _one("regions", {row.region for row in rows if row.region}, "name one with --region")
    valid = [row for row in rows if row.valid_from < month.end and (row.valid_to is None or row.valid_to > month.start)]
    base = _current([row for row in valid if row.meter == BASE and per_hour(row.unit)], month)
    operations = _current([row for row in valid if row.meter == OPERATIONS], month)
    connections = _current([row for row in valid if row.meter == CONNECTIONS], month)
    for needed, found in ((f"{BASE} per hour", base), (OPERATIONS, operations)):
        if not found:
            where = f" in the region “{region}”" if region else ""
            raise PriceError(f"it has no row for “{needed}”{where} valid in {month}.")
    for meter, found in ((OPERATIONS, operations), (CONNECTIONS, connections)):
        _require_whole(meter, found)
    basic = _current([row for row in valid if row.meter == BASIC_OPERATIONS], month)
    premium = _current([row for row in valid if row.meter == PREMIUM_UNIT and per_hour(row.unit)], month)
    bandwidth = dict(_bandwidth(valid, month))
    return PriceList(
        currency=operations[0].currency,
        base_per_hour=Fraction(base[0].price),
        operations=_ladder(operations),
        connections=_ladder(connections) if connections else None,
        rows=(*base, *operations, *connections, *basic, *premium, *chain.from_iterable(bandwidth.values())),
        basic=_ladder(basic) if basic else None,
        premium_per_hour=Fraction(premium[0].price) if premium else None,
        bandwidth={meter: _ladder(rows) for meter, rows in bandwidth.items()},
    )


def _bandwidth(valid: Sequence[PriceRow], month: Month) -> Iterator[tuple[str, list[PriceRow]]]:
    """The meters of leaving a region; one with several prices (by routing, say) is left out: nobody knows which."""
    for meter in sorted({row.meter for row in valid if BANDWIDTH.fullmatch(row.meter)}):
        with suppress(PriceError):
            rows = _current([row for row in valid if row.meter == meter], month)
            _ladder(rows)
            yield meter, rows


def _require_whole(meter: str, rows: Sequence[PriceRow]) -> None:
    """Refuses tiers of which some are missing: all that is used would be free, or would be charged at another rate."""
    if not rows:
        return
    if not any(row.price for row in rows):
        raise PriceError(f"it has only free rows for “{meter}”: the tiers with a price are missing.")
    starts, published = {row.minimum for row in rows}, PUBLISHED_TIERS[meter]
    missing = [start for start in published if start not in starts and start < max(starts)]
    if missing and not starts.isdisjoint(published):
        raise PriceError(f"it has no row for “{meter}” from {missing[0]} × {rows[0].unit} on, but has a higher tier.")


def _row(item: dict[str, Any]) -> PriceRow | None:
    """The item as a price row; None where it is no pay-as-you-go price."""
    meter = str(item.get("meterName"))
    is_known = SKUS.get(meter, "") == item.get("skuName") or BANDWIDTH.fullmatch(meter)
    if item.get("type", "Consumption") != "Consumption" or not is_known:
        return None
    try:
        return PriceRow(
            sku=str(item.get("skuName", "")),
            meter=item["meterName"],
            unit=str(item["unitOfMeasure"]),
            minimum=_number(item, "tierMinimumUnits", "a tier that starts at"),
            price=_number(item, "retailPrice", "the price"),
            currency=_currency(item),
            region=str(item.get("armRegionName") or ""),
            valid_from=_time(item.get("effectiveStartDate")) or datetime(1970, 1, 1, tzinfo=UTC),
            valid_to=_time(item.get("effectiveEndDate")),
        )
    except KeyError as error:
        raise PriceError(f"a row of “{item.get('meterName')}” has no {error}.") from error
    except (ArithmeticError, TypeError, ValueError) as error:
        raise PriceError(f"a row of “{item.get('meterName')}” has a number or date that cannot be read.") from error


def _number(item: dict[str, Any], field: str, what: str) -> Decimal:
    """A price or the start of a tier; what cannot be one is refused."""
    number = Decimal(item[field])
    if not number.is_finite() or not 0 <= number <= MOST or int(number.as_tuple().exponent) < -MOST_DECIMALS:
        raise PriceError(f"a row of “{item['meterName']}” has {what} {str(number)[:40]}.")
    return number


def _currency(item: dict[str, Any]) -> str:
    code = str(item["currencyCode"])
    if re.fullmatch(r"[A-Za-z]{3}", code) is None:
        raise PriceError(
            f"a row of “{item['meterName']}” has the currency “{code[:40]}”, which does not have three letters."
        )
    return code


def _time(text: str | None) -> datetime | None:
    if not text:
        return None
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _wanted(row: PriceRow, region: str | None) -> bool:
    return region is None or not row.region or row.region.lower() == region.lower()


def _one(what: str, found: set[str], remedy: str) -> None:
    if len(found) > 1:
        raise PriceError(f"it has rows of several {what} ({', '.join(sorted(found))}): {remedy}.")


def per_hour(unit: str) -> bool:
    """Whether the unit of measure is an hour; the list spells it `1/Hour` and `1 Hour`."""
    return re.fullmatch(r"1\s*[/ ]\s*hours?", unit.strip(), re.IGNORECASE) is not None


def _current(rows: list[PriceRow], month: Month) -> list[PriceRow]:
    """One ladder of rows: the newest that is valid when the month begins, or else the first that begins in it.

    Rows of a newer date that do not start at 0 amend the ladder before them, tier by tier.
    """
    ladder: dict[Decimal, PriceRow] = {}
    by_date = sorted(rows, key=lambda row: row.valid_from)
    for valid_from, version in groupby(by_date, key=lambda row: row.valid_from):
        if ladder and valid_from > month.start:
            break
        tiers = _tiers(list(version))
        ladder = tiers if 0 in tiers else ladder | tiers
    return [ladder[minimum] for minimum in sorted(ladder)]


def _tiers(rows: list[PriceRow]) -> dict[Decimal, PriceRow]:
    tiers: dict[Decimal, PriceRow] = {}
    for row in rows:
        known = tiers.setdefault(row.minimum, row)
        if known.price != row.price or known.unit != row.unit:
            raise PriceError(f"it has two different prices for “{row.meter}” from {row.minimum} on.")
    return tiers


def _ladder(rows: list[PriceRow]) -> Price:
    try:
        return Price(tuple(tier(row.minimum, row.unit, row.price) for row in rows))
    except PriceError as error:
        raise PriceError(f"“{rows[0].meter}”: {error}") from error


def price_records(prices: PriceList) -> list[dict[str, str]]:
    """The price rows that were used, as texts."""
    return [
        {
            "meter": row.meter,
            "unit": row.unit,
            "from": format(row.minimum, "f"),
            "price": format(row.price, "f"),
            "currency": row.currency,
            "region": row.region,
            "valid_from": row.valid_from.date().isoformat(),
        }
        for row in prices.rows
    ]
