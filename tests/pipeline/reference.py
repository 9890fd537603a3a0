"""The charges once more, in plain Python and by the book: every record by itself, no hour, no Spark, no shortcut."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date
from fractions import Fraction
from typing import Any

from pipeline.price_tiers import Price

Record = Mapping[str, Any]
Key = tuple[str, str, str, str]
SETTLES = ("settle", "syphon_settle")


def facts(records: Iterable[Record]) -> list[Record]:
    """Each record_id once within the day of its minute, with its highest seq."""
    newest: dict[tuple[str, date], Record] = {}
    for record in records:
        identity = record["record_id"], record["minute"].date()
        if identity not in newest or record["seq"] > newest[identity]["seq"]:
            newest[identity] = record
    return list(newest.values())


def charges(records: Iterable[Record], ladder: Price, rule: str) -> dict[Key, tuple[int, Fraction]]:
    """(scope, namespace, entity, kind) → billable units and exact charge; tiers taken in the order of minute."""
    used: dict[str, int] = defaultdict(int)
    totals: dict[Key, tuple[int, Fraction]] = {}
    order = ("minute", "namespace", "entity", "kind")
    for record in sorted(facts(records), key=lambda record: tuple(record[name] for name in order)):
        scope = record["scope"]
        units = 0 if rule == "published" and record["kind"] in SETTLES else record["billing_units"]
        cost = ladder.charge(used[scope] + units) - ladder.charge(used[scope])
        used[scope] += units
        key = (scope, record["namespace"], record["entity"], record["kind"])
        known_units, known_cost = totals.get(key, (0, Fraction(0)))
        totals[key] = (known_units + units, known_cost + cost)
    return totals
