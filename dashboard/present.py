"""The present, as far as a forecast needs it: this month's prices, what it used so far, and the traffic of a pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.db.models import Max, Sum

from dashboard.charges import absolute, configured_prices
from dashboard.jobs import JobFailed, run_job
from dashboard.ladder import Step, ladder_of
from dashboard.models import Charge, Invoice, Pair


@dataclass(frozen=True, slots=True)
class Prices:
    """The operations' price ladder of a month."""

    ladder: Sequence[Step]
    currency: str
    is_sample: bool


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a pair sends, on average over the latest month with charges; zero where nothing was metered yet."""

    month: str
    messages_per_hour: int
    message_bytes: int
    used: int


def prices(month: str) -> Prices:
    """The month's ladder from PRICES_FILE, or from the sample that ships; raises JobFailed."""
    path = configured_prices()
    return _prices(month, path, _changed(path))


def _changed(path: str) -> int:
    """When the file last changed, so that a new list is read again; 0 where it cannot be read, which the job tells."""
    try:
        return Path(path).stat().st_mtime_ns if path else 0
    except OSError:
        return 0


@lru_cache(maxsize=8)
def _prices(month: str, path: str, changed: int) -> Prices:
    told: list[dict[str, Any]] = []
    run_job("pipeline.jobs.prices", ["--month", month, *(["--prices", absolute(path)] if path else [])], told.append)
    if not told:
        raise JobFailed("The prices could not be read.")
    rows = told[-1]["prices"]
    return Prices(ladder_of(rows), rows[0]["currency"], told[-1]["sample"])


def traffic(pair: str, now: datetime, entity: str = "") -> Traffic:
    """The sends by the hour of a pair, or of one of its entities, from the newest month that was computed."""
    newest = Invoice.objects.order_by("-month").select_related("run").first()
    if newest is None:
        return Traffic(f"{now:%Y-%m}", 0, 0, 0)
    sent = Charge.objects.filter(
        invoice__month=newest.month, invoice__rule="published", kind__in=("send", "send_backlog")
    )
    if pair:
        sent = sent.filter(pair=pair)
    if entity:
        sent = sent.filter(entity=entity)
    sums = sent.aggregate(messages=Sum("messages"), bytes=Sum("bytes"), used=Max("invoice__units"))
    messages, size = sums["messages"] or 0, sums["bytes"] or 0
    hours = max(1, _hours(newest.month, newest.run.started_at))
    is_running = newest.month == f"{now:%Y-%m}"
    return Traffic(
        month=newest.month,
        messages_per_hour=round(messages / hours),
        message_bytes=round(size / messages) if messages else 0,
        used=(sums["used"] or 0) if is_running else 0,
    )


def _hours(month: str, computed_at: datetime) -> int:
    """The month's hours, as far as they had passed when it was computed."""
    year, number = map(int, month.split("-"))
    first = computed_at.replace(year=year, month=number, day=1, hour=0, minute=0, second=0, microsecond=0)
    following = first.replace(year=year + number // 12, month=number % 12 + 1)
    return int((min(computed_at, following) - first).total_seconds() // 3600)


def queues(pair: str) -> int:
    """The backlog queues of the pair; ten, the option's default, where it is not known."""
    known = Pair.objects.filter(name=pair).values_list("backlog_queue_count", flat=True).first()
    return known or 10
