"""The connections of a month by hour: computed here, and measured by Azure Monitor.

Neither equals the billed peak of each hour. The computed peak adds the peaks of processes, which may have occurred at
different times, and includes only programs that use the library. The metric is sampled once per minute
(docs/pricing.md, section 11).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction

from dashboard.costs.insight import beside_the_ladder
from dashboard.models import ConnectionDay, Invoice, Statement
from dashboard.models.charge import PUBLISHED
from pipeline.months import Month
from pipeline.price_tiers import CONNECTIONS, FREE, Price

HOURS_SHOWN = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class HourOf:
    """The computed and the measured peak of an hour."""

    at: datetime
    computed: int
    measured: int

    @property
    def difference(self) -> int:
        return self.measured - self.computed


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The measured hours of a namespace. Averages are over the month, as on the bill."""

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
        """Hours in which more connections were measured than computed."""
        return sum(1 for hour in self.hours if hour.difference > 0)

    @property
    def different(self) -> list[HourOf]:
        """The hours with the largest differences, ordered by time."""
        apart = sorted((hour for hour in self.hours if hour.difference), key=lambda hour: -abs(hour.difference))
        return sorted(apart[:HOURS_SHOWN], key=lambda hour: hour.at)

    @property
    def finding(self) -> str:
        """What the difference means."""
        if self.more_measured:
            return "more than recorded here: programs without the library are connected, or usage records are missing"
        if self.measured < self.computed:
            return (
                "the computed peak is higher: it adds the peaks of processes, and the metric is sampled once per minute"
            )
        return "the same"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """The connections of a month, computed and measured. Measured hours replace computed ones in the second figure.

    Quantities are average connections; money is exact, in `currency`.
    """

    namespaces: Sequence[Compared]
    computed: Fraction
    measured: Fraction
    computed_charge: Fraction
    measured_charge: Fraction
    currency: str


Peaks = Mapping[tuple[str, date], Sequence[int | None]]


def compare(month: str) -> Connections | None:
    """Compare the computed peaks with the measured ones; None without metrics of connections or a computed month."""
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
    return int(invoice.run.details.get("hours_in_month") or Month.parse(month).hours)


def _peaks(rows: Iterable[ConnectionDay]) -> Peaks:
    return {(row.namespace.lower(), row.date): row.peaks for row in rows}


def _over(computed: Peaks, measured: Peaks) -> Peaks:
    """The days with a measured hour: measured peaks, and computed ones for the other hours."""
    nothing: Sequence[int | None] = [None] * 24
    return {
        place: [
            ours if seen is None else seen for ours, seen in zip(computed.get(place, nothing), reported, strict=True)
        ]
        for place, reported in measured.items()
    }


def _by_namespace(peaks: Peaks) -> Mapping[str, int]:
    sums: dict[str, int] = defaultdict(int)
    for (namespace, _), hours in peaks.items():
        sums[namespace] += sum(peak or 0 for peak in hours)
    return sums


def _scopes(own: Iterable[ConnectionDay], invoices: Sequence[Invoice]) -> Mapping[str, str]:
    """The billing scope of each namespace; without peaks, the scope that has charges of the namespace."""
    charged = {
        name.lower(): bill.scope for bill in invoices for name in bill.charges.values_list("namespace", flat=True)
    }
    return charged | {row.namespace.lower(): row.scope for row in own}


def _priced(
    invoices: Sequence[Invoice], scopes: Mapping[str, str], sums: Mapping[str, int], divisor: int
) -> tuple[Fraction, Fraction]:
    """The average connections, and their price on the bills of their scopes. Only Standard is billed for them."""
    quantity, money = Fraction(0), Fraction(0)
    for invoice in invoices:
        included = {namespace.lower() for namespace in beside_the_ladder(invoice)}
        paying = [name for name in sums if name not in included and scopes.get(name) == invoice.scope]
        average = Fraction(sum(sums[name] for name in paying), divisor)
        quantity += average
        money += (Price.of(invoice.run.details.get("prices", []), CONNECTIONS) or FREE).charge(average)
    return quantity, money


def _compared(computed: Peaks, measured: Peaks, divisor: int) -> Iterator[Compared]:
    hours: dict[str, list[HourOf]] = defaultdict(list)
    for (namespace, day), reported in sorted(measured.items()):
        own = computed.get((namespace, day), [None] * 24)
        for hour, (ours, seen) in enumerate(zip(own, reported, strict=True)):
            if seen is not None:
                at = datetime.combine(day, time(), UTC) + timedelta(hours=hour)
                hours[namespace].append(HourOf(at=at, computed=ours or 0, measured=seen))
    for namespace, its_hours in hours.items():
        yield Compared(namespace=namespace, hours=its_hours, divisor=divisor)
