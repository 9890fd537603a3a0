"""The outages of a month as they are now: what its last run priced, and what was metered since then."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from functools import cache
from typing import Any

from dashboard.costs.forecasts.current_month import used_of
from dashboard.costs.forecasts.forecast import GIGABYTE
from dashboard.costs.forecasts.tariffs import Tariff, tariff
from dashboard.costs.prices import prices_of
from dashboard.costs.reporting.insight import EXTRA_KINDS, IDLE_KIND
from dashboard.costs.reporting.outages import Later, OutageCost
from dashboard.costs.rules import is_billed, rule_of
from dashboard.costs.runs.jobs import JobFailed
from dashboard.fleet.state.outages import Outage as Folded
from dashboard.fleet.state.outages import recorded
from dashboard.fleet.usage import metered
from dashboard.models import Availability, Outage
from pipeline.months import Month

CROSSING_KINDS = ("send_backlog", "syphon_receive")
Key = tuple[str, str, datetime]
Row = Mapping[str, Any]


def live_outages(
    month: str, pair: str, priced: Sequence[OutageCost], read_at: datetime | None, now: datetime
) -> list[OutageCost]:
    """The outages that the run knew, as they are now, and those since then; newest first.

    `priced`: as the run priced them; `read_at`: when it began to read the usage, None without a run.
    """
    costs = {_key(each.outage): each for each in priced}
    found = {_key(one): one for one in _of_events(month, pair, now)}
    every = {key: costs.get(key) or OutageCost(outage=one, units={}, is_priced=False) for key, one in found.items()}
    every |= {key: each for key, each in costs.items() if key not in found}
    since = _since(month, [each.outage for each in every.values()], read_at, now)
    newest_first = sorted(every.items(), key=lambda item: item[0][2], reverse=True)
    return [_as_now(each, found.get(key), since.get(key)) for key, each in newest_first]


def _as_now(each: OutageCost, found: Outage | None, later: Later | None) -> OutageCost:
    is_priced = each.is_priced and each.outage.ended_at is not None and later is None
    if found is not None:
        each.outage.ended_at, each.outage.down_s = found.ended_at, found.down_s
    return replace(each, later=later, is_priced=is_priced)


def _key(one: Outage) -> Key:
    return one.pair, one.entity, one.started_at


def _since(month: str, found: Sequence[Outage], read_at: datetime | None, now: datetime) -> dict[Key, Later]:
    """What was metered for each outage since the run began to read the usage."""
    begin, end = Month.parse(month).start, min(Month.parse(month).end, now)
    cut = metered.minute_of(read_at) if read_at else begin
    if not found or cut >= end:
        return {}
    rows = metered.minutes(cut, end, pair__in={one.pair for one in found}, kind__in=EXTRA_KINDS)
    by_outage: dict[Key, list[Row]] = defaultdict(list)
    for key, row in _placed(rows, found):
        by_outage[key].append(row)
    price = _pricing(month)
    return {key: price(key[0], of_one) for key, of_one in by_outage.items()}


def _placed(rows: Iterable[Row], found: Sequence[Outage]) -> Iterator[tuple[Key, Row]]:
    """Each row with its outage: that of its entity which began last before it.

    A poll is of a queue, not of an entity: it counts for the open outage of the pair that had begun first.
    """
    of_entity: dict[tuple[str, str], list[Outage]] = defaultdict(list)
    of_pair: dict[str, list[Outage]] = defaultdict(list)
    for one in sorted(found, key=lambda one: (one.started_at, one.entity)):
        of_entity[one.pair, one.entity].append(one)
        of_pair[one.pair].append(one)
    for row in rows:
        if row["kind"] == IDLE_KIND:
            its = next((one for one in of_pair[row["pair"]] if _is_open(one, row["at"])), None)
        else:
            own = of_entity[row["pair"], row["entity"]]
            place = bisect_right([metered.minute_of(one.started_at) for one in own], row["at"])
            its = own[place - 1] if place else None
        if its is not None:
            yield _key(its), row


def _is_open(one: Outage, at: datetime) -> bool:
    return metered.minute_of(one.started_at) <= at and (one.ended_at is None or at < one.ended_at)


def _pricing(month: str) -> Callable[[str, Iterable[Row]], Later]:
    """A function of a pair and its rows: their price as the next ones on the pair's bills."""
    rule, tariff_of = rule_of(month), cache(lambda pair: _tariff(pair, month))
    used = cache(lambda pair: used_of(month, pair))

    def price(pair: str, rows: Iterable[Row]) -> Later:
        units, size = Counter[str](), 0
        for row in rows:
            units[row["kind"]] += row["units"]
            size += row["size"] if row["kind"] in CROSSING_KINDS else 0
        pings = units["ping"]
        billed = sum(count for kind, count in units.items() if is_billed(kind, rule))
        its = tariff_of(pair)
        crossed = Fraction(size, GIGABYTE) * (its.per_gigabyte or 0) if its.crossings else Fraction(0)
        money = its.bills(used(pair)).extra(pings, billed - pings) + crossed
        return Later(units=units, operations=billed, money=money)

    return price


def _tariff(pair: str, month: str) -> Tariff:
    try:
        return tariff(pair, prices_of(month), month)
    except JobFailed:  # the page of the forecast says why
        return Tariff()


def _of_events(month: str, pair: str, now: datetime) -> list[Outage]:
    begin, end = Month.parse(month).start, min(Month.parse(month).end, now)
    found = recorded(time__lt=end, **({"pair": pair} if pair else {}))
    return [_outage(month, one, begin, end) for one in found if one.ended is None or one.ended.time > begin]


def _outage(month: str, one: Folded, begin: datetime, end: datetime) -> Outage:
    ended_at = one.ended.time if one.ended else None
    down_s = ((ended_at or end) - max(one.began.time, begin)).total_seconds()
    return Outage(
        month=month,
        pair=one.began.pair,
        entity=one.began.entity,
        started_at=one.began.time,
        ended_at=ended_at,
        cause=one.began.kind,
        reason=one.began.reason,
        down_s=max(0.0, down_s),
    )


def live_availability(
    stored: Iterable[Availability], found: Sequence[OutageCost], run_at: datetime, now: datetime
) -> list[Availability]:
    """The stored downtime, with what was down since the run."""
    rows = list(stored)
    if not rows:
        return rows
    until = min(now, Month.parse(rows[0].month).end)
    of_entity: dict[tuple[str, str], list[OutageCost]] = defaultdict(list)
    for one in found:
        of_entity[one.outage.pair, one.outage.entity].append(one)
    for row in rows:
        row.period_s += max(0.0, (until - run_at).total_seconds())
        for one in of_entity[row.pair, row.entity]:
            later = (one.outage.ended_at or until) - max(one.outage.started_at, run_at)
            row.down_s += max(0.0, later.total_seconds())
            row.episodes += one.outage.run_id is None
    return sorted(rows, key=lambda row: (-row.down_s, row.pair, row.entity))
