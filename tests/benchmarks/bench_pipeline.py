"""The month's charges on Spark, whole process, beside DuckDB (two threads) with the same checks and deduplication.

Rows with the contract's columns, a thousandth of them repeated, are written once to a temporary folder (in BENCH_DIR).
DuckDB is optional: without it the ratio is left out. The number of rows is an argument; of two the growth is told too:

    python -m tests.benchmarks.bench_pipeline 10000000 100000000

By `make bench` they are BENCH_ROWS, 10 million by default. 100 million take 6 GB of disk and 10 GB of memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

MONTH, DAYS = "2026-10", 31
ROWS = int(os.environ.get("BENCH_ROWS", 10_000_000))

GENERATE = textwrap.dedent("""
    import sys
    from pipeline.spark import build_session
    rows, folder = int(sys.argv[1]), sys.argv[2]
    spark = build_session("generate")
    per_day = rows // {days}
    kinds = "array('send', 'receive', 'settle', 'receive_empty', 'send_backlog', 'syphon_send', 'manage')"
    n = spark.range(0, per_day * {days}, 1, 2 * {days})
    copies = n.where("id % 1000 = 7")
    day = f"date_add(date '{month}-01', cast(id div {{per_day}} as int))"
    frame = n.unionAll(copies).selectExpr(
        "lower(concat(lpad(hex(xxhash64(id)), 16, '0'), lpad(hex(xxhash64(id, 1)), 16, '0'))) as record_id",
        f"cast({{day}} as timestamp) + make_interval(0, 0, 0, 0, 0, cast(id % 1440 as int)) as minute",
        "concat('scope-', abs(xxhash64(id, 2)) % 5) as scope",
        "'contoso' as pair",
        "concat('contoso-', abs(xxhash64(id, 3)) % 10) as namespace",
        "concat('orders/', abs(xxhash64(id, 4)) % 200) as entity",
        f"element_at({{kinds}}, cast(abs(xxhash64(id, 5)) % 7 + 1 as int)) as kind",
        "concat('host-', abs(xxhash64(id, 6)) % 20) as reporter",
        "1L as seq",
        "5L + id % 11 as operations",
        "0L as messages",
        "1024L * (id % 7) as bytes",
        "5L + id % 11 as billing_units",
        f"{{day}} as date",
    )
    frame.write.option("compression", "zstd").partitionBy("date").parquet(f"{{folder}}/usage")
""").format(days=DAYS, month=MONTH)

DUCKDB = textwrap.dedent("""
    import sys, json, duckdb
    folder, temporary = sys.argv[1], sys.argv[2]
    base = duckdb.connect(config={{"threads": 2, "temp_directory": temporary, "preserve_insertion_order": False}})
    base.execute("set TimeZone = 'UTC'")
    base.execute(f'''
        create table facts as
        with read as (select * from read_parquet('{{folder}}/usage/date=*/*.parquet', hive_partitioning = true)),
        valid as (
            select * from read where record_id is not null and minute is not null and scope is not null
            and pair is not null and namespace is not null and entity is not null and kind is not null
            and reporter is not null and seq is not null and operations >= 0 and messages >= 0 and bytes >= 0
            and billing_units >= 0 and kind in {kinds}
            and not (kind in {transfers} and billing_units < messages)
            and bytes // 104857600 <= greatest(messages, operations)
            and date_trunc('day', minute) = date::timestamptz and date_trunc('minute', minute) = minute
        )
        select max(struct_pack(seq, minute, scope, namespace, entity, kind, operations, billing_units)) as row
        from valid group by record_id
    ''')
    rows = base.execute('''
        with hours as (
            select row.scope as scope, row.namespace as ns, row.entity as entity, row.kind as kind,
                   date_trunc('hour', row.minute) as hour, sum(row.operations) as operations,
                   sum(case when row.kind in ('settle', 'syphon_settle') then 0 else row.billing_units end) as units
            from facts group by all)
        select scope, sum(units) from hours group by scope order by scope
    ''').fetchall()
    print(json.dumps([[scope, int(units)] for scope, units in rows]))
""")


def run(rows: int = ROWS) -> dict[str, float | dict[str, Any]]:
    """The ratios of whole processes, and what they were made of; seconds and megabytes."""
    with TemporaryDirectory(prefix="bench-pipeline-", dir=os.environ.get("BENCH_DIR")) as name:
        folder = Path(name)
        _timed([sys.executable, "-c", GENERATE, str(rows), name])
        size = sum(file.stat().st_size for file in folder.rglob("*.parquet"))
        full = _charges(folder, rows)
        first = _charges(folder, rows, "--incremental")
        _change_a_day(folder)
        again = _charges(folder, rows, "--incremental")
        duck = _duckdb(folder)
        units = _units(folder)
    figures: dict[str, Any] = {
        "rows": rows,
        "input_mb": round(size / 1e6),
        "full_s": full.seconds,
        "full_peak_mb": full.peak_mb,
        "first_incremental_s": first.seconds,
        "one_day_changed_s": again.seconds,
    }
    ratios: dict[str, float | dict[str, Any]] = {"one changed day : full run": round(again.seconds / full.seconds, 3)}
    if duck is not None:
        figures |= {"duckdb_s": duck.seconds, "duckdb_peak_mb": duck.peak_mb}
        assert json.loads(duck.said) == units, "DuckDB and Spark disagree about the month's units"
        ratios["spark : duckdb, whole process"] = round(full.seconds / duck.seconds, 2)
    return ratios | {"figures": figures}


class Timed:
    """A process that ended well: how long it took, the memory of it and its children, and its last line."""

    def __init__(self, seconds: float, peak_mb: int, said: str) -> None:
        self.seconds, self.peak_mb, self.said = round(seconds, 1), peak_mb, said


def _timed(command: list[str], **environment: str) -> Timed:
    begun = time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **environment}
    ) as process:
        over, peaks = Event(), [0]
        watch = Thread(target=_watch, args=(process.pid, over, peaks))
        watch.start()
        said = process.communicate()[0].strip().splitlines()
        over.set()
        watch.join()
    assert process.returncode == 0, said[-1:] or command
    return Timed(time.monotonic() - begun, peaks[0] // 1024, said[-1] if said else "")


def _watch(pid: int, over: Event, peaks: list[int]) -> None:
    """Adds up the peak resident memory (kB) of the process and its descendants."""
    seen: dict[int, int] = {}
    while not over.wait(0.5):
        for child in _family(pid):
            seen[child] = max(seen.get(child, 0), _peak_kb(child))
        peaks[0] = sum(seen.values())


def _family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(descendant for child in children for descendant in _family(int(child)))]


def _peak_kb(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status if line.startswith("VmHWM")), 0)


def _charges(folder: Path, rows: int, *options: str) -> Timed:
    result = ["--result", str(folder / "result.jsonl")]
    command = [sys.executable, "-m", "pipeline.jobs.charges", "--month", MONTH, "--usage", str(folder), *result]
    memory = "10g" if rows > 50_000_000 else "4g"
    return _timed([*command, *options], SPARK_DRIVER_MEMORY=memory)


def _change_a_day(folder: Path) -> None:
    """One file more on one day, with the contents of another: repeated records, so the sums stay."""
    day = folder / "usage" / f"date={MONTH}-15"
    file = next(day.glob("*.parquet"))
    (day / "again.parquet").write_bytes(file.read_bytes())


def _duckdb(folder: Path) -> Timed | None:
    from pipeline.schemas import KINDS, TRANSFERS

    if subprocess.run([sys.executable, "-c", "import duckdb"], capture_output=True).returncode != 0:
        return None
    script = DUCKDB.format(kinds=KINDS, transfers=TRANSFERS)
    return _timed([sys.executable, "-c", script, str(folder), str(folder / "duckdb-spill")])


def _units(folder: Path) -> list[list[Any]]:
    """The billable units of each scope, as the pipeline found them."""
    records = map(json.loads, (folder / "result.jsonl").read_text().splitlines())
    return sorted(
        [record["scope"], record["units"]]
        for record in records
        if record["record"] == "invoice" and record["rule"] == "published"
    )


def growth(sizes: list[int]) -> dict[str, Any]:
    """Each size's figures; of two sizes, by how much the time of a full run grew."""
    runs = {f"{size:,} rows": run(size) for size in sizes}
    seconds = [found["figures"]["full_s"] for found in runs.values()]  # type: ignore[index]
    if len(seconds) < 2:
        return dict(runs)
    return {"largest : smallest, time of a full run": round(seconds[-1] / seconds[0], 2), **runs}


if __name__ == "__main__":
    print(json.dumps(growth([int(size) for size in sys.argv[1:]] or [ROWS]), indent=2))
