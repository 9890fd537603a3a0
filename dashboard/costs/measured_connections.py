"""The connections of a month, hour by hour, as they were computed here and as Azure Monitor measured them.

Neither is what is billed, the peak of each hour: ours adds up the peaks of processes that need not have been at the
same moment, and knows only programs that use the library; the metric looks once a minute (docs/pricing.md, section 11).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction

from dashboard.costs.insight import beside_the_ladder
from dashboard.costs.price_tiers import CONNECTIONS_METER, charge, ladder_of
from dashboard.models import ConnectionDay, Invoice, Statement
from dashboard.models.charge import PUBLISHED

HOURS_SHOWN = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class HourOf:
    """An hour's peaks: the one computed here, the one measured."""

    at: datetime
    computed: int
    measured: int

    @property
    def difference(self) -> int:
        return self.measured - self.computed


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A namespace's hours that were measured. Averages are over the month, as the bill has them."""

    namespace: str
    hours: Sequence[HourOf]
    divisor: int

    @property
    def computed(self) -> Fraction:
        return Fraction(sum(hour.computed for hour in self.hours), self.divisor)

    @property
    def measured(self) -> Fraction:
        return Fraction(sum(hour.measured for hour in self.hours), self.divisor)

    @property
    def more_measured(self) -> int:
        """Hours in which there were more connections than those known here."""
        return sum(1 for hour in self.hours if hour.difference > 0)

    @property
    def different(self) -> list[HourOf]:
        """The hours that differ most, in the order of time."""
        apart = sorted((hour for hour in self.hours if hour.difference), key=lambda hour: -abs(hour.difference))
        return sorted(apart[:HOURS_SHOWN], key=lambda hour: hour.at)

    @property
    def finding(self) -> str:
        """What the difference means."""
        if self.more_measured:
            return "more than is known here: programs without the library are connected, or their records are missing"
        if self.measured < self.computed:
            return "ours is the higher one: the peaks of processes add up, and the metric looks once a minute"
        return "the same"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """The month under both figures. In the second, hours that were measured stand in the place of those computed.

    Quantities are connections on average; money is exact, in `currency`.
    """

    namespaces: Sequence[Compared]
    computed: Fraction
    measured: Fraction
    computed_charge: Fraction
    measured_charge: Fraction
    currency: str


Peaks = Mapping[tuple[str, date], Sequence[int | None]]


def compare(month: str) -> Connections | None:
    """The month's peaks beside the measured ones; None where no metrics tell any, or nothing was computed."""
    measured = _peaks(ConnectionDay.objects.filter(statement__source=Statement.Source.METRICS, statement__month=month))
    invoices = list(Invoice.objects.filter(month=month, rule=PUBLISHED).select_related("run"))
    if not measured or not invoices:
        return None
    own = ConnectionDay.objects.filter(statement=None, date__startswith=month)
    computed, scopes = _peaks(own), _scopes(own, invoices)
    divisor = _divisor(month, invoices[0])
    sums = [_by_namespace(computed), _by_namespace({**computed, **_over(computed, measured)})]
    both = [_priced(invoices, scopes, each, divisor) for each in sums]
    return Connections(
        namespaces=list(_compared(computed, measured, divisor)),
        computed=both[0][0],
        measured=both[1][0],
        computed_charge=both[0][1],
        measured_charge=both[1][1],
        currency=invoices[0].currency,
    )


def _divisor(month: str, invoice: Invoice) -> int:
    year, number = map(int, month.split("-"))
    days = (date(year + number // 12, number % 12 + 1, 1) - date(year, number, 1)).days
    return int(invoice.run.details.get("hours_in_month") or 24 * days)


def _peaks(rows: Iterable[ConnectionDay]) -> Peaks:
    return {(row.namespace.lower(), row.date): row.peaks for row in rows}


def _over(computed: Peaks, measured: Peaks) -> Peaks:
    """The days with a measured hour: measured where it was, computed else."""
    nothing: Sequence[int | None] = [None] * 24
    return {
        place: [ours if seen is None else seen for ours, seen in zip(computed.get(place, nothing), told, strict=True)]
        for place, told in measured.items()
    }


def _by_namespace(peaks: Peaks) -> Mapping[str, int]:
    sums: dict[str, int] = defaultdict(int)
    for (namespace, _), hours in peaks.items():
        sums[namespace] += sum(peak or 0 for peak in hours)
    return sums


def _scopes(own: Iterable[ConnectionDay], invoices: Sequence[Invoice]) -> Mapping[str, str]:
    """Each namespace's billing scope; of one without peaks of its own the one that has charges of it."""
    charged = {
        name.lower(): bill.scope for bill in invoices for name in bill.charges.values_list("namespace", flat=True)
    }
    return charged | {row.namespace.lower(): row.scope for row in own}


def _priced(
    invoices: Sequence[Invoice], scopes: Mapping[str, str], sums: Mapping[str, int], divisor: int
) -> tuple[Fraction, Fraction]:
    """Connections on average, and what they cost on the bills of their scopes. Only Standard pays for them."""
    quantity, money = Fraction(0), Fraction(0)
    for invoice in invoices:
        included = {namespace.lower() for namespace in beside_the_ladder(invoice)}
        paying = [name for name in sums if name not in included and scopes.get(name) == invoice.scope]
        average = Fraction(sum(sums[name] for name in paying), divisor)
        quantity += average
        money += charge(ladder_of(invoice.run.details.get("prices", []), CONNECTIONS_METER), average)
    return quantity, money


def _compared(computed: Peaks, measured: Peaks, divisor: int) -> Iterator[Compared]:
    hours: dict[str, list[HourOf]] = defaultdict(list)
    for (namespace, day), told in sorted(measured.items()):
        own = computed.get((namespace, day), [None] * 24)
        for hour, (ours, seen) in enumerate(zip(own, told, strict=True)):
            if seen is not None:
                at = datetime.combine(day, time(), UTC) + timedelta(hours=hour)
                hours[namespace].append(HourOf(at=at, computed=ours or 0, measured=seen))
    for namespace, its_hours in hours.items():
        yield Compared(namespace=namespace, hours=its_hours, divisor=divisor)
