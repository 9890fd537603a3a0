"""What came since the last run of a month: operations that are not priced yet, and outages.

An estimate with the prices that the run stored; the next run prices it exactly.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from itertools import groupby
from operator import attrgetter
from typing import Any

from dashboard.costs.insight import operations_price
from dashboard.costs.outages import Bill, OutageCost
from dashboard.fleet import metered
from dashboard.fleet.outages import TURNS, outages
from dashboard.fleet.outages import Outage as Folded
from dashboard.fleet.outages import Report as Event
from dashboard.models import Availability, FailoverEvent, Invoice, Outage
from dashboard.models.charge import PUBLISHED, SETTLEMENTS
from pairing.telemetry.metering import SETTLEMENT_KINDS
from pipeline.months import Month


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPriced:
    """Operations since a run. `units`: by kind, billable operations; `low` and `high`: under both counting rules.

    The rule that counts more may be the cheaper one, as its operations may be in a cheaper tier.
    """

    since: datetime
    operations: int
    units: Sequence[tuple[str, int]]
    low: Fraction
    high: Fraction


def not_priced(invoices: Sequence[Invoice], read_at: datetime, pair: str = "") -> NotPriced | None:
    """The operations of their month since its last run read the usage; None without invoices."""
    if not invoices:
        return None
    since, end = metered.cut_of(read_at), Month.parse(invoices[0].month).end
    rows = metered.since(since, end, **({"pair": pair} if pair else {})) if since < end else []
    units = Counter[str]()
    for row in rows:
        units[row["kind"]] += row["billing_units"]
    prices = [_price(invoices[0].month, rows, rule) for rule in (PUBLISHED, SETTLEMENTS)]
    return NotPriced(
        since=since,
        operations=sum(row["operations"] for row in rows),
        units=[(kind, count) for kind, count in units.most_common() if count],
        low=min(prices),
        high=max(prices),
    )


def _price(month: str, rows: Iterable[Mapping[str, Any]], rule: str) -> Fraction:
    """The price of these operations as the next ones on each bill, under one counting rule."""
    bills = {bill.scope: bill for bill in Invoice.objects.filter(month=month, rule=rule).select_related("run")}
    priced = {scope: Bill(bill) for scope, bill in bills.items()}
    on_the_ladder, money = Counter[str](), Fraction(0)
    for row in rows:
        bill = priced.get(row["scope"])
        if rule == PUBLISHED and row["kind"] in SETTLEMENT_KINDS:
            continue
        if bill is not None and bill.has_flat_rate(row["namespace"]):
            money += bill.flat_rate(row["namespace"]) * row["billing_units"]
        else:
            on_the_ladder[row["scope"]] += row["billing_units"]
    if not bills:
        return money
    new = operations_price(next(iter(bills.values()))).after(0)
    return money + sum(
        (operations_price(bills[scope]) if scope in bills else new).extra(more) for scope, more in on_the_ladder.items()
    )


@dataclass(frozen=True, slots=True)
class LiveOutage:
    """One outage of the month as the events tell it now. `priced` is its cost, if the run knew it."""

    outage: Outage
    priced: OutageCost | None

    @property
    def is_partly_priced(self) -> bool:
        """Whether it went on after the run."""
        return self.priced is not None and self.priced.outage.ended_at is None


def live_outages(month: str, pair: str, priced: Sequence[OutageCost], now: datetime) -> list[LiveOutage]:
    """The outages that the run knew, as they are now, and those since then; newest first."""
    costs = {(each.outage.pair, each.outage.entity, each.outage.started_at): each for each in priced}
    found = {(one.pair, one.entity, one.started_at): one for one in _of_events(month, pair, now)}
    known = {key: found.get(key, each.outage) for key, each in costs.items()}
    every = sorted((found | known).items(), key=lambda item: item[0][2], reverse=True)
    return [LiveOutage(outage, costs.get(key)) for key, outage in every]


def _of_events(month: str, pair: str, now: datetime) -> list[Outage]:
    begin, end = Month.parse(month).start, min(Month.parse(month).end, now)
    rows = FailoverEvent.objects.filter(kind__in=TURNS, time__lt=end, **({"pair": pair} if pair else {}))
    in_order = rows.exclude(entity="*").order_by("pair", "entity", "time", "event_id")
    found = []
    for (whose, entity), events in groupby(in_order, attrgetter("pair", "entity")):
        for one in outages(Event(event.time, event.kind, event.reason) for event in events):
            if one.ended is None or one.ended.time > begin:
                found.append(_outage(month, whose, entity, one, begin, end))
    return found


def _outage(month: str, pair: str, entity: str, one: Folded, begin: datetime, end: datetime) -> Outage:
    ended_at = one.ended.time if one.ended else None
    down_s = ((ended_at or end) - max(one.began.time, begin)).total_seconds()
    return Outage(
        month=month,
        pair=pair,
        entity=entity,
        started_at=one.began.time,
        ended_at=ended_at,
        cause=one.began.kind,
        reason=one.began.reason,
        down_s=max(0.0, down_s),
    )


def live_availability(
    stored: Iterable[Availability], found: Sequence[LiveOutage], run_at: datetime, now: datetime
) -> list[Availability]:
    """The stored downtime, with what was down since the run."""
    rows = list(stored)
    if not rows:
        return rows
    until = min(now, Month.parse(rows[0].month).end)
    of_entity: dict[tuple[str, str], list[LiveOutage]] = defaultdict(list)
    for one in found:
        of_entity[one.outage.pair, one.outage.entity].append(one)
    for row in rows:
        row.period_s += max(0.0, (until - run_at).total_seconds())
        for one in of_entity[row.pair, row.entity]:
            later = (one.outage.ended_at or until) - max(one.outage.started_at, run_at)
            row.down_s += max(0.0, later.total_seconds())
            row.episodes += one.priced is None
    return sorted(rows, key=lambda row: (-row.down_s, row.pair, row.entity))


def as_now(each: LiveOutage) -> OutageCost:
    """Its cost as far as it is priced, with the outage as it is now."""
    return replace(each.priced, outage=each.outage) if each.priced else OutageCost(outage=each.outage, operations=0)
