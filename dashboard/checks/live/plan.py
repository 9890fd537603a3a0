"""What a live check would do and cost, known before it begins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db import DatabaseError

from dashboard.drills.report import cost

OPERATIONS: Mapping[str, Mapping[str, int]] = {
    "pairing": {"manage": 6},
    "rights": {"manage": 6},
    "absent": {"manage": 1},
    "pings": {"manage": 3, "ping": 3, "send": 4, "receive": 4, "settle": 4},
    "queue": {
        "manage": 38,
        "ping": 6,
        "send": 1,
        "receive": 2,
        "settle": 2,
        "send_backlog": 2,
        "syphon_receive": 4,
        "syphon_send": 2,
        "syphon_settle": 4,
        "syphon_receive_empty": 2,
    },
    "sessions": {
        "manage": 40,
        "ping": 6,
        "receive": 4,
        "settle": 3,
        "send_backlog": 3,
        "syphon_receive": 6,
        "syphon_send": 3,
        "syphon_settle": 6,
    },
    "topic": {
        "manage": 40,
        "ping": 6,
        "receive": 2,
        "settle": 1,
        "send_backlog": 1,
        "syphon_receive": 2,
        "syphon_send": 1,
        "syphon_settle": 2,
    },
    "duplicates": {"manage": 1, "send": 3, "receive": 3, "settle": 2},
    "locks": {"manage": 8, "send": 4, "receive": 6, "settle": 5},
    "sizes": {"manage": 1, "send": 33},  # in units of 64 KB, of Premium's largest messages
    "quarantine": {"manage": 3, "send": 1},
}
"""Billable operations of each trial by kind of usage, at most; waiting is counted as it ends in the slowest case."""
CLEANING = {"manage": 14}


def operations_of(trials: Iterable[str]) -> dict[str, int]:
    """The operations of these trials and of cleaning up, at most."""
    total = Counter(CLEANING)
    for trial in trials:
        total.update(OPERATIONS[trial])
    return dict(sorted(total.items()))


def price_of(pair: str, operations: Mapping[str, int], now: datetime) -> dict[str, Any] | None:
    """Their marginal cost by the price list and the tier of this month; None if it is not known."""
    try:
        return cost(pair, operations, now)
    except DatabaseError:
        return None


def announced(
    pair: str, operations: Mapping[str, int], price: Mapping[str, Any] | None, trials: int, *, is_emulator: bool
) -> str:
    """The sentences before the confirmation. Pure."""
    count = sum(operations.values())
    if price is None:
        said = "their price is not known, because the price list or the database cannot be read"
    else:
        sample = ", by the bundled sample list" if price["is_sample"] else ""
        said = f"{price['billable_operations']} of them billable, {price['amount']} {price['currency']}{sample}"
    where = " Its namespaces are local (emulator): nothing is billed." if is_emulator else ""
    return f"{trials} trials on scratch entities of the pair {pair}: at most {count} operations, {said}.{where}"
