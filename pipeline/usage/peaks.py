"""The hourly peaks of connections, from the files that the control plane's processes report them in."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.invoice import Connections
from pipeline.months import Month
from pipeline.schemas import CONNECTIONS, LONGEST, MOST
from pipeline.usage.counts import Counts
from pipeline.usage.files import UNREADABLE, check
from pipeline.usage.folder import Child, UsageFolder

REPORTER = "reporter"
"""A column that a file may have: whose own peak a row is; without it the row is the whole namespace's."""


def read_peaks(folder: UsageFolder, month: Month) -> tuple[dict[str, list[Connections]], Counts]:
    """By billing scope the sums of its namespaces' peaks in the month, and the results of the files and their rows."""
    days, others = folder.days("connections")
    rejected, rows = list(others), list[tuple[str, dict[str, Any]]]()
    files = len(others)
    for day in days:
        for child in folder.files("connections", day) if day.startswith(str(month)) else ():
            files += 1
            found = _rows_of(folder, child)
            if isinstance(found, str):
                rejected.append((child.path, found))
            else:
                rows += [(day, row) for row in found]
    return _counted(rows, Counts(files=files, files_rejected=len(rejected), rejected=rejected))


def _rows_of(folder: UsageFolder, child: Child) -> list[dict[str, Any]] | str:
    """The rows of a file, or why it is left out."""
    found = check(folder, child, CONNECTIONS)
    if isinstance(found, str):
        return found
    try:
        with folder.filesystem.open_input_file(child.path) as source:
            file = pq.ParquetFile(source, pre_buffer=False, page_checksum_verification=True)
            columns = [name for name in (*CONNECTIONS, REPORTER) if name in file.schema_arrow.names]
            rows: list[dict[str, Any]] = file.read(columns, use_threads=False).to_pylist()
            return rows
    except (pa.ArrowException, OSError, ValueError, OverflowError):
        return UNREADABLE


def _counted(rows: list[tuple[str, dict[str, Any]]], files: Counts) -> tuple[dict[str, list[Connections]], Counts]:
    """An hour's peak is the whole namespace's where a row tells it, else the sum of its processes' own peaks, which
    need not have been at the same time: an upper bound. Of an hour that was reported twice the higher peak counts.
    """
    reasons: Counter[str] = Counter()
    hours: dict[tuple[str, str], dict[datetime, dict[str | None, int]]] = defaultdict(lambda: defaultdict(dict))
    for day, row in rows:
        if reason := next(_problems(day, row), ""):
            reasons[f"connections: {reason}"] += 1
            continue
        hour = _moment(row["hour"]).replace(minute=0, second=0, microsecond=0)
        by_reporter = hours[row["scope"], row["namespace"]][hour]
        by_reporter[row.get(REPORTER)] = max(row["peak"], by_reporter.get(row.get(REPORTER), 0))
    counts = replace(
        files, read=len(rows), accepted=len(rows) - reasons.total(), quarantined=reasons.total(), reasons=dict(reasons)
    )
    by_scope: dict[str, list[Connections]] = defaultdict(list)
    for (scope, namespace), known in sorted(hours.items()):
        peaks = (of_hour[None] if None in of_hour else sum(of_hour.values()) for of_hour in known.values())
        by_scope[scope].append(Connections(namespace=namespace, hours=sum(peaks)))
    return by_scope, counts


def _problems(day: str, row: Mapping[str, Any]) -> Iterator[str]:
    """Why a row does not count."""
    yield from (f"{name} is missing" for name in CONNECTIONS if row[name] is None)
    for name in ("scope", "namespace"):
        if len(row[name].encode()) > LONGEST[name]:
            yield f"{name} is too long"
        if "\0" in row[name]:
            yield f"{name} contains a zero byte"
    if row["peak"] < 0:
        yield "peak is negative"
    if row["peak"] > MOST:
        yield "peak is more than a namespace can have"
    if _moment(row["hour"]).date().isoformat() != day:
        yield "the hour is not of the folder's day"


def _moment(hour: datetime) -> datetime:
    return hour.astimezone(UTC) if hour.tzinfo else hour
