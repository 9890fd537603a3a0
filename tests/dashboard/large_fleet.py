"""A fleet of any size in the database: pairs in trouble, their incidents and alerts, and a month of charges."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from dashboard.models import (
    Alert,
    AuditEntry,
    Availability,
    BacklogQueue,
    BacklogRollup,
    BilledDay,
    Charge,
    ChargeRun,
    DailyCharge,
    EntityHealth,
    FailoverEvent,
    Invoice,
    Outage,
    Pair,
    PairDepth,
    PairReadiness,
    Readiness,
    Statement,
    WaitingSample,
)
from tests.dashboard.costs.test_costs import RUN
from tests.dashboard.costs.test_costs_insight import PRICES

REASON = "OperationTimeoutError: No answer within 10.0 s."
MINUTE = timedelta(minutes=1)
CHECKS = [{"name": "senders", "result": "bad", "reason": "None uses the backlog.", "todo": "Start one."}]


def fill(now: datetime, numbers: range, entities: int, away: int) -> None:
    """Store pairs with these numbers, of `entities` entities each. In every tenth pair `away` of them are failed over;
    in every pair one was in an outage before.
    """
    made = Pair.objects.bulk_create(
        Pair(name=f"pair-{n:03}", primary_namespace=f"p{n}", secondary_namespace=f"s{n}", synced_at=now)
        for n in numbers
    )
    rows = [_entity(pair, n, now, n < away and pair.name.endswith("9")) for pair in made for n in range(entities)]
    EntityHealth.objects.bulk_create(rows, batch_size=2_000)
    FailoverEvent.objects.bulk_create(event for row in rows for event in _events(row, now))
    WaitingSample.objects.bulk_create(
        WaitingSample(entity=row, at=now - ago * MINUTE, waiting=row.waiting or 0)
        for row in rows
        if row.state == "failed_over"
        for ago in (9, 5, 1)
    )
    PairDepth.objects.bulk_create(
        PairDepth(pair=pair, at=now - ago * MINUTE, messages=9) for pair in made for ago in (40, 9, 1)
    )
    BacklogQueue.objects.bulk_create(
        BacklogQueue(pair=pair, path=f"p/x-servicebus-transfer/{n}", index=n, seen_at=now, active=3, size_bytes=9)
        for pair in made
        for n in range(3)
    )
    PairReadiness.objects.bulk_create(
        PairReadiness(pair=pair, score=20, checks=CHECKS, checked_at=now, due_at=now) for pair in made
    )
    Readiness.objects.bulk_create(
        Readiness(pair=row.pair, entity=row.path, score=20, reasons=CHECKS, checked_at=now) for row in rows
    )
    Alert.objects.bulk_create(
        Alert(
            key=f"{row.pair.name}/{row.path}/{ended_at}", kind="failover", severity="critical", pair=row.pair.name,
            entity=row.path, title=f"{row.path} failed over", began_at=now, opened_at=now, ended_at=ended_at,
            resolved_at=ended_at,
        )
        for row in rows if row.path.endswith("0") for ended_at in (None, now)
    )  # fmt: skip
    AuditEntry.objects.bulk_create(
        AuditEntry(request_id=f"{pair.name}/{n}", at=now - n * MINUTE, operator="ada", verb="pause_syphon",
                   pair=pair.name, reason="look first", outcome="done")
        for n, pair in enumerate(made)
    )  # fmt: skip
    _charges(now, made, rows)


def _entity(pair: Pair, n: int, now: datetime, is_away: bool) -> EntityHealth:
    known: dict[str, Any] = (
        {"state": "failed_over", "reason": REASON, "waiting": 3} if is_away else {"state": "healthy"}
    )
    return EntityHealth(pair=pair, path=f"region/created-{n}", since=now - 10 * MINUTE, waiting_at=now, **known)


def _events(row: EntityHealth, now: datetime) -> Iterator[FailoverEvent]:
    began = 60 + 20 * int(row.pair.name[-3:])
    ends = {"failed_over": [("failed_over", 10)]}.get(row.state, [])
    for kind, ago in ends or ([("failed_over", began), ("recovered", began - 9)] if row.path.endswith("-1") else []):
        name = uuid5(NAMESPACE_URL, f"{row.pair.name}/{row.path}/{ago}").hex
        yield FailoverEvent(
            event_id=name, time=now - ago * MINUTE, pair=row.pair.name, entity=row.path, kind=kind, reason=REASON
        )


def _charges(now: datetime, pairs: list[Pair], rows: list[EntityHealth]) -> None:
    month, began = f"{now:%Y-%m}", now - timedelta(hours=2)
    details = {"counts": RUN["counts"], "prices": PRICES, "sample_prices": False, "namespaces": []}
    times = {"started_at": began, "heard_at": began, "finished_at": began}
    run = ChargeRun.objects.create(month=month, status="succeeded", details=details, **times)
    common: dict[str, Any] = {
        "rule": "published",
        "allocation": "time",
        "currency": "USD",
        "exact": "10",
        "cents": 1000,
    }
    places = Invoice.objects.bulk_create(
        Invoice(run=run, month=month, scope=pair.name, units=20_000_000, tiers=[13_000_000, 7_000_000, 0, 0], **common)
        for pair in pairs
    )
    of = {invoice.scope: invoice for invoice in places}
    counts = {"operations": 9, "billing_units": 9, "included_units": 0, "quantity": "0", "exact": "0.1", "cents": 10}
    Charge.objects.bulk_create(
        Charge(invoice=of[row.pair.name], pair=row.pair.name, namespace=row.pair.primary_namespace, entity=row.path,
               kind=kind, tiers=[0, 9, 0, 0], **counts)
        for row in rows for kind in ("send", "ping")
    )  # fmt: skip
    DailyCharge.objects.bulk_create(
        DailyCharge(invoice=one, date=began.date(), kind=kind, operations=9, billing_units=9, exact="0.1")
        for one in places
        for kind in ("send", "ping")
    )
    Outage.objects.bulk_create(
        Outage(run=run, month=month, pair=row.pair.name, entity=row.path, started_at=began - n * MINUTE,
               ended_at=began, cause="failed_over", down_s=60, units={"ping": 9}, extra={"places": [
                   {"scope": row.pair.name, "namespace": "p", "published": 9, "settlements": 9, "crossing_bytes": 9}]})
        for n, row in enumerate(rows) if row.path.endswith("-1")
    )  # fmt: skip
    Availability.objects.bulk_create(
        Availability(month=month, pair=row.pair.name, entity=row.path, episodes=1, down_s=60, period_s=90_000)
        for row in rows
    )
    rolled = {"queue": "*", "month": month, "is_day": True, "samples": 9, "deepest": 9, "p50": 1, "p95": 9}
    BacklogRollup.objects.bulk_create(BacklogRollup(pair=pair.name, begins_at=began, **rolled) for pair in pairs)
    given = {"name": "bill.csv", "digest": "0" * 64, "uploaded_by": "ada", "uploaded_at": now}
    statement, _ = Statement.objects.get_or_create(month=month, defaults={"rows": 2, "currency": "USD", **given})
    BilledDay.objects.bulk_create(
        BilledDay(statement=statement, date=began.date(), namespace=pair.primary_namespace, meter="operations",
                  quantity="9", cost="1")
        for pair in pairs
    )  # fmt: skip
