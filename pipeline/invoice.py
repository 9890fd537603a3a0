"""From units in tiers to an invoice to the cent; plain Python and exact fractions (docs/pricing.md, docs/costs.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import compress

from pipeline.allocation import largest_remainder, round_half_up
from pipeline.errors import PriceError
from pipeline.months import Month
from pipeline.price_tiers import UnitPrices
from pipeline.prices import PriceList
from pipeline.schemas import ALLOCATIONS, RULES
from pipeline.tariffs import BASIC, CROSSING_KINDS, NOTHING_KNOWN, PREMIUM, STANDARD, Tariffs

BASE_KIND, CONNECTIONS_KIND, BANDWIDTH_KIND = "base", "connections", "bandwidth"
GIGABYTE = 10**9
SYSTEM, ANY = "$system", "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """The sum of a namespace's hourly connection peaks in the month."""

    namespace: str
    hours: int


@dataclass(slots=True, kw_only=True)  # not frozen, as no other that there are hundreds of thousands of: that takes time
class Line:
    """A row of the report: what a pair used of one namespace, entity and kind in the month, `tiers` its billable units
    by rate; or another charge. `exact` is its share before rounding to cents, `quantity` is the priced quantity.

    The cents are filled in by the invoice: they depend on all lines. Of operations, so is what depends on prices.
    """

    namespace: str
    entity: str
    kind: str
    pair: str = ""
    operations: int = 0
    messages: int = 0
    bytes: int = 0
    units: int = 0
    included: int = 0
    quantity: Fraction | int = 0
    exact: Fraction = Fraction(0)
    cents: int = 0
    tiers: tuple[int, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        return (self.namespace, self.entity, self.kind, self.pair)


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoice:
    """The bill of one billing scope for one month under one counting rule; `cents` was rounded once, half up.

    `unpriced_bytes` crossed regions at a price that neither configuration nor price list contains.
    """

    month: Month
    scope: str
    rule: str
    allocation: str
    currency: str
    exact: Fraction
    cents: int
    tiers: tuple[int, ...]
    lines: tuple[Line, ...]
    unpriced_bytes: int = 0

    @property
    def units(self) -> int:
        return sum(self.tiers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The parameters of pricing a month."""

    month: Month
    prices: PriceList
    rule: str = "published"
    allocation: str = "time"
    hours_in_month: int | None = None
    tariffs: Tariffs = NOTHING_KNOWN

    def __post_init__(self) -> None:
        if self.rule not in RULES or self.allocation not in ALLOCATIONS:
            raise ValueError(f"no such rule or allocation: {self.rule}, {self.allocation}")

    @property
    def connection_divisor(self) -> int:
        return self.hours_in_month or self.month.hours

    @property
    def rates(self) -> tuple[Fraction, ...]:
        """The price of a unit in each place of `tiers`: first the tiers of Standard, then Basic and Premium if there
        are any.
        """
        ladder = tuple(tier.price for tier in self.prices.operations.tiers)
        basic = self._basic_rate if self.tariffs.of(BASIC) else Fraction(0)
        return (*ladder, basic, Fraction(0)) if self.tariffs.of(BASIC) or self.tariffs.of(PREMIUM) else ladder

    @property
    def _basic_rate(self) -> Fraction:
        if self.prices.basic is None or len(self.prices.basic.tiers) != 1:
            raise PriceError(
                "The price list has no single row for “Basic Messaging Operations”, and a namespace is Basic."
            )
        return self.prices.basic.tiers[0].price


def invoice(terms: Terms, scope: str, usage: Sequence[Line], connections: Sequence[Connections]) -> Invoice:
    """The scope's invoice; its lines sum to it to the cent. The lines of `usage` are its first ones, and filled in."""
    tiers = _add_tiers(usage, len(terms.rates))
    prices = unit_prices(terms, tiers)
    crossing = _crossing(terms, usage)
    others = [*_connection_lines(terms, connections), *_bandwidth_lines(terms, crossing)]
    others += _base_lines(terms, scope, usage)
    _price(terms, usage, tiers, prices)
    lines = (*usage, *others)
    exact = prices.price_of(tiers) + sum((line.exact for line in others), Fraction(0))
    cents = round_half_up(exact * 100)
    shares = largest_remainder(cents, {line.key: line.exact for line in lines}, 100)
    for line, share in zip(lines, shares.values(), strict=True):
        line.cents = share
    return Invoice(
        month=terms.month,
        scope=scope,
        rule=terms.rule,
        allocation=terms.allocation,
        currency=terms.prices.currency,
        exact=exact,
        cents=cents,
        tiers=tiers,
        lines=lines,
        unpriced_bytes=sum(row.bytes for row in crossing if terms.tariffs.bandwidth_of(row.pair, terms.prices) is None),
    )


def _add_tiers(usage: Iterable[Line], count: int) -> tuple[int, ...]:
    return tuple(map(sum, zip(*(row.tiers for row in usage), strict=True))) or (0,) * count


def unit_prices(terms: Terms, month: Sequence[int]) -> UnitPrices:
    """What a unit costs where it is, if the scope has used as many in the month: the price of its place; or, where the
    charge is shared, of each unit in the tiers the same.
    """
    rates, steps = terms.rates, len(terms.prices.operations.tiers)
    total = sum(month[:steps])
    if terms.allocation == "time" or not total:
        return UnitPrices.of(rates)
    average = UnitPrices.of(rates[:steps]).price_of(month[:steps]) / total
    return UnitPrices.of((*[average] * steps, *rates[steps:]))


def _price(terms: Terms, usage: Sequence[Line], tiers: tuple[int, ...], prices: UnitPrices) -> None:
    for line, free in zip(usage, _included(terms, usage, tiers), strict=True):
        line.exact, line.included, line.quantity = prices.price_of(line.tiers), free, line.units


def _included(terms: Terms, usage: Sequence[Line], tiers: tuple[int, ...]) -> list[int]:
    """The units of each row priced at 0; under pro-rata, those in tiers are shared in proportion, as the charge is."""
    is_free, steps = [rate == 0 for rate in terms.rates], len(terms.prices.operations.tiers)
    total = sum(tiers[:steps])
    if terms.allocation == "time" or not total:
        return [_free(is_free, row.tiers) for row in usage]
    shared = _free(is_free[:steps], tiers[:steps])
    parts = largest_remainder(shared, {row.key: Fraction(shared * sum(row.tiers[:steps]), total) for row in usage})
    return [part + _free(is_free[steps:], row.tiers[steps:]) for row, part in zip(usage, parts.values(), strict=True)]


def _free(is_free: Sequence[bool], tiers: Sequence[int]) -> int:
    return sum(compress(tiers, is_free))


def _base_lines(terms: Terms, scope: str, usage: Sequence[Line]) -> list[Line]:
    """Standard's base once for the scope, if it has a Standard namespace; Premium's messaging units by namespace."""
    hours = terms.month.hours
    lines = []
    if any(terms.tariffs.tier_of(row.namespace) == STANDARD for row in usage):
        exact = terms.prices.base_per_hour * hours
        lines.append(Line(namespace=SYSTEM, entity=ANY, kind=BASE_KIND, exact=exact, quantity=hours))
    for namespace in terms.tariffs.premium_of(scope):
        if terms.prices.premium_per_hour is None:
            raise PriceError("The price list has no row for “Premium Messaging Unit”, and a namespace is Premium.")
        unit_hours = hours * namespace.messaging_units
        exact = terms.prices.premium_per_hour * unit_hours
        lines.append(Line(namespace=namespace.name, entity=ANY, kind=BASE_KIND, exact=exact, quantity=unit_hours))
    return lines


def _crossing(terms: Terms, usage: Iterable[Line]) -> list[Line]:
    """The rows whose bytes left a region."""
    return [row for row in usage if row.kind in CROSSING_KINDS and row.pair in terms.tariffs.crossings and row.bytes]


def _bandwidth_lines(terms: Terms, crossing: Sequence[Line]) -> list[Line]:
    """One line per namespace and entity whose messages left a region, in proportion to the bytes."""
    sums: dict[tuple[str, str, str], int] = {}
    for row in crossing:
        place = (row.pair, row.namespace, row.entity)
        sums[place] = sums.get(place, 0) + row.bytes
    total: dict[str, int] = {}
    for (pair, _, _), size in sums.items():
        total[pair] = total.get(pair, 0) + size
    lines = []
    for (pair, namespace, entity), size in sorted(sums.items()):
        ladder = terms.tariffs.bandwidth_of(pair, terms.prices)
        if ladder is None:
            continue
        charge = ladder.charge(Fraction(total[pair], GIGABYTE))
        lines.append(
            Line(
                namespace=namespace,
                entity=entity,
                kind=BANDWIDTH_KIND,
                pair=pair,
                bytes=size,
                quantity=Fraction(size, GIGABYTE),
                exact=charge * Fraction(size, total[pair]),
            )
        )
    return lines


def _connection_lines(terms: Terms, connections: Sequence[Connections]) -> list[Line]:
    """One line per namespace with connections, sharing the scope's charge by its peaks; one line of zero without.

    Only Standard pays for connections: Basic's are included up to its limit, Premium's are not charged.
    """
    paying = [row for row in connections if terms.tariffs.tier_of(row.namespace) == STANDARD]
    total = sum(row.hours for row in paying)
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
        for row in paying
    ]
