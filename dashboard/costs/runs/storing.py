"""The result of a charges run in the database: a month's charges are replaced whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.db import DatabaseError, models, transaction
from django.utils import timezone

from dashboard.costs.budgets import raise_alerts
from dashboard.costs.files import keep_report
from dashboard.costs.runs.jobs import JobFailed
from dashboard.models import Availability, BacklogRollup, Charge, ChargeRun, DailyCharge, Invoice, Outage
from pairing.health.faults import describe

CHUNK = 1_000
REPLACED: Mapping[str, Any] = {
    "update_conflicts": True,
    "unique_fields": ("pair", "queue", "begins_at", "is_day"),
    "update_fields": ("samples", "deepest", "p50", "p95"),
}
"""How the periods of rollups are stored: those of which the samples are gone remain."""


def finish(run: ChargeRun, status: ChargeRun.Status, error: str = "") -> None:
    """Close the run with its outcome. The error may quote a file name that is not UTF-8."""
    run.status, run.error = status, error.encode(errors="replace").decode()
    run.finished_at = timezone.now()
    run.save(update_fields=["status", "error", "finished_at"])


@transaction.atomic
def store(run: ChargeRun, result: Path, *, may_be_empty: bool = False) -> None:
    """Replace the month's charges of all scopes by the result, and close the run. Raises JobFailed.

    Of the result the invoices of the run's counting rule are stored.
    `may_be_empty`: a month that had usage may have none.
    """
    hold_month(run.month)
    try:
        _store(run, records_in(result), may_be_empty=may_be_empty)
    except (DatabaseError, LookupError, TypeError, ValidationError, ValueError) as error:
        raise JobFailed(f"The result {result} cannot be stored: {describe(error)}.") from error
    keep_report(run)
    raise_alerts(run.month, timezone.now())
    run.stage, run.share = "stored", 1.0
    run.save(update_fields=["stage", "share", "details"])
    finish(run, ChargeRun.Status.SUCCEEDED)


def hold_month(month: str) -> None:
    """Wait until no other transaction changes what is stored of the month, and let none do so before this one ends.

    The row to hold is that of the month's first run, which is never deleted.
    """
    ChargeRun.objects.select_for_update(no_key=True).filter(month=month).order_by("pk").first()


def _store(run: ChargeRun, records: Iterator[dict[str, Any]], *, may_be_empty: bool) -> None:
    head = next(records)
    if head.pop("record") != "run":
        raise ValueError("the first record is not the run")
    run.details = head
    if not may_be_empty:
        _refuse_to_empty(run)
    for stored in (Invoice, Outage, Availability):
        stored._default_manager.filter(month=run.month).delete()
    for model, rows in groupby(_rows(run, records), attrgetter("__class__")):
        how = REPLACED if issubclass(model, BacklogRollup) else {}
        while chunk := list(islice(rows, CHUNK)):  # a month may have hundreds of thousands
            model._default_manager.bulk_create(chunk, **how)


def _refuse_to_empty(run: ChargeRun) -> None:
    """Usage does not disappear from a month: its folder is not mounted, or another one was given. Raises JobFailed."""
    if run.details["counts"]["read"]:
        return
    before = ChargeRun.objects.filter(month=run.month, status=ChargeRun.Status.SUCCEEDED).exclude(pk=run.pk).first()
    if before is not None and (rows := before.details["counts"]["read"]):
        raise JobFailed(
            f"No usage of {run.month} was found, but the last run read {rows} rows: nothing was changed. Check that "
            "USAGE_DIR or --usage is the right folder and is mounted; --allow-empty stores the month without usage."
        )


def _rows(run: ChargeRun, records: Iterator[dict[str, Any]]) -> Iterator[models.Model]:
    """The rows of the records; an invoice is saved at once, as those of its lines refer to it."""
    invoice: Invoice | None = None
    for record in records:
        match record.pop("record"):
            case "invoice":
                invoice = Invoice.objects.create(run=run, **record) if record["rule"] == run.rule else None
            case "line" if invoice:
                counts = {"billing_units": record.pop("units"), "included_units": record.pop("included")}
                yield Charge(invoice=invoice, **counts, **record)
            case "day" if invoice:
                yield DailyCharge(invoice=invoice, billing_units=record.pop("units"), **record)
            case "episode":
                yield Outage(run=run, month=run.month, **record)
            case "availability":
                yield Availability(month=run.month, **record)
            case "rollup":
                yield BacklogRollup(month=run.month, **record)


def records_in(result: Path) -> Iterator[dict[str, Any]]:
    """The records of the file. Raises JobFailed if it is not a whole result."""
    count, record = 0, dict[str, Any]()
    try:
        with result.open(encoding="utf-8") as lines:
            for line in lines:
                record = json.loads(line)
                count += 1
                yield dict(record)
    except OSError as error:
        raise JobFailed(f"The result {result} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise JobFailed(f"The result {result} cannot be read: line {count + 1} is not a record.") from error
    if record.get("record") != "end" or record.get("records") != count - 1:
        raise JobFailed(f"The result {result} is not complete: copy it again, or run the job again.")
