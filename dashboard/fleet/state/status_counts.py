"""The number of entities by status, of each pair and of all, in one query."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db.models import Count, Q

from dashboard.fleet.state.status import Status
from dashboard.models import EntityHealth, Pair


def summed(counts: Mapping[int, Mapping[Status, int]]) -> Mapping[Status, int]:
    """The counts of all pairs together."""
    return {status: sum(one[status] for one in counts.values()) for status in Status}


def counts_by_pair(pairs: Iterable[Pair], now: datetime, fleet_is_silent: bool) -> Mapping[int, Mapping[Status, int]]:
    """Number of entities by status for each pair with entities, by its key; the rule of status_of as a query."""
    held = Q(state="failed_over", held_by__isnull=False) & (Q(expires__isnull=True) | Q(expires__gt=now))
    counted = (
        EntityHealth.objects.present()
        .filter(pair__in=pairs)
        .order_by()
        .values("pair")
        .annotate(
            all=Count("pk"),
            away=Count("pk", filter=Q(state="failed_over")),
            held=Count("pk", filter=held),
            failing=Count("pk", filter=Q(state="failing")),
            unknown=Count("pk", filter=Q(state="unknown")),
            draining=Count("pk", filter=Q(state="healthy", waiting__gt=0)),
            draining_unknown=Count("pk", filter=Q(state="unknown", waiting__gt=0)),
        )
    )
    return {row["pair"]: _by_status(row, fleet_is_silent) for row in counted}


def _by_status(counted: Mapping[str, Any], fleet_is_silent: bool) -> Mapping[Status, int]:
    counts = {
        Status.FAILED_OVER: counted["away"] - counted["held"],
        Status.HELD: counted["held"],
        Status.FAILING: counted["failing"],
        Status.UNKNOWN: counted["unknown"] if fleet_is_silent else 0,
        Status.DRAINING: counted["draining"] + (0 if fleet_is_silent else counted["draining_unknown"]),
    }
    return counts | {Status.HEALTHY: counted["all"] - sum(counts.values())}
