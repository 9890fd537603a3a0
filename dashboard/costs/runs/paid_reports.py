"""Reports that were computed before: of a past month each result that differed, as the CSV file of its time."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from fractions import Fraction
from io import StringIO

from django.db.models import QuerySet, Sum

from dashboard.costs.files import NAMES, csv_of
from dashboard.models import ChargeRun, Invoice, MonthlyReport
from dashboard.site.money import cents, money
from pipeline.months import Month

CHANGES = (*NAMES, "charge_before", "charge", "difference", "currency")
Rows = dict[tuple[str, ...], dict[str, str]]


def keep_report(run: ChargeRun) -> None:
    """Keep the stored charges of the run's month as a report; of a running month it replaces the one before."""
    written = "".join(csv_of(run.month))
    found, end = reports_of(run.month), Month.parse(run.month).end
    found.filter(run__started_at__lt=end).delete()
    newest = found.first()
    if newest is None or newest.csv != written:
        invoices = Invoice.objects.filter(month=run.month)
        total = invoices.aggregate(sum=Sum("cents"))["sum"] or 0
        currency = run.details["prices"][0]["currency"]
        MonthlyReport.objects.create(run=run, cents=total, currency=currency, csv=written)


def reports_of(month: str) -> QuerySet[MonthlyReport]:
    """The month's reports, newest first."""
    return MonthlyReport.objects.filter(run__month=month).select_related("run")


def changes(report: MonthlyReport) -> Iterator[tuple[str, ...]]:
    """The rows whose charge is another one than in the report before, as CHANGES; all of them in the first one."""
    earlier = reports_of(report.run.month).filter(run__pk__lt=report.run_id).first()
    before, now = _rows(earlier.csv if earlier else ""), _rows(report.csv)
    for place in sorted(before.keys() | now.keys()):
        old, new = (rows[place]["charge"] if place in rows else "0.00" for rows in (before, now))
        if old != new:
            currency = (now.get(place) or before[place])["currency"]
            yield (*place, old, new, money(_cents(new) - _cents(old)), currency)


def _rows(text: str) -> Rows:
    return {tuple(row[name] for name in NAMES): row for row in csv.DictReader(StringIO(text))}


def _cents(charge: str) -> int:
    return cents(Fraction(charge))
