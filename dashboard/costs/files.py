"""The charges as CSV, with the columns of docs/contract.md, section 5."""

from collections.abc import Iterator
from decimal import Decimal
from itertools import groupby
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from dashboard.models import Charge
from dashboard.site.tables import csv_lines

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
        *counts, size, cents = (sum(getattr(row, name) for row in of_pairs) for name in (*COUNTS, "bytes", "cents"))
        by_tier = " ".join(str(sum(units)) for units in zip(*(row.tiers for row in of_pairs), strict=True))
        yield (*names, *counts, Decimal(cents).scaleb(-2), of_pairs[0].invoice.currency, by_tier, size)


def _names(row: Charge) -> tuple[str, ...]:
    return (row.invoice.month, row.invoice.scope, row.namespace, row.entity, row.kind)


def write_parquet(out: BinaryIO, month: str) -> None:
    """Write the month's rows; `charge` is an exact decimal and sums to the invoices."""
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in charge_rows(month)]
    table = pa.Table.from_pylist(rows, SCHEMA)
    pq.write_table(table, out, compression="zstd")
