"""The charges as CSV, with the columns of docs/contract.md, section 5, and the reports that were computed before.

Of a past month each result that differed is kept as a report.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from io import StringIO
from itertools import groupby
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from django.db.models import QuerySet, Sum

from dashboard.models import Charge, ChargeRun, Invoice, MonthlyReport
from dashboard.site.money import amount, cents
from dashboard.site.tables import csv_lines
from pipeline.months import Month

NAMES = ("month", "scope", "namespace", "entity", "kind")
COUNTS = ("operations", "billing_units", "included_units")
COLUMNS = (*NAMES, *COUNTS, "charge", "currency", "units_by_tier", "bytes")
TYPES = {name: pa.int64() for name in (*COUNTS, "bytes")} | {"charge": pa.decimal128(20, 2)}
SCHEMA = pa.schema([(name, TYPES.get(name, pa.string())) for name in COLUMNS])


def csv_of(month: str) -> Iterator[str]:
    """The month's rows as lines of CSV; their `charge` sums to the invoices to the cent."""
    return csv_lines(COLUMNS, charge_rows(month))


def charge_rows(month: str) -> Iterator[tuple[str | int | Decimal, ...]]:
    """The rows in the order of COLUMNS; usage of one entity by several pairs is one row."""
    charges = Charge.objects.filter(invoice__month=month).select_related("invoice")
    in_order = charges.order_by("invoice__scope", "namespace", "entity", "kind").iterator()
    for names, rows in groupby(in_order, key=_names):
        of_pairs = list(rows)
        *counts, size, charged = (sum(getattr(row, name) for row in of_pairs) for name in (*COUNTS, "bytes", "cents"))
        by_tier = " ".join(str(sum(units)) for units in zip(*(row.tiers for row in of_pairs), strict=True))
        yield (*names, *counts, Decimal(charged).scaleb(-2), of_pairs[0].invoice.currency, by_tier, size)


def _names(row: Charge) -> tuple[str, ...]:
    return (row.invoice.month, row.invoice.scope, row.namespace, row.entity, row.kind)


def write_parquet(out: BinaryIO, month: str) -> None:
    """Write the month's rows; `charge` is an exact decimal and sums to the invoices."""
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in charge_rows(month)]
    table = pa.Table.from_pylist(rows, SCHEMA)
    pq.write_table(table, out, compression="zstd")


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
            yield (*place, old, new, amount(cents(Fraction(new) - Fraction(old))), currency)


def _rows(text: str) -> Rows:
    return {tuple(row[name] for name in NAMES): row for row in csv.DictReader(StringIO(text))}
