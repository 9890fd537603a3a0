"""The cost of an incident: what was metered, as on the page of costs, and an estimate of what is not metered yet.

The send of a drained message to the primary replaces its original send, so it is not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

from dashboard.costs.forecasts.current_month import traffic
from dashboard.costs.forecasts.forecast import GIGABYTE, STEP_BYTES
from dashboard.costs.forecasts.tariffs import Bills, Tariff, tariff
from dashboard.costs.prices import Prices, invoices_of, prices_of
from dashboard.costs.reporting.live_outages import live_outages
from dashboard.costs.reporting.outages import OutageCost, outage_costs
from dashboard.costs.rules import is_billed, rule_of
from dashboard.costs.runs.jobs import JobFailed
from dashboard.incidents.folding import Drain, Incident
from dashboard.incidents.moved import Moved
from dashboard.site.money import exact_text
from pipeline.months import Month

EXAMPLE_BYTES = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class ToCome:
    """An estimate of what is not metered yet: messages that wait, or were sent to the backlog without a report."""

    sent: int
    drained: int
    message_bytes: int
    settling: int
    bills: Bills
    per_gigabyte: Fraction

    @property
    def operations(self) -> int:
        """The message to the backlog, and out of it again; settled, if the rule bills that."""
        units = max(1, -(-self.message_bytes // STEP_BYTES))
        return self.sent * units + self.drained * (units + self.settling)

    @property
    def money(self) -> Fraction:
        crossed = Fraction((self.sent + self.drained) * self.message_bytes, GIGABYTE)
        return self.bills.extra(0, self.operations) + crossed * self.per_gigabyte


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What an incident has cost by month, and what is to come."""

    metered: Sequence[OutageCost]
    to_come: ToCome
    prices: Prices
    tariff: Tariff
    rule: str

    @property
    def units(self) -> Mapping[str, int]:
        """The metered operations by kind."""
        counts = Counter[str]()
        for each in self.metered:
            counts.update(dict(each.stages))
        return dict(counts)

    @property
    def operations(self) -> int:
        return sum(each.operations for each in self.metered)

    @property
    def money(self) -> Fraction:
        return sum((each.money for each in self.metered), Fraction(0))

    @property
    def operations_when_drained(self) -> int:
        return self.operations + self.to_come.operations

    @property
    def money_when_drained(self) -> Fraction:
        return self.money + self.to_come.money

    @property
    def per_million(self) -> Fraction:
        """The price of the next million operations."""
        return self.to_come.bills.rate * 1_000_000

    def as_json(self) -> dict[str, Any]:
        """For the API and the file; exact amounts as text."""
        return {
            "currency": self.prices.currency,
            "sample_prices": self.prices.is_sample,
            "rule": self.rule,
            "metered": dict(self.units),
            "operations": self.operations,
            "money": exact_text(self.money),
            "to_come": {"operations": self.to_come.operations, "money": exact_text(self.to_come.money)},
        }


def cost_of(incident: Incident, drain: Drain, moved: Moved | None, now: datetime) -> Cost | None:
    """The cost of the incident; None if the prices cannot be read, which the cost pages report."""
    month = str(Month.of(now))
    try:
        known = prices_of(month)
        its = tariff(incident.pair, known, month)
    except JobFailed:
        return None
    usual, rule = traffic(incident.pair, now, incident.entity), rule_of(month)
    reported = moved.to_backlog if moved else 0
    to_come = ToCome(
        sent=max(0, drain.peak - reported),
        drained=drain.waiting,
        message_bytes=usual.message_bytes or EXAMPLE_BYTES,
        settling=1 if is_billed("syphon_settle", rule) else 0,
        bills=its.bills(usual.used),
        per_gigabyte=its.per_gigabyte or Fraction(0),
    )
    return Cost(metered=list(_metered(incident, now)), to_come=to_come, prices=known, tariff=its, rule=rule)


def _metered(incident: Incident, now: datetime) -> Iterator[OutageCost]:
    """What its outage has cost in each month that it touches."""
    month, last = Month.of(incident.failed_over_at), Month.of(incident.ended_at(now))
    while month <= last:
        invoices = invoices_of(str(month))
        read_at = invoices[0].run.as_of if invoices else None
        priced = outage_costs(str(month), incident.pair, invoices)
        for each in live_outages(str(month), incident.pair, priced, read_at, now):
            if (each.outage.entity, each.outage.started_at) == (incident.entity, incident.failed_over_at):
                yield each
        month = month.following
