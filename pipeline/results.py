"""The result file of a charges run: JSON lines, one record each, that the control plane stores (docs/costs.md).

The first line is the `run`, then come the outages (`episode`, and `availability` for each entity) and the depths of
backlogs (`rollup`), then per billing scope and rule an `invoice`
followed by its `line`s and `day`s. The last line is the `end`, with the number of `records` before it.
Money is exact: `cents` are whole, `exact` is a decimal text with twelve digits after the point.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from pipeline.backlog import Rollup
from pipeline.invoice import Invoice, Line
from pipeline.outages import Availability, Episode, Place
from pipeline.prices import PriceList, price_records
from pipeline.schemas import RULES
from pipeline.usage.counts import Counts

UNSTORABLE = re.compile("[\0\ud800-\udfff]")
ESCAPED = "\\u"
ENCODER = json.JSONEncoder(ensure_ascii=False)
MOST_NAMES = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """What one kind used and cost on one day."""

    date: str
    kind: str
    operations: int
    units: int
    exact: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """An invoice with its days."""

    invoice: Invoice
    days: tuple[Day, ...]


def decimal_text(amount: Fraction | int) -> str:
    """The amount with twelve digits after the point, rounded half up."""
    if isinstance(amount, int):
        return f"{amount}.000000000000"
    denominator = amount.denominator
    scaled = (amount.numerator * 2 * 10**12 + denominator) // (2 * denominator)
    return f"{scaled // 10**12}.{scaled % 10**12:012d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a run: the results of the rows, an invoice per billing scope and rule, and the outages."""

    counts: Counts
    priced: tuple[Priced, ...]
    episodes: tuple[Episode, ...] = ()
    availability: tuple[Availability, ...] = ()
    rollups: tuple[Rollup, ...] = ()
    late_days: tuple[str, ...] = ()


def write_results(path: Path, run: Mapping[str, Any], prices: PriceList, outcome: Outcome) -> None:
    """Write the file atomically: a reader sees all of it or nothing."""
    beside = path.with_suffix(".part")
    with beside.open("w", encoding="utf-8") as out:
        count = 0
        for line in _lines(run, prices, outcome):
            out.write(line)
            count += 1
        out.write(line_of({"record": "end", "records": count}))
    beside.replace(path)


def line_of(record: Mapping[str, Any]) -> str:
    """A line of the file; `record` is the first key."""
    text = ENCODER.encode(record)
    if ESCAPED in text or not text.isascii():  # a zero byte is escaped, and a surrogate is not ASCII
        text = ENCODER.encode(storable(dict(record)))
    return text + "\n"


def storable(value: Any) -> Any:
    """The value with each character replaced that a database or a file rejects: zero bytes and lone surrogates."""
    match value:
        case str():
            return value if value.isascii() and "\0" not in value else UNSTORABLE.sub("\ufffd", value)
        case dict():
            return {storable(key): storable(each) for key, each in value.items()}
        case list() | tuple():
            return [storable(each) for each in value]
    return value


def _lines(run: Mapping[str, Any], prices: PriceList, outcome: Outcome) -> Iterable[str]:
    yield from map(line_of, _records(run, prices, outcome))
    quoted = lru_cache(MOST_NAMES)(_quoted)  # a name stands in many lines
    for each in outcome.priced:
        yield line_of(_invoice(each.invoice))
        yield from (_line(line, quoted) for line in each.invoice.lines)
        yield from map(line_of, map(_day, each.days))


def _records(run: Mapping[str, Any], prices: PriceList, outcome: Outcome) -> Iterable[dict[str, Any]]:
    about = {"counts": asdict(outcome.counts), "late_days": outcome.late_days, "prices": price_records(prices)}
    yield {"record": "run", **run, **about}
    yield from (_episode(episode) for episode in outcome.episodes)
    yield from ({"record": "availability", **asdict(each)} for each in outcome.availability)
    for rollup in outcome.rollups:
        yield {"record": "rollup", **asdict(rollup), "begins_at": rollup.begins_at.isoformat()}


def _quoted(name: str) -> str:
    return ENCODER.encode(storable(name))


def _invoice(invoice: Invoice) -> dict[str, Any]:
    return {
        "record": "invoice",
        "month": str(invoice.month),
        "scope": invoice.scope,
        "rule": invoice.rule,
        "allocation": invoice.allocation,
        "currency": invoice.currency,
        "exact": decimal_text(invoice.exact),
        "cents": invoice.cents,
        "units": invoice.units,
        "tiers": list(invoice.tiers),
        "unpriced_bytes": invoice.unpriced_bytes,
    }


def _line(line: Line, quoted: Callable[[str], str]) -> str:
    """As `line_of` writes it, by hand: there are hundreds of thousands of these lines, of names and whole numbers."""
    return (
        f'{{"record": "line", "namespace": {quoted(line.namespace)}, "entity": {quoted(line.entity)}, '
        f'"kind": {quoted(line.kind)}, "pair": {quoted(line.pair)}, "operations": {line.operations}, '
        f'"messages": {line.messages}, "bytes": {line.bytes}, "units": {line.units}, "included": {line.included}, '
        f'"quantity": "{decimal_text(line.quantity)}", "exact": "{decimal_text(line.exact)}", "cents": {line.cents}, '
        f'"tiers": {list(line.tiers)}}}\n'
    )


def _day(day: Day) -> dict[str, Any]:
    return {
        "record": "day",
        "date": day.date,
        "kind": day.kind,
        "operations": day.operations,
        "units": day.units,
        "exact": decimal_text(day.exact),
    }


def _episode(episode: Episode) -> dict[str, Any]:
    return {
        "record": "episode",
        "pair": episode.pair,
        "entity": episode.entity,
        "started_at": episode.started.isoformat(),
        "ended_at": episode.ended.isoformat() if episode.ended else None,
        "cause": episode.cause,
        "reason": episode.reason,
        "down_s": episode.down_s,
        "units": dict(episode.units),
        "extra": {rule: episode.extra(rule) for rule in RULES}
        | {"crossing_bytes": episode.crossing_bytes, "places": [_place(place) for place in episode.places]},
    }


def _place(place: Place) -> dict[str, Any]:
    return {
        "scope": place.scope,
        "namespace": place.namespace,
        **{rule: place.added(rule) for rule in RULES},
        "crossing_bytes": place.crossing_bytes,
    }
