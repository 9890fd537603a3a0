"""What a pair's operations and bytes cost: the tiers and regions of PAIRS_FILE, priced as the report prices them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dashboard.costs.current_month import Prices
from dashboard.costs.jobs import JobFailed
from dashboard.costs.price_tiers import BANDWIDTH_METER, BASIC_METER, Tier, ladder_of, rate
from dashboard.fleet.pairs_file import PairConfig, PairsFileError, load_pairs
from dashboard.models import Charge
from dashboard.models.charge import PUBLISHED

FREE = (Tier(0, Fraction(0)),)
THERE_AND_BACK = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """The price ladders of a pair's two namespaces, and what a GB costs that crosses regions.

    `is_free`: no operation costs anything, however many there are, since both namespaces are Premium. `crossings`: how
    often a message leaves a region on its way through the backlog; `per_gigabyte` is None where nobody knows.
    """

    primary: Sequence[Tier] = ()
    secondary: Sequence[Tier] = ()
    is_free: bool = False
    crossings: int = 0
    per_gigabyte: Fraction | None = None


def tariff(pair: str, prices: Prices, month: str) -> Tariff:
    """The pair's; of all pairs together the Standard ladder and the dearest crossing. Raises JobFailed.

    Without PAIRS_FILE, and with one that cannot be used, all is Standard and in one region, as in the report.
    """
    try:
        known = load_pairs()
    except PairsFileError:
        known = {}
    meant = [known[pair]] if pair in known else [] if pair else list(known.values())
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


def _ladder(tier: str, prices: Prices) -> Sequence[Tier]:
    if tier == "standard":
        return prices.ladder
    if tier == "premium":
        return FREE
    if ladder := ladder_of(prices.rows, BASIC_METER):
        return ladder
    raise JobFailed(f"The price list has no row for “{BASIC_METER}”, and a namespace is Basic.")


def _per_gigabyte(pair: PairConfig, prices: Prices, month: str) -> Fraction | None:
    """The configured price, else that of the meter after what the pair's bytes have used of it."""
    if pair.bandwidth_per_gb is not None:
        return Fraction(str(pair.bandwidth_per_gb))
    ladder = ladder_of(prices.rows, pair.bandwidth_meter or BANDWIDTH_METER)
    crossed = Charge.objects.filter(
        invoice__month=month, invoice__rule=PUBLISHED, kind="bandwidth", pair=pair.name
    ).values_list("quantity", flat=True)
    return rate(ladder, int(sum(map(Fraction, crossed)))) if ladder else None
