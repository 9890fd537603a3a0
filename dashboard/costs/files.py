"""The charges as CSV, with the columns of docs/contract.md, section 5."""

import csv
from collections.abc import Iterator
from decimal import Decimal
from itertools import groupby
from typing import BinaryIO, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from dashboard.models import Charge
from dashboard.site.money import money
from dashboard.site.tables import cell

COLUMNS = (
    "month",
    "scope",
    "namespace",
    "entity",
    "kind",
    "operations",
    "billing_units",
    "included_units",
    "charge",
    "currency",
)
SUMS = ("operations", "billing_units", "included_units", "cents")
COUNTS = ("operations", "billing_units", "included_units")
TYPES = {name: pa.int64() for name in COUNTS} | {"charge": pa.decimal128(20, 2)}
SCHEMA = pa.schema([(name, TYPES.get(name, pa.string())) for name in COLUMNS])
NAMES = 5  # columns with texts that applications have reported


class Writable(Protocol):
    """The target of csv.writer."""

    def write(self, text: str, /) -> object: ...


def write_csv(out: Writable, month: str) -> None:
    """Write the month's rows; their `charge` sums to the invoices to the cent."""
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for row in charge_rows(month):
        writer.writerow([*(cell(str(name)) for name in row[:NAMES]), *row[NAMES:]])


def charge_rows(month: str) -> Iterator[tuple[str | int, ...]]:
    """The rows in the order of COLUMNS; usage of one entity by several pairs is one row."""
    charges = Charge.objects.filter(invoice__month=month).select_related("invoice")
    in_order = charges.order_by("invoice__scope", "namespace", "entity", "kind").iterator()
    for names, rows in groupby(in_order, key=_names):
        of_pairs = list(rows)
        operations, units, included, cents = (sum(getattr(row, name) for row in of_pairs) for name in SUMS)
        yield (*names, operations, units, included, money(cents), of_pairs[0].invoice.currency)


def _names(row: Charge) -> tuple[str, ...]:
    return (row.invoice.month, row.invoice.scope, row.namespace, row.entity, row.kind)


def write_parquet(out: BinaryIO, month: str) -> None:
    """Write the month's rows; `charge` is an exact decimal and sums to the invoices."""
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in charge_rows(month)]
    table = pa.Table.from_pylist([row | {"charge": Decimal(str(row["charge"]))} for row in rows], SCHEMA)
    pq.write_table(table, out, compression="zstd")
