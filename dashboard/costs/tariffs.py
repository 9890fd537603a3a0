"""The prices of a pair's operations and bytes, by the tiers and regions of PAIRS_FILE, as in the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dashboard.access.visibility import sees_all
from dashboard.costs.current_month import Prices
from dashboard.costs.jobs import JobFailed
from dashboard.costs.price_tiers import BANDWIDTH_METER, BASIC_METER, Tier, ladder_of, rate
from dashboard.fleet.pairs_file import PairConfig, PairsFileError, load_pairs
from dashboard.models import Charge, Pair
from dashboard.models.charge import PUBLISHED

FREE = (Tier(0, Fraction(0)),)
THERE_AND_BACK = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """The price tiers of a pair's two namespaces, and the price of a GB that crosses regions.

    `is_free`: operations are free in any number, as both namespaces are Premium. `crossings`: how often a message
    leaves a region on its way through the backlog; `per_gigabyte` is None if the price is unknown.
    """

    primary: Sequence[Tier] = ()
    secondary: Sequence[Tier] = ()
    is_free: bool = False
    crossings: int = 0
    per_gigabyte: Fraction | None = None


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
    primary, secondary = (_ladder(tier, prices) for tier in tiers)
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


def _ladder(tier: str, prices: Prices) -> Sequence[Tier]:
    if tier == "standard":
        return prices.ladder
    if tier == "premium":
        return FREE
    if ladder := ladder_of(prices.rows, BASIC_METER):
        return ladder
    raise JobFailed(f"The price list has no row for “{BASIC_METER}”, and a namespace is Basic.")


def _per_gigabyte(pair: PairConfig, prices: Prices, month: str) -> Fraction | None:
    """The configured price, else the price of the meter after the pair's bytes so far."""
    if pair.bandwidth_per_gb is not None:
        return Fraction(str(pair.bandwidth_per_gb))
    ladder = ladder_of(prices.rows, pair.bandwidth_meter or BANDWIDTH_METER)
    crossed = Charge.objects.filter(
        invoice__month=month, invoice__rule=PUBLISHED, kind="bandwidth", pair=pair.name
    ).values_list("quantity", flat=True)
    return rate(ladder, int(sum(map(Fraction, crossed)))) if ladder else None
