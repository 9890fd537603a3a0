"""The month's charges on Spark, whole process, beside DuckDB (two threads) with the same checks and deduplication.

Rows with the contract's columns, in the types that collectors write, one for each minute, entity, kind and process, a
thousandth of them repeated, are written once to a temporary folder (in BENCH_DIR). The month is computed into an empty
table of day sums, then again after one day grew, and with nothing changed, beside `manage.py --version`. CPU times
beside the seconds tell what a busy machine did not do. DuckDB is optional: without it the ratio is left out. BENCH_ROWS
is the number of rows, 10 million by default; 100 million take 6 GB of disk and 10 GB of memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.benchmarks.processes import Timed, printed, size, timed

MONTH, DAYS = "2026-10", 31
GROWN = "15"
"""The day that gets a file more."""
COMPARED = (("full", "duckdb"), ("one_day_grown", "full"), ("one_day_grown", "duckdb"))
"""Whose seconds and CPU times are divided."""
COUNT = int(os.environ.get("BENCH_ROWS", size(10_000_000, 50_000)))
ROWS = [
    (
        "a month of {figures[rows]:,} rows, beside DuckDB",
        "of 10 million at most 5, of 100 million at most 2",
        "{full beside duckdb}, CPU time {full beside duckdb, CPU time}",
    ),
    (
        "one grown day, beside a full run",
        "at most half of the CPU time",
        "{one_day_grown beside full, CPU time}: {figures[one_day_grown_cpu_s]} s, {figures[full_cpu_s]} s",
    ),
    ("one grown day, beside DuckDB's whole month", "of 100 million faster", "{one_day_grown beside duckdb}"),
    (
        "nothing changed, CPU time beside that of printing the version",
        "no Spark; at most a second more",
        "{figures[nothing_changed_cpu_s]} s, {figures[version_cpu_s]} s",
    ),
]

GENERATE = textwrap.dedent("""
    import sys
    from pipeline.usage.spark import build_session
    rows, folder = int(sys.argv[1]), sys.argv[2]
    spark = build_session("generate", **{{"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}})
    a_minute = max(1, rows // ({days} * 1440))  # rows; each of an entity, kind and reporter of its own
    kinds = "array('send', 'receive', 'settle', 'receive_empty', 'send_backlog', 'syphon_send', 'manage')"
    n = spark.range(0, a_minute * {days} * 1440, 1, 2 * {days}).selectExpr(
        "id", f"cast(id div {{a_minute}} as int) as at", f"cast(id % {{a_minute}} as int) as k")
    copies = n.where("id % 1000 = 7")
    frame = n.unionAll(copies).selectExpr(
        "id",
        "timestamp '{month}-01' + make_interval(0, 0, 0, 0, 0, at) as minute",
        "concat('scope-', (k div 14) % 5) as scope",
        "concat('contoso-', (k div 14) % 5) as pair",
        f"element_at({{kinds}}, k % 7 + 1) as kind",
        "concat('orders/', k div 14) as entity",
        "concat('host-', (k div 7) % 2, ':4711:0123abcd') as reporter",
    ).selectExpr(
        "concat_ws('/', pair, reporter, replace(date_format(minute, 'yyyyMMdd HHmm'), ' ', 'T'), kind, "
        "if(kind = 'send_backlog', concat(pair, '-dr'), pair), entity) as record_id",
        "minute", "scope", "pair",
        "if(kind = 'send_backlog', concat(pair, '-dr'), pair) as namespace",
        "entity", "kind", "reporter",
        "1L as seq",
        "1L + pmod(xxhash64(id), 200L) as operations",
        "0L as messages",
        "pmod(xxhash64(id, 1), 200000L) as bytes",
        "1L + pmod(xxhash64(id), 200L) + pmod(xxhash64(id, 2), 3L) as billing_units",
        "date_format(minute, 'yyyy-MM-dd') as date",
    )
    frame = frame.sortWithinPartitions("date", "scope", "namespace", "entity", "kind", "minute")
    frame.write.option("compression", "zstd").partitionBy("date").parquet(f"{{folder}}/usage")
""").format(days=DAYS, month=MONTH)


def run(rows: int = COUNT) -> dict[str, float | dict[str, Any]]:
    """The ratios of whole processes, and what they were made of; seconds and megabytes."""
    took: dict[str, Timed] = {}
    with TemporaryDirectory(prefix="bench-pipeline-", dir=os.environ.get("BENCH_DIR")) as name:
        folder = Path(name)
        printed("written", timed([sys.executable, "-c", GENERATE, str(rows), name]))
        size = sum(file.stat().st_size for file in folder.rglob("*.parquet"))
        took["full"] = printed("full run", _charges(folder, rows))
        if duck := duckdb_of(folder):
            took["duckdb"] = agreed(duck, folder)
        _grow_a_day(folder)
        took["one_day_grown"] = printed("one day grown", _charges(folder, rows))
        took["nothing_changed"] = printed("nothing changed", _charges(folder, rows))
        took["version"] = printed("manage.py --version", timed([sys.executable, "manage.py", "--version"]))
    figures: dict[str, Any] = {"rows": rows, "input_mb": round(size / 1e6)}
    for name, one in took.items():
        figures |= {f"{name}_s": one.seconds, f"{name}_cpu_s": one.cpu_s, f"{name}_peak_mb": one.peak_mb}
    return _ratios(took) | {"figures": figures}


def _ratios(took: dict[str, Timed]) -> dict[str, Any]:
    """Those of COMPARED; without DuckDB none to it."""
    ratios: dict[str, Any] = {}
    for one, other in COMPARED:
        if other in took:
            ratios[f"{one} beside {other}"] = round(took[one].seconds / took[other].seconds, 2)
            ratios[f"{one} beside {other}, CPU time"] = round(took[one].cpu_s / took[other].cpu_s, 2)
    return ratios


def agreed(duck: Timed, folder: Path) -> Timed:
    """DuckDB's process, once its result is the pipeline's."""
    assert json.loads(duck.said) == _tiers(folder), "DuckDB and Spark disagree about the units in the tiers"
    return duck


def _charges(folder: Path, rows: int) -> Timed:
    return timed(command(folder, "--table", str(folder / "table")), SPARK_DRIVER_MEMORY=_memory(rows))


def command(folder: Path, *options: str) -> list[str]:
    """The job that computes the month in the folder, as a process of its own."""
    given = ["--month", MONTH, "--usage", str(folder), "--result", str(folder / "result.jsonl"), *options]
    return [sys.executable, "-m", "pipeline.jobs.charges", *given]


def _memory(rows: int) -> str:
    return "10g" if rows > 50_000_000 else "4g"


def _grow_a_day(folder: Path) -> None:
    """One file more on one day: a hundredth of another's records, sent once more with a higher seq; the sums stay."""
    import pyarrow.parquet as pq

    from workers.usage import SCHEMA

    day = folder / "usage" / f"date={MONTH}-{GROWN}"
    largest = max(day.glob("*.parquet"), key=lambda file: file.stat().st_size)
    table = pq.ParquetFile(largest).read().select(SCHEMA.names).cast(SCHEMA)
    some = table.slice(0, len(table) // 100)
    again = some.set_column(SCHEMA.get_field_index("seq"), "seq", [[2] * len(some)]).cast(SCHEMA)
    pq.write_table(again, day / "again.parquet")


def duckdb_of(folder: Path) -> Timed | None:
    """The same month by DuckDB; nothing where it is not installed."""
    if subprocess.run([sys.executable, "-c", "import duckdb"], capture_output=True).returncode != 0:
        return None
    command = [sys.executable, "-m", "tests.benchmarks.duckdb_month", str(folder), str(folder / "duckdb-spill")]
    return printed("DuckDB", timed(command))


def _tiers(folder: Path) -> list[list[Any]]:
    """The billable units of each scope and rule by tier, as the pipeline found them."""
    records = map(json.loads, (folder / "result.jsonl").read_text().splitlines())
    return sorted([one["scope"], one["rule"], one["tiers"]] for one in records if one["record"] == "invoice")
