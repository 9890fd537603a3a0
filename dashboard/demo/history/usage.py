"""The usage of the simulated past as files of the collectors (docs/contract.md)."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dashboard.demo.history.plan import HOUR, SIMULATION, History, Outage, by_hour
from dashboard.demo.history.scenery import ENTITIES, LIVE_PAIR, MESSAGE_BYTES, OTHER_PAIR, SUBSCRIPTION, secondary_of

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
CONNECTIONS = {LIVE_PAIR: 34, secondary_of(LIVE_PAIR): 8, OTHER_PAIR: 21, secondary_of(OTHER_PAIR): 8}


@dataclass(frozen=True, slots=True)
class Row:
    """Operations of one kind from this minute on; each moves a message, but for pings."""

    minute: datetime
    pair: str
    namespace: str
    entity: str
    kind: str
    operations: int

    def columns(self) -> dict[str, object]:
        """The columns that usage files and the table of metered usage share."""
        moved = 0 if self.kind == "ping" else self.operations
        return {
            "scope": SUBSCRIPTION,
            "pair": self.pair,
            "namespace": self.namespace,
            "entity": self.entity,
            "kind": self.kind,
            "operations": self.operations,
            "messages": moved,
            "bytes": moved * MESSAGE_BYTES,
            "billing_units": self.operations,
        }


def rows(past: History) -> Iterator[Row]:
    """All rows of the past."""
    away = Counter[tuple[str, str, datetime]]()
    for outage in past.outages:
        yield from rows_of_outage(outage)
        for at, count in by_hour(outage.entity, outage.failed_over_at, outage.recovered_at):
            away[outage.entity.pair, outage.entity.path, at.replace(minute=0)] += count
    for one in ENTITIES:
        for hour, messages in by_hour(one, past.begin, past.end.replace(minute=0)):
            for kind in ("send", "receive", "settle"):
                yield Row(hour, one.pair, one.pair, one.path, kind, messages - away[one.pair, one.path, hour])


def rows_of_outage(outage: Outage) -> Iterator[Row]:
    """Diverted sends and pings while it is away; then the syphon's operations, and the receives that follow."""
    pair, secondary, path = outage.entity.pair, secondary_of(outage.entity.pair), outage.entity.path
    away, back = ((at + timedelta(minutes=1)).replace(second=0) for at in (outage.failed_over_at, outage.recovered_at))
    yield Row(away, pair, secondary, path, "send_backlog", outage.diverted)
    yield Row(away, pair, pair, path, "ping", outage.incident.lasted // timedelta(minutes=1))
    yield Row(back, pair, secondary, path, "syphon_receive", outage.diverted)
    yield Row(back, pair, pair, path, "syphon_send", outage.diverted)
    yield Row(back, pair, secondary, path, "syphon_settle", outage.diverted)
    yield Row(back, pair, pair, path, "receive", outage.diverted)
    yield Row(back, pair, pair, path, "settle", outage.diverted)


def write(past: History, folder: Path) -> None:
    """Write a file per day of usage and of connections."""
    for day, found in groupby(sorted(rows(past), key=lambda row: row.minute), key=lambda row: row.minute.date()):
        records = [
            {
                "record_id": f"simulated-{number}",
                "minute": row.minute,
                "reporter": SIMULATION,
                "seq": 1,
                **row.columns(),
            }
            for number, row in enumerate(found)
        ]
        _save(folder / "usage", day, pa.Table.from_pylist(records, schema=SCHEMA))
    every_hour = (past.begin + HOUR * n for n in range((past.end - past.begin) // HOUR))
    for day, hours in groupby(every_hour, key=datetime.date):
        peaks = [
            {"hour": hour, "scope": SUBSCRIPTION, "namespace": name, "peak": peak, "reporter": SIMULATION}
            for hour in hours
            for name, peak in CONNECTIONS.items()
        ]
        _save(folder / "connections", day, pa.Table.from_pylist(peaks, schema=PEAKS))


def _save(folder: Path, day: date, table: pa.Table) -> None:
    """Readers skip the name of an unfinished file."""
    path = folder / f"date={day}" / "part-simulated.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"_tmp-{path.name}")
    pq.write_table(table, unfinished, write_page_checksum=True)
    unfinished.rename(path)
