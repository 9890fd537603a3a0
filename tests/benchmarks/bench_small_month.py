"""A small month on Spark, whole processes: 46,080 rows of one day, in one file and in 1,440 files of a minute each.

A first process computes the month with a session of its own; a kept session (`pipeline.jobs.warm`) computes it several
times, each time anew. A day in files of a minute is computed incrementally, after one more file, and without a change.
A tier begins on the day, in an earlier hour than that of the last file. All figures are CPU time; `session` is that
of a process that only starts a session.

    python -m tests.benchmarks.bench_small_month
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.benchmarks.bench_pipeline import MONTH, arguments, command
from tests.benchmarks.kept_session import kept_session
from tests.benchmarks.processes import printed, timed
from workers.usage import SCHEMA

DAY = datetime.fromisoformat(f"{MONTH}-15").replace(tzinfo=UTC)
MINUTES, SERIES = 1_440, 32
"""The minutes of the day, and the records of each: one for each entity and kind."""
KINDS = ("send", "receive", "settle", "manage")
OPERATIONS = 400
"""Of a record on average: the 13 million operations that are free end in the course of the day."""
TIMES = 6
SESSION = "from pipeline.spark import build_session; build_session('benchmark')"


def run() -> dict[str, Any]:
    """How much CPU time a kept session takes compared with a process of its own, and all figures in seconds."""
    with TemporaryDirectory(prefix="bench-small-") as name:
        one, many = Path(name, "one"), Path(name, "many")
        _write(one, "0", range(MINUTES))
        for minute in range(MINUTES - 1):
            _write(many, str(minute), [minute])
        session = printed("a session alone", timed([sys.executable, "-c", SESSION])).cpu_s
        cold = printed("one file, a session of its own", timed(command(one))).cpu_s
        with kept_session() as kept:
            warm = [kept.run(arguments(_touched(one))).cpu_s for _ in range(TIMES)]
        first = printed("many files, first incremental run", timed(command(many, "--incremental"))).cpu_s
        _write(many, "last", [MINUTES - 1])
        more = printed("one more file", timed(command(many, "--incremental"))).cpu_s
        same = printed("nothing changed", timed(command(many, "--incremental"))).cpu_s
        with kept_session() as kept:
            kept.run(arguments(_touched(one)))
            _write(many, "late", [MINUTES - 2])
            more_warm = kept.run(arguments(many, "--incremental")).cpu_s
    figures = {
        "session_cpu_s": session,
        "cold_cpu_s": cold,
        "warm_cpu_s": warm,
        "first_incremental_cpu_s": first,
        "one_more_file_cpu_s": more,
        "one_more_file_beyond_the_session_cpu_s": round(more - session, 1),
        "one_more_file_warm_cpu_s": more_warm,
        "nothing_changed_cpu_s": same,
    }
    return {"kept session : session of its own": round(median(warm[1:]) / cold, 2), "figures": figures}


def _touched(folder: Path) -> Path:
    """The folder with another time of its files, so that the month is computed again."""
    for file in folder.rglob("usage/*/*.parquet"):
        file.touch()
    return folder


def _write(folder: Path, name: str, minutes: range | list[int]) -> None:
    """A file with the records of these minutes."""
    day = folder / "usage" / f"date={DAY:%Y-%m-%d}"
    day.mkdir(parents=True, exist_ok=True)
    rows = [_record(minute, series) for minute in minutes for series in range(SERIES)]
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), day / f"{name}.parquet", compression="zstd")


def _record(minute: int, series: int) -> dict[str, Any]:
    at, kind, entity = DAY + timedelta(minutes=minute), KINDS[series % len(KINDS)], f"orders/{series // len(KINDS)}"
    operations = OPERATIONS // 2 + (minute * 31 + series * 17) % OPERATIONS
    return {
        "record_id": f"contoso/host-1:4711:0123abcd/{at:%Y%m%dT%H%M}/{kind}/contoso/{entity}",
        "minute": at,
        "scope": "contoso",
        "pair": "contoso",
        "namespace": "contoso",
        "entity": entity,
        "kind": kind,
        "reporter": "host-1:4711:0123abcd",
        "seq": 1,
        "operations": operations,
        "messages": 0,
        "bytes": operations * 300,
        "billing_units": operations,
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
