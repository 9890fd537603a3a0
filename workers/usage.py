"""Usage as Parquet files, with the columns of docs/contract.md, section 5: records under
USAGE_DIR/usage/date=YYYY-MM-DD/, each process's hourly peaks of connections under USAGE_DIR/connections/date=…/.

Files appear atomically: each is written under a name that readers skip, flushed to disk, and renamed.
"""

import os
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from dashboard.fleet.pairs.pairs_file import PairConfig
from pairing.telemetry.metering import CONNECTIONS, UsageRecord

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
FOLDERS = {"usage": SCHEMA, "connections": PEAKS}


def with_scopes(records: Iterable[UsageRecord], pairs: Mapping[str, PairConfig]) -> list[UsageRecord]:
    """The records with their configured billing scope; those of unknown pairs keep the pair's name."""
    return [
        record._replace(scope=pairs[record.pair].scope(record.namespace)) if record.pair in pairs else record
        for record in records
    ]


def write(records: Iterable[UsageRecord], usage_dir: str) -> list[str]:
    """Write one durable file per folder and day. Returns their names. Raises OSError; then the records must be kept."""
    days: dict[tuple[str, date], list[UsageRecord]] = defaultdict(list)
    for record in records:
        folder = "connections" if record.kind == CONNECTIONS else "usage"
        days[folder, record.minute.astimezone(UTC).date()].append(record)
    save = _saver(usage_dir)
    return [
        save(f"{folder}/date={day}", f"part-{uuid.uuid4().hex}.parquet", _table(folder, of))
        for (folder, day), of in days.items()
    ]


def _table(folder: str, records: list[UsageRecord]) -> pa.Table:
    rows = [_peak(record) if folder == "connections" else record._asdict() for record in records]
    return pa.Table.from_pylist(rows, schema=FOLDERS[folder])


def _peak(record: UsageRecord) -> dict[str, object]:
    return {
        "hour": record.minute,
        "scope": record.scope,
        "namespace": record.namespace,
        "peak": record.operations,
        "reporter": record.reporter,
    }


Save = Callable[[str, str, pa.Table], str]


def _saver(usage_dir: str) -> Save:
    if "://" not in usage_dir:
        return lambda folder, name, table: _save_locally(Path(usage_dir).expanduser() / folder, name, table)
    filesystem, root = pafs.FileSystem.from_uri(usage_dir)
    return lambda folder, name, table: _save_in_store(filesystem, f"{root}/{folder}", name, table)


def _save_locally(folder: Path, name: str, table: pa.Table) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"_tmp-{name}"
    try:
        with unfinished.open("wb") as file:
            pq.write_table(table, file, write_page_checksum=True)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(folder / name)
    except OSError:
        unfinished.unlink(missing_ok=True)  # on a full disk it would be in the way of the next attempts
        raise
    for made in (folder, folder.parent, folder.parent.parent):
        _to_disk(made)
    return str(folder / name)


def _to_disk(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _save_in_store(filesystem: pafs.FileSystem, folder: str, name: str, table: pa.Table) -> str:
    """An object of an object store appears when its upload is complete."""
    path = f"{folder}/{name}"
    filesystem.create_dir(folder, recursive=True)
    with filesystem.open_output_stream(path) as stream:
        pq.write_table(table, stream, write_page_checksum=True)
    return path
