"""The charges as Parquet: the columns of the CSV, with types."""

from decimal import Decimal
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from dashboard.costs.csv_export import COLUMNS, charge_rows

COUNTS = ("operations", "billing_units", "included_units")
TYPES = {name: pa.int64() for name in COUNTS} | {"charge": pa.decimal128(20, 2)}
SCHEMA = pa.schema([(name, TYPES.get(name, pa.string())) for name in COLUMNS])


def write_parquet(out: BinaryIO, month: str) -> None:
    """Write the month's rows; `charge` is an exact decimal and sums to the invoices."""
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in charge_rows(month)]
    table = pa.Table.from_pylist([row | {"charge": Decimal(str(row["charge"]))} for row in rows], SCHEMA)
    pq.write_table(table, out, compression="zstd")
