"""The demo's sixty days of history in the database of a served control plane, and a month of charges without Spark."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from tempfile import TemporaryDirectory
from typing import Any

from dashboard.demo.history.scenery import ENTITIES, OTHER_PAIR, Watched
from tests.dashboard.results import result_of

ADD_HISTORY = "from tests.dashboard.history_data import add_history; add_history()"
KINDS = ("send", "receive", "settle", "receive_empty", "send_backlog", "syphon_receive", "syphon_send", "ping")
GROUPS = ("send", "receive", "syphon_receive_empty", "send_backlog", "manage")


def add_history() -> None:
    """Two pairs with forty entities, incidents, drills, alerts and an audit trail; and the charges of this month."""
    from django.utils import timezone

    from dashboard.demo.history.loading import load
    from dashboard.demo.history.plan import history
    from dashboard.models import EntityHealth, Pair

    now = timezone.now()
    Pair.objects.get_or_create(
        name=OTHER_PAIR,
        defaults={"primary_namespace": OTHER_PAIR, "secondary_namespace": f"{OTHER_PAIR}-dr", "synced_at": now},
    )
    pairs = {pair.name: pair for pair in Pair.objects.all()}
    for one in ENTITIES:
        EntityHealth.objects.get_or_create(
            pair=pairs[one.pair], path=one.path, defaults={"kind": one.kind, "is_configured": True}
        )
    load(history(now))
    _charge(now)
    _roll_up(now)


def _charge(now: datetime) -> None:
    from dashboard.costs.storing import store
    from dashboard.models import ChargeRun

    run = ChargeRun.objects.create(month=f"{now:%Y-%m}", started_at=now, heard_at=now)
    with TemporaryDirectory() as folder:
        store(run, result_of(folder, _records(now)))


def _records(now: datetime) -> Iterator[dict[str, Any]]:
    """What the pipeline would have written: rows of every entity and kind, of which most cost nothing."""
    month = f"{now:%Y-%m}"
    prices = [
        {"meter": "Standard Messaging Operations", "unit": "1M", "from": "0", "price": "80.0", "currency": "USD"},
        {"meter": "Standard Messaging Operations", "unit": "1M", "from": "100", "price": "50.0", "currency": "USD"},
    ]
    counts = {"read": 9000, "accepted": 9000, "copies": 0, "quarantined": 0, "files": 60, "files_rejected": 0}
    yield {
        "record": "run", "month": month, "allocation": "time", "hours_in_month": 720, "sample_prices": True,
        "prices": prices, "counts": counts,
    }  # fmt: skip
    lines = [_line(one, kind, place) for one in ENTITIES for place, kind in enumerate(KINDS)]
    total = sum(line["cents"] for line in lines)
    common = {"month": month, "scope": "demo-simulated", "allocation": "time", "currency": "USD"}
    for rule in ("published", "settlements"):
        yield {
            "record": "invoice", **common, "rule": rule, "units": 90_000_000, "tiers": [90_000_000, 0],
            "exact": f"{total / 100:.12f}", "cents": total,
        }  # fmt: skip
        yield from lines
        for day in range(1, now.day + 1):
            for place, kind in enumerate(GROUPS):
                amount = 7 + (day * 5) % 11 if kind in ("send", "receive") else place
                yield {
                    "record": "day", "date": f"{month}-{day:02}", "kind": kind, "operations": 90_000 * amount,
                    "units": 90_000 * amount, "exact": f"{amount:.2f}",
                }  # fmt: skip


def _line(entity: Watched, kind: str, place: int) -> dict[str, Any]:
    cents = entity.per_hour // 10 if place < 2 else 0
    return {
        "record": "line", "pair": entity.pair, "namespace": entity.pair, "entity": entity.path, "kind": kind,
        "messages": 1, "bytes": 0, "included": 0, "quantity": "0.000000000000", "operations": entity.per_hour * 100,
        "units": entity.per_hour * 100, "exact": f"{cents / 100:.12f}", "cents": cents,
    }  # fmt: skip


def _roll_up(now: datetime) -> None:
    from dashboard.models import BacklogRollup, Pair

    begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    rows = [
        BacklogRollup(
            month=f"{now:%Y-%m}", is_day=True, queue="*", pair=pair.name, begins_at=begin + timedelta(days=day),
            p50=0, p95=day, deepest=day * 10, samples=1440,
        )
        for pair in Pair.objects.all()
        for day in range(now.day)
    ]  # fmt: skip
    BacklogRollup.objects.bulk_create(rows)
