"""Writes the simulated usage as Parquet files, with the columns and folders of the collectors (docs/contract.md)."""

from collections.abc import Iterator, Sequence
from datetime import date
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dashboard.demo.history.metered import Row, connections, late_rows, rows_by_day
from dashboard.demo.history.plan import SIMULATION, History
from dashboard.demo.history.scenery import SUBSCRIPTION

SCHEMA = pa.schema(
    [
        ("record_id", pa.string()),
        ("minute", pa.timestamp("us", tz="UTC")),
        *((name, pa.string()) for name in ("scope", "pair", "namespace", "entity", "kind", "reporter")),
        *((name, pa.int64()) for name in ("seq", "operations", "messages", "bytes", "billing_units")),
    ]
)
PEAKS = pa.schema(
    [
        ("hour", pa.timestamp("us", tz="UTC")),
        *((name, pa.string()) for name in ("scope", "namespace")),
        ("peak", pa.int64()),
        ("reporter", pa.string()),
    ]
)


def write(past: History, usage_dir: Path) -> int:
    """Write a file per day; one that is there is the same already. Returns the number of usage rows."""
    written = 0
    for day, rows in rows_by_day(past).items():
        _save(usage_dir / "usage" / f"date={day}" / "part-simulated.parquet", _table(rows, f"{day}"))
        written += len(rows)
    for day, table in _peaks_by_day(past):
        _save(usage_dir / "connections" / f"date={day}" / "part-simulated.parquet", table)
    return written


def write_late(past: History, usage_dir: Path, month: str) -> int:
    """Write what is delivered after the month was closed. Returns the number of rows."""
    rows = late_rows(past, month)
    day = rows[0].minute.date()
    _save(usage_dir / "usage" / f"date={day}" / "part-simulated-late.parquet", _table(rows, f"late-{day}"))
    return len(rows)


def _peaks_by_day(past: History) -> Iterator[tuple[date, pa.Table]]:
    for day, found in groupby(connections(past), key=lambda peak: peak[0].date()):
        rows = [
            {"hour": hour, "scope": SUBSCRIPTION, "namespace": namespace, "peak": peak, "reporter": SIMULATION}
            for hour, namespace, peak in found
        ]
        yield day, pa.Table.from_pylist(rows, schema=PEAKS)


def _table(rows: Sequence[Row], name: str) -> pa.Table:
    """The rows as a table, with ids that are the same in every run."""
    columns: dict[str, list[object]] = {field: [] for field in SCHEMA.names}
    for number, row in enumerate(rows):
        for field, value in row.columns(f"simulated-{name}-{number}").items():
            columns[field].append(value)
    return pa.Table.from_pydict(columns, schema=SCHEMA)


def _save(path: Path, table: pa.Table) -> None:
    """Readers skip the name of an unfinished file."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"_tmp-{path.name}")
    pq.write_table(table, unfinished, write_page_checksum=True)
    unfinished.rename(path)
