"""The inputs of an incident's cost: its depths, the pair's options, the metered size, the month's prices."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from typing import Any

from dashboard.costs import current_month as present
from dashboard.costs.jobs import JobFailed
from dashboard.costs.tariffs import tariff
from dashboard.incidents.cost import Cost, Estimate, Facts
from dashboard.incidents.folding import Drain, Incident
from dashboard.incidents.moved import Moved
from dashboard.models import ChargeRun, EntityHealth
from dashboard.models.charge import PUBLISHED, SETTLEMENTS
from dashboard.site.money import exact_text

EXAMPLE_BYTES = 1_024


def estimate(
    entity: EntityHealth, incident: Incident, drain: Drain, metered: Moved | None, now: datetime
) -> Estimate | None:
    """The cost of the incident; None if the prices cannot be read, which the cost pages report.

    The messages are those that were metered. The highest sampled depth is never more than that, but it can be less,
    and metered minutes arrive late: the larger one counts.
    """
    month = f"{now:%Y-%m}"
    try:
        prices = _prices(month)
        priced = tariff(incident.pair, prices, month)
    except JobFailed:
        return None
    traffic = present.traffic(incident.pair, now, incident.entity)
    diverted = max(drain.peak, metered.to_backlog if metered else 0)
    facts = Facts(
        diverted=diverted,
        home=diverted - drain.waiting,
        message_bytes=traffic.message_bytes or EXAMPLE_BYTES,
        down_s=_seconds(incident.failed_over_at, incident.recovered_at or now, now),
        lasted_s=_seconds(incident.failed_over_at, incident.ended_at(now), now),
        ping_interval_s=max(1, round(entity.pair.ping_primary_interval_s)),
        queues=entity.pair.backlog_queue_count,
        used=traffic.used[SETTLEMENTS],
        per_gigabyte=priced.per_gigabyte or Fraction(0),
    )
    return Estimate(
        by_rule=(replace(facts, used=traffic.used[PUBLISHED]), facts),
        tariff=priced,
        currency=prices.currency,
        is_sample=prices.is_sample,
        is_size_known=bool(traffic.message_bytes),
        is_metered=metered is not None and metered.to_backlog >= drain.peak,
    )


def _seconds(began: datetime, ended: datetime, now: datetime) -> float:
    """Duration between two times of different clocks: never negative, and not beyond the present."""
    return max(0.0, (min(ended, now) - began).total_seconds())


def _prices(month: str) -> present.Prices:
    """The price rows of the month's last run, or else of the price list."""
    run = ChargeRun.objects.filter(month=month, status=ChargeRun.Status.SUCCEEDED).first()
    rows = run.details.get("prices") if run is not None else None
    if run is None or not rows:
        return present.chosen_prices(month)
    return present.Prices(rows, bool(run.details.get("sample_prices")))


def as_json(found: Estimate) -> dict[str, Any]:
    """The estimate as JSON, with exact amounts as text."""
    return {
        "currency": found.currency,
        "sample_prices": found.is_sample,
        "diverted_messages": found.facts.diverted,
        "messages_from": "usage" if found.is_metered else "highest sampled depth",
        "home_messages": found.facts.home,
        "message_bytes": found.facts.message_bytes,
        "so_far": _both(found.so_far),
        "when_drained": _both(found.drained),
    }


def _both(costs: tuple[Cost, Cost]) -> dict[str, Any]:
    return {rule: _cost_as_json(each) for rule, each in zip(("published", "settlements"), costs, strict=True)}


def _cost_as_json(each: Cost) -> dict[str, Any]:
    stages = ("send_backlog", "syphon_receive", "syphon_settle", "pings", "polls")
    counts = {name: getattr(each, name) for name in stages}
    return {**counts, "operations": each.extra, "egress": exact_text(each.egress), "money": exact_text(each.money)}
