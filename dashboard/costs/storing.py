"""The result of a charges run in the database: a month's charges replaced whole, or adjusted if it is closed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from django.db import models, transaction
from django.utils import timezone

from dashboard.costs.budgets import raise_alerts
from dashboard.costs.jobs import JobFailed
from dashboard.costs.many_rows import ManyRows
from dashboard.costs.result_file import (
    NOTHING,
    Key,
    LeftOut,
    Record,
    Rows,
    description_problem,
    json_problem,
    records_in,
    storable,
)
from dashboard.costs.terms import closed_terms, refuse_other_terms
from dashboard.models import (
    Adjustment,
    Availability,
    BacklogRollup,
    Charge,
    ChargeRun,
    ClosedMonth,
    ConnectionDay,
    DailyCharge,
    Invoice,
    Outage,
)

CHUNK = 1_000
INVOICE_KEY, PEAKS_KEY = ("month", "scope", "rule"), ("date", "scope", "namespace")
ROLLUP_KEY = ("pair", "queue", "begins_at", "is_day")
OF_ANOTHER_MONTH = "is of another month"
NOT_OF_THE_JOB = {"record", "terms", "note", "not_stored"}
"""What the control plane adds to the details of a run; and the name of the record."""


def finish(run: ChargeRun, status: ChargeRun.Status, error: str = "") -> None:
    """Close the run with its outcome. The error may quote a file name that is not UTF-8."""
    run.status, run.error, run.finished_at = status, storable(error), timezone.now()
    run.save(update_fields=["status", "error", "finished_at"])


@transaction.atomic
def store(
    run: ChargeRun,
    result: Path,
    known: Mapping[str, Any] = NOTHING,
    *,
    is_complete: bool = False,
    may_be_empty: bool = False,
) -> None:
    """Replace the month's charges of all scopes by the result, and close the run. Raises JobFailed.

    The invoices of a closed month do not change: differences are added as adjustments. Records that cannot be stored
    are left out and counted in the run's details, to which the `known` are added. `is_complete`: the file must have its
    last record. `may_be_empty`: a month that had usage may have none.
    """
    records = records_in(result, is_complete=is_complete)
    run.details = _details(next(records), is_complete=is_complete) | dict(known)
    if not may_be_empty:
        _refuse_to_empty(run)
    hold_month(run.month)
    _refuse_other_terms_if_closed_meanwhile(run)
    storing = _Storing(run)
    for record in records:
        storing.take(record)
    storing.save()
    if storing.left_out.count:
        run.details["not_stored"] = storing.left_out.details
    raise_alerts(run.month, run.rule, timezone.now())
    run.stage, run.share = "stored", 1.0
    run.save(update_fields=["stage", "share", "details"])
    finish(run, ChargeRun.Status.SUCCEEDED)


def hold_month(month: str) -> None:
    """Wait until no other transaction changes what is stored of the month, and let none do so before this one ends.

    Of two runs, the later one replaces or adjusts what the earlier one stored. The row to hold is that of the month's
    first run, which is never deleted.
    """
    ChargeRun.objects.select_for_update(no_key=True).filter(month=month).order_by("pk").first()


def _refuse_other_terms_if_closed_meanwhile(run: ChargeRun) -> None:
    """A run that began before the month was closed may have other terms. Raises JobFailed."""
    if not ClosedMonth.objects.filter(month=run.month, closed_at__gt=run.started_at).exists():
        return
    if (closed := closed_terms(run.month)) is not None:
        of_the_result = {name: run.details.get(name) for name in ("hours_in_month", "prices")}
        refuse_other_terms(run.month, closed, {"rule": run.rule, "allocation": run.allocation} | of_the_result)


def _details(record: Mapping[str, Any], *, is_complete: bool) -> dict[str, Any]:
    details = {name: value for name, value in record.items() if name not in NOT_OF_THE_JOB}
    problem = json_problem(details)
    if is_complete:
        problem = problem or description_problem(details)
    if problem:
        raise JobFailed(f"The result does not begin with a description of its run: the first record {problem}.")
    return details


def _refuse_to_empty(run: ChargeRun) -> None:
    """Usage does not disappear from a month: its folder is not mounted, or another one was given. Raises JobFailed."""
    counts = run.details.get("counts")
    if not isinstance(counts, dict) or counts.get("read"):
        return
    before = ChargeRun.objects.filter(month=run.month, status=ChargeRun.Status.SUCCEEDED).exclude(pk=run.pk).first()
    if before is not None and (rows := before.details.get("counts", {}).get("read", 0)):
        raise JobFailed(
            f"No usage of {run.month} was found, but the last run read {rows} rows: nothing was changed. Check that "
            "USAGE_DIR or --usage is the right folder and is mounted; --allow-empty stores the month without usage."
        )


class _Storing:
    """The rows of one result, collected from its records, and then saved; the rows of its open invoices at once."""

    def __init__(self, run: ChargeRun) -> None:
        self.run = run
        self.left_out = LeftOut()
        self.rows = Rows(self.left_out)
        self.closing = ClosedMonth.objects.filter(month=run.month).first()
        of_month = Invoice.objects.filter(month=run.month)
        self.closed = {(each.scope, each.rule): each for each in of_month.filter(closed_at__isnull=False)}
        of_month.filter(closed_at__isnull=True).delete()
        self.now_due: dict[int, list[Charge]] = {each.pk: [] for each in self.closed.values()}
        self.found: dict[type[models.Model], list[models.Model]] = defaultdict(list)
        self.many = {model: ManyRows(model) for model in (Charge, DailyCharge)}
        self.invoice: Invoice | None = None

    def take(self, record: dict[str, Any]) -> None:
        """Check one record and keep it."""
        month = {"month": self.run.month}
        match record.pop("record"):
            case "invoice":
                self.invoice = self._invoice(record)
            case "line" if self.invoice:
                self._line(self.invoice, record)
            case "day" if self.invoice and not self.invoice.closed_at:
                added = {"invoice": self.invoice, "billing_units": record.pop("units")}
                self._add(DailyCharge, ("invoice", "date", "kind"), record, added)
            case "line" | "day" as what if not self.invoice:
                self.left_out.add(str(what), "its invoice is not stored", record.get("cents"))
            case "episode":
                self._keep(Outage, ("pair", "entity", "started_at"), record, month | {"run": self.run})
            case "availability":
                self._keep(Availability, ("pair", "entity"), record, month)
            case "rollup":
                self._keep(BacklogRollup, ROLLUP_KEY, record, month)
            case "peaks":
                self._peaks(record)

    def _keep(self, model: type[models.Model], key: Key, record: Record, added: Record = NOTHING) -> None:
        row = self.rows.row(model, key, record, added)
        if row is not None:
            self.found[model].append(row)

    def _add(self, model: type[Charge | DailyCharge], key: Key, record: Record, added: Record) -> None:
        if self.rows.fits(model, key, record, added):
            self.many[model].add({**record, **added})

    def _peaks(self, record: Record) -> None:
        """Keep the peaks of a day of the month: those of other days would not be replaced with it."""
        row = self.rows.row(ConnectionDay, PEAKS_KEY, record)
        if row is None:
            return
        if str(ConnectionDay._meta.get_field("date").to_python(row.date)).startswith(self.run.month):
            self.found[ConnectionDay].append(row)
        else:
            self.rows.leave_out(ConnectionDay, PEAKS_KEY, record, OF_ANOTHER_MONTH)

    def _invoice(self, record: dict[str, Any]) -> Invoice | None:
        checked = self.rows.row(Invoice, INVOICE_KEY, record, {"run": self.run})
        if checked is None:
            return None
        if checked.month != self.run.month:
            self.rows.leave_out(Invoice, INVOICE_KEY, record, OF_ANOTHER_MONTH)
            return None
        place = (checked.scope, checked.rule)
        if self.closing and place not in self.closed:
            self.closed[place] = _nothing_owed(self.run, record, self.closing)
            self.now_due[self.closed[place].pk] = []
        if place in self.closed:
            return self.closed[place]
        checked.save()
        return checked

    def _line(self, invoice: Invoice, record: dict[str, Any]) -> None:
        units, included = record.pop("units"), record.pop("included")
        added = {"invoice": invoice, "billing_units": units, "included_units": included}
        key = ("invoice", "namespace", "entity", "kind", "pair")
        due = self.now_due.get(invoice.pk)
        if due is None:
            self._add(Charge, key, record, added)
        elif charge := self.rows.row(Charge, key, record, added):
            due.append(charge)

    def save(self) -> None:
        """Replace what the month has by what was kept."""
        month = self.run.month
        Outage.objects.filter(month=month).delete()
        Availability.objects.filter(month=month).delete()
        ConnectionDay.objects.filter(statement=None, date__startswith=month).delete()
        _save_rollups(self.found.pop(BacklogRollup, []))
        for model, rows in self.found.items():
            model._default_manager.bulk_create(rows, batch_size=CHUNK)
        for many in self.many.values():
            many.flush()
        for known in self.closed.values():
            adjust(known, self.now_due[known.pk], self.run)


def _save_rollups(rollups: Iterable[models.Model]) -> None:
    """Store the rollups. Recomputed periods replace the stored ones; periods whose samples are gone remain."""
    BacklogRollup._default_manager.bulk_create(
        rollups,  # type: ignore[arg-type]
        batch_size=CHUNK,
        update_conflicts=True,
        unique_fields=ROLLUP_KEY,
        update_fields=["samples", "deepest", "p50", "p95"],
    )


def adjust(invoice: Invoice, due: Iterable[Charge], run: ChargeRun) -> None:
    """Add the difference between the present rows of a closed invoice and its rows with earlier adjustments."""
    key = ("namespace", "entity", "kind", "pair")
    difference: dict[tuple[str, ...], int] = defaultdict(int)
    for sign, rows in ((1, due), (-1, invoice.charges.all()), (-1, invoice.adjustments.all())):
        for row in rows:
            difference[tuple(getattr(row, name) for name in key)] += sign * row.cents
    now = timezone.now()
    Adjustment.objects.bulk_create(
        Adjustment(invoice=invoice, run=run, cents=cents, made_at=now, **dict(zip(key, place, strict=True)))
        for place, cents in sorted(difference.items())
        if cents
    )


def _nothing_owed(run: ChargeRun, record: Mapping[str, Any], closing: ClosedMonth) -> Invoice:
    """The invoice of a billing scope that had no charges when its month was closed; all of it is adjustments."""
    nothing = {"cents": 0, "exact": "0", "units": 0, "tiers": [0] * len(record.get("tiers", [])), "unpriced_bytes": 0}
    return Invoice.objects.create(run=run, **{**record, **nothing}, closed_at=closing.closed_at)


@transaction.atomic
def close_month(month: str, now: datetime) -> int:
    """Close the month, even if it is empty; later changes are adjustments. Returns the invoices that were open."""
    hold_month(month)
    ClosedMonth.objects.get_or_create(month=month, defaults={"closed_at": now})
    return Invoice.objects.filter(month=month, closed_at__isnull=True).update(closed_at=now)
