"""From units in tiers to an invoice to the cent; plain Python and exact fractions (docs/pricing.md, docs/costs.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from pipeline.allocation import largest_remainder, round_half_up
from pipeline.errors import PriceError
from pipeline.months import Month
from pipeline.prices import PriceList
from pipeline.schemas import ALLOCATIONS, RULES

BASE_KIND, CONNECTIONS_KIND = "base", "connections"
SYSTEM, ANY = "$system", "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one namespace, entity and kind used in the month; `tiers`: its billable units, tier by tier."""

    namespace: str
    entity: str
    kind: str
    pair: str = ""
    operations: int = 0
    messages: int = 0
    bytes: int = 0
    units: int = 0
    tiers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """The sum of a namespace's hourly connection peaks in the month."""

    namespace: str
    hours: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row of the report; `exact` is its share before the cents were shared out, `quantity` what was priced."""

    namespace: str
    entity: str
    kind: str
    pair: str = ""
    operations: int = 0
    messages: int = 0
    bytes: int = 0
    units: int = 0
    included: int = 0
    quantity: Fraction = Fraction(0)
    exact: Fraction = Fraction(0)
    cents: int = 0
    tiers: tuple[int, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        return (self.namespace, self.entity, self.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoice:
    """What one billing scope owes for one month under one counting rule; `cents` was rounded once, half up."""

    month: Month
    scope: str
    rule: str
    allocation: str
    currency: str
    exact: Fraction
    cents: int
    tiers: tuple[int, ...]
    lines: tuple[Line, ...]

    @property
    def units(self) -> int:
        return sum(self.tiers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a month is priced."""

    month: Month
    prices: PriceList
    rule: str = "published"
    allocation: str = "time"
    hours_in_month: int | None = None

    def __post_init__(self) -> None:
        if self.rule not in RULES or self.allocation not in ALLOCATIONS:
            raise ValueError(f"no such rule or allocation: {self.rule}, {self.allocation}")

    @property
    def connection_divisor(self) -> int:
        return self.hours_in_month or self.month.hours


def invoice(terms: Terms, scope: str, usage: Sequence[Usage], connections: Sequence[Connections]) -> Invoice:
    """The scope's invoice, its lines summing to it to the cent."""
    tiers = _add_tiers(usage, len(terms.prices.operations.tiers))
    lines = [*_operation_lines(terms, usage, tiers), *_connection_lines(terms, connections)]
    if usage:
        lines.append(_base_line(terms))
    exact = sum((line.exact for line in lines), Fraction(0))
    cents = round_half_up(exact * 100)
    shares = largest_remainder(cents, {line.key: line.exact * 100 for line in lines})
    return Invoice(
        month=terms.month,
        scope=scope,
        rule=terms.rule,
        allocation=terms.allocation,
        currency=terms.prices.currency,
        exact=exact,
        cents=cents,
        tiers=tiers,
        lines=tuple(replace(line, cents=shares[line.key]) for line in lines),
    )


def _add_tiers(usage: Iterable[Usage], count: int) -> tuple[int, ...]:
    sums = [0] * count
    for row in usage:
        for tier, units in enumerate(row.tiers):
            sums[tier] += units
    return tuple(sums)


def _operation_lines(terms: Terms, usage: Sequence[Usage], tiers: tuple[int, ...]) -> list[Line]:
    ladder = terms.prices.operations
    if terms.allocation == "time":
        return [_line(row, ladder.price_of(row.tiers), int(ladder.included(row.tiers))) for row in usage]
    total = sum(tiers)
    if total == 0:
        return [_line(row, Fraction(0), 0) for row in usage]
    charge, included = ladder.price_of(tiers), ladder.included(tiers)
    by_key = {(row.namespace, row.entity, row.kind): Fraction(row.units, total) for row in usage}
    shared = largest_remainder(int(included), {key: included * share for key, share in by_key.items()})
    keyed = zip(by_key.items(), usage, strict=True)
    return [_line(row, charge * share, shared[key]) for (key, share), row in keyed]


def _line(row: Usage, exact: Fraction, included: int) -> Line:
    return Line(
        namespace=row.namespace,
        entity=row.entity,
        kind=row.kind,
        pair=row.pair,
        operations=row.operations,
        messages=row.messages,
        bytes=row.bytes,
        units=row.units,
        quantity=Fraction(row.units),
        included=included,
        exact=exact,
        tiers=row.tiers,
    )


def _base_line(terms: Terms) -> Line:
    hours = terms.month.hours
    exact = terms.prices.base_per_hour * hours
    return Line(namespace=SYSTEM, entity=ANY, kind=BASE_KIND, exact=exact, quantity=Fraction(hours))


def _connection_lines(terms: Terms, connections: Sequence[Connections]) -> list[Line]:
    """One line per namespace with connections, sharing the scope's charge by its peaks; one line of zero without."""
    total = sum(row.hours for row in connections)
    if total == 0:
        return [Line(namespace=ANY, entity=ANY, kind=CONNECTIONS_KIND)]
    if terms.prices.connections is None:
        raise PriceError("The price list has no row for “Standard Brokered Connection”, and the month has connections.")
    charge = terms.prices.connections.charge(Fraction(total, terms.connection_divisor))
    return [
        Line(
            namespace=row.namespace,
            entity=ANY,
            kind=CONNECTIONS_KIND,
            quantity=Fraction(row.hours, terms.connection_divisor),
            exact=charge * Fraction(row.hours, total),
        )
        for row in connections
    ]
