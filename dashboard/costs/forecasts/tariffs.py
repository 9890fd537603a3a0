"""The prices of a pair's operations and bytes, by the tiers and regions of PAIRS_FILE, as in the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from dashboard.access.visibility import sees_all
from dashboard.costs.forecasts.current_month import Used
from dashboard.costs.prices import Prices
from dashboard.costs.runs.jobs import JobFailed
from dashboard.fleet.pairs.pairs_file import PairConfig, PairsFileError, load_pairs
from dashboard.models import Charge, Pair
from pipeline.price_tiers import BASIC_OPERATIONS, FREE, Price

BANDWIDTH = "Intra Continent Data Transfer Out"
THERE_AND_BACK = 2


@dataclass(frozen=True, slots=True)
class Bills:
    """The prices of operations on the bills of a pair's two namespaces, as they stand; one bill if they share it."""

    primary: Price
    secondary: Price | None = None

    def extra(self, in_primary: int, in_secondary: int) -> Fraction:
        """What these further operations add to the bills; exact."""
        if self.secondary is None:
            return self.primary.extra(in_primary + in_secondary)
        return self.primary.extra(in_primary) + self.secondary.extra(in_secondary)

    @property
    def rate(self) -> Fraction:
        """The price of the next operation, in the secondary if it has a bill of its own."""
        return (self.secondary or self.primary).rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """The prices of operations in a pair's two namespaces, and the price of a GB that crosses regions.

    `is_free`: operations are free in any number, as both namespaces are Premium. `crossings`: how often a message
    leaves a region on its way through the backlog; `per_gigabyte` is None if the price is unknown.
    """

    primary: Price = FREE
    secondary: Price = FREE
    is_free: bool = False
    crossings: int = 0
    per_gigabyte: Fraction | None = None

    def bills(self, used: Used) -> Bills:
        """The bills with these operations on them."""
        if used.secondary is None and self.primary == self.secondary:
            return Bills(self.primary.after(used.primary))
        there = used.primary if used.secondary is None else used.secondary
        return Bills(self.primary.after(used.primary), self.secondary.after(there))


def tariff(pair: str, prices: Prices, month: str) -> Tariff:
    """The tariff of a pair; without a pair, the Standard tiers and the most expensive crossing. Raises JobFailed.

    Without a usable PAIRS_FILE all namespaces are Standard and in one region, as in the report.
    """
    try:
        known = load_pairs()
    except PairsFileError:
        known = {}
    meant = [known[pair]] if pair in known else [] if pair else _visible(known)
    crossing = [_per_gigabyte(each, prices, month) for each in meant if each.crosses_regions]
    tiers = (known[pair].primary.tier, known[pair].secondary.tier) if pair in known else ("standard", "standard")
    primary, secondary = (_price(tier, prices) for tier in tiers)
    return Tariff(
        primary=primary,
        secondary=secondary,
        is_free=tiers == ("premium", "premium"),
        crossings=THERE_AND_BACK if crossing else 0,
        per_gigabyte=max((price for price in crossing if price is not None), default=None),
    )


def _visible(known: Mapping[str, PairConfig]) -> list[PairConfig]:
    """The pairs that the present request may see: the prices of others are theirs."""
    if sees_all():
        return list(known.values())
    return [known[name] for name in Pair.objects.values_list("name", flat=True) if name in known]


def _price(tier: str, prices: Prices) -> Price:
    if tier == "standard":
        return prices.operations
    if tier == "premium":
        return FREE
    if found := Price.of(prices.rows, BASIC_OPERATIONS):
        return found
    raise JobFailed(f"The price list has no row for “{BASIC_OPERATIONS}”, and a namespace is Basic.")


def _per_gigabyte(pair: PairConfig, prices: Prices, month: str) -> Fraction | None:
    """The configured price, else the price of the meter after the pair's bytes so far."""
    if pair.bandwidth_per_gb is not None:
        return Fraction(str(pair.bandwidth_per_gb))
    price = Price.of(prices.rows, pair.bandwidth_meter or BANDWIDTH)
    crossed = Charge.objects.filter(invoice__month=month, kind="bandwidth", pair=pair.name).values_list(
        "quantity", flat=True
    )
    return price.after(int(sum(map(Fraction, crossed)))).rate if price else None
