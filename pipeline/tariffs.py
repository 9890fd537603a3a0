"""The tiers of namespaces, and the price of region crossings of a pair."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Any

from pipeline.errors import PipelineError
from pipeline.price_tiers import Price, Tier
from pipeline.prices import PriceList

BASIC, STANDARD, PREMIUM = "basic", "standard", "premium"
TIERS = (BASIC, STANDARD, PREMIUM)
WITHIN_A_CONTINENT = "Intra Continent Data Transfer Out"
CROSSING_KINDS = ("send_backlog", "syphon_receive")
"""A message crosses regions on its way to the backlog, and again when the syphon drains it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """One configured namespace. `messaging_units`: of Premium, what is paid by the hour."""

    name: str
    scope: str
    tier: str = STANDARD
    messaging_units: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """A pair between two regions: the price of a GB (10⁹ bytes), or the meter of the list that has it."""

    per_gigabyte: Fraction | None = None
    meter: str = WITHIN_A_CONTINENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariffs:
    """The configured namespaces by name, and the pairs that cross regions by name; both may be empty."""

    namespaces: Mapping[str, Namespace]
    crossings: Mapping[str, Crossing]

    def of(self, tier: str) -> list[str]:
        """The namespaces of a tier, by name."""
        return sorted(known.name for known in self.namespaces.values() if known.tier == tier)

    def tier_of(self, namespace: str) -> str:
        """The namespace's tier; Standard if it is not configured."""
        return self.namespaces[namespace].tier if namespace in self.namespaces else STANDARD

    def premium_of(self, scope: str) -> list[Namespace]:
        """The Premium namespaces that a billing scope pays for."""
        return [known for name in self.of(PREMIUM) if (known := self.namespaces[name]).scope == scope]

    def bandwidth_of(self, pair: str, prices: PriceList) -> Price | None:
        """The price of a GB between the regions of the pair; None without a crossing or a known price."""
        crossing = self.crossings.get(pair)
        if crossing is None:
            return None
        if crossing.per_gigabyte is not None:
            return Price((Tier(0, crossing.per_gigabyte),))
        return prices.bandwidth.get(crossing.meter)


NOTHING_KNOWN = Tariffs(namespaces={}, crossings={})


def read_tariffs(path: Path | None) -> Tariffs:
    """Read the file of the control plane: JSON lines with `namespace` and `crossing` records. Raises PipelineError."""
    try:
        return _tariffs(read_records(path))
    except (OSError, ValueError, KeyError, TypeError, InvalidOperation) as error:
        raise PipelineError(f"The namespaces in {path} cannot be read: {error!r}.") from error


def read_records(path: Path | None) -> list[dict[str, Any]]:
    """The records of the file; none without a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path else []


def _tariffs(records: Iterable[Mapping[str, Any]]) -> Tariffs:
    namespaces: dict[str, Namespace] = {}
    crossings: dict[str, Crossing] = {}
    for record in records:
        if record["record"] == "namespace":
            namespaces[record["name"]] = _namespace(record)
        else:
            price = record.get("per_gigabyte")
            crossings[record["pair"]] = Crossing(
                per_gigabyte=None if price is None else Fraction(Decimal(str(price))),
                meter=record.get("meter") or WITHIN_A_CONTINENT,
            )
    return Tariffs(namespaces=namespaces, crossings=crossings)


def _namespace(record: Mapping[str, Any]) -> Namespace:
    if record["tier"] not in TIERS:
        raise ValueError(f"{record['tier']} is not a tier")
    return Namespace(
        name=record["name"],
        scope=record["scope"],
        tier=record["tier"],
        messaging_units=int(record.get("messaging_units", 1)),
    )
