"""The month's charges on Spark, whole process, beside DuckDB (two threads) with the same checks and deduplication.

Rows with the contract's columns, one for each minute, entity, kind and process, with the identities the library gives
them (BENCH_IDS=random: random ones), a thousandth of them repeated, are written once to a temporary folder (in
BENCH_DIR), as another writer would: both look for repeated records everywhere. The same month is then compacted, as it
is every night, so that neither looks for them any longer, nor do incremental runs. Both are also computed three times
in a kept session (`SPARK_SESSION_IDLE_S`), which has all its code after the first. CPU times beside the seconds tell
what a busy machine did not do.
DuckDB is optional: without it the ratio is left out. The number of rows is an argument; two show the growth:

    python -m tests.benchmarks.bench_pipeline 10000000 100000000

By `make bench` they are BENCH_ROWS, 10 million by default. 100 million take 6 GB of disk and 10 GB of memory.
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

from tests.benchmarks.kept_session import kept_session
from tests.benchmarks.processes import Timed, printed, timed

MONTH, DAYS = "2026-10", 31
GROWN = ("15", "16", "17", "18")
"""The days that get a file more, one after the other."""
KEPT_JOBS = 3
COMPARED = (
    ("full", "duckdb"),
    ("bare", "duckdb"),
    ("full_kept", "duckdb"),
    ("compacted", "duckdb_compacted"),
    ("compacted_kept", "duckdb_compacted"),
    ("compacted", "full"),
    ("one_day_changed", "full"),
    ("one_day_changed_kept", "full"),
)
"""Whose seconds and CPU times are divided; of a kept session it is the last job. `bare` is Spark alone."""
ROWS = int(os.environ.get("BENCH_ROWS", 10_000_000))

GENERATE = textwrap.dedent("""
    import sys
    from pyspark.sql import functions as F
    from pipeline.spark import build_session
    rows, folder = int(sys.argv[1]), sys.argv[2]
    spark = build_session("generate")
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
    if len(sys.argv) > 3:
        frame = frame.withColumn("record_id", F.expr(
            "lower(concat(lpad(hex(xxhash64(record_id)), 16, '0'), lpad(hex(xxhash64(record_id, 1)), 16, '0')))"))
    frame = frame.sortWithinPartitions("date", "scope", "namespace", "entity", "kind", "minute")
    frame.write.option("compression", "zstd").partitionBy("date").parquet(f"{{folder}}/usage")
""").format(days=DAYS, month=MONTH)


BARE = """
import sys
from pyspark.sql import functions as F
from pipeline.schemas import USAGE, ddl
from pipeline.spark import OF_LOCAL_FILES, build_session
spark = build_session("bare", **OF_LOCAL_FILES)
rows = spark.read.schema(ddl(USAGE) + ", date string").parquet(sys.argv[1] + "/usage")
rows.select(F.xxhash64("record_id").alias("h")).repartition(8, "h").groupBy("h").count().where("count > 1").count()
sums = [F.sum(name) for name in ("operations", "messages", "bytes", "billing_units")]
hour = F.expr("unix_micros(minute) div 3600000000")
rows.groupBy("scope", "pair", "namespace", "entity", "kind", "date", hour).agg(*sums).count()
"""
"""What a run cannot do without, in two queries of Spark alone: it counts the hashes of ids, and sums by hour. It checks
no row, chooses between no versions of a record, and prices nothing."""
COMPACT = """
import sys
from datetime import UTC, datetime, timedelta
from workers.compaction import compact
for nights in range(1, 32):
    compact(sys.argv[1], datetime(2026, 10, 1, 2, tzinfo=UTC) + timedelta(days=nights))
"""


def run(rows: int = ROWS) -> dict[str, float | dict[str, Any]]:
    """The ratios of whole processes and of jobs in kept sessions, and what they were made of; seconds and megabytes."""
    took: dict[str, Timed] = {}
    kept: dict[str, list[Timed]] = {}
    with TemporaryDirectory(prefix="bench-pipeline-", dir=os.environ.get("BENCH_DIR")) as name:
        folder = Path(name)
        identities = ["random"] if os.environ.get("BENCH_IDS") == "random" else []
        printed("written", timed([sys.executable, "-c", GENERATE, str(rows), name, *identities]))
        size = sum(file.stat().st_size for file in folder.rglob("*.parquet"))
        took["full"] = printed("full run", _charges(folder, rows))
        if duck := duckdb_of(folder):
            took["duckdb"] = agreed(duck, folder)
        bare = timed([sys.executable, "-c", BARE, name], SPARK_DRIVER_MEMORY=_memory(rows))
        took["bare"] = printed("Spark alone, two queries", bare)
        kept["full_kept"] = _kept(folder, rows)
        _as_collected(folder)
        took["compaction"] = printed("compaction", timed([sys.executable, "-c", COMPACT, name]))
        took["compacted"] = printed("full run of the compacted month", _charges(folder, rows))
        if duck := duckdb_of(folder, "once"):
            took["duckdb_compacted"] = agreed(duck, folder)
        kept["compacted_kept"] = _kept(folder, rows)
        took["first_incremental"] = printed("first incremental run", _charges(folder, rows, "--incremental"))
        _change_a_day(folder, GROWN[0])
        took["one_day_changed"] = printed("one day changed", _charges(folder, rows, "--incremental"))
        kept["one_day_changed_kept"] = _kept(folder, rows, *GROWN[1:])
    figures: dict[str, Any] = {"rows": rows, "input_mb": round(size / 1e6)}
    for name, one in took.items():
        figures |= {f"{name}_s": one.seconds, f"{name}_cpu_s": one.cpu_s, f"{name}_peak_mb": one.peak_mb}
    for name, jobs in kept.items():
        figures |= {f"{name}_s": [job.seconds for job in jobs], f"{name}_cpu_s": [job.cpu_s for job in jobs]}
        figures[f"{name}_peak_mb"] = jobs[-1].peak_mb
    return _ratios(took | {name: jobs[-1] for name, jobs in kept.items()}) | {"figures": figures}


def _ratios(took: dict[str, Timed]) -> dict[str, Any]:
    """Those of COMPARED; without DuckDB none to it."""
    ratios: dict[str, Any] = {}
    for one, other in COMPARED:
        if other in took:
            ratios[f"{one} : {other}"] = round(took[one].seconds / took[other].seconds, 2)
            ratios[f"{one} : {other}, CPU time"] = round(took[one].cpu_s / took[other].cpu_s, 2)
    return ratios


def compared(spark: Timed, duck: Timed | None, folder: Path) -> dict[str, Any]:
    """The ratios of both, which have to agree; none without DuckDB."""
    if duck is None:
        return {}
    agreed(duck, folder)
    return {
        "spark : duckdb, whole process": round(spark.seconds / duck.seconds, 2),
        "spark : duckdb, CPU time": round(spark.cpu_s / duck.cpu_s, 2),
    }


def agreed(duck: Timed, folder: Path) -> Timed:
    """DuckDB's process, once its result is the pipeline's."""
    assert json.loads(duck.said) == _tiers(folder), "DuckDB and Spark disagree about the units in the tiers"
    return duck


def _charges(folder: Path, rows: int, *options: str) -> Timed:
    return timed(command(folder, *options), SPARK_DRIVER_MEMORY=_memory(rows))


def _kept(folder: Path, rows: int, *grown: str) -> list[Timed]:
    """Jobs one after another in a kept session: each computes the month anew, or adds to one of the `grown` days."""
    jobs: list[Timed] = []
    options = ["--incremental"] if grown else []
    with kept_session(SPARK_DRIVER_MEMORY=_memory(rows)) as session:
        for day in grown or [""] * KEPT_JOBS:
            if day:
                _change_a_day(folder, day)
            what = f"a kept session, job {len(jobs) + 1}{', one day changed' if day else ''}"
            jobs.append(printed(what, session.run(arguments(folder, *options))))
    return jobs


def command(folder: Path, *options: str) -> list[str]:
    """The job that computes the month in the folder, as a process of its own."""
    return [sys.executable, "-m", "pipeline.jobs.charges", *arguments(folder, *options)]


def arguments(folder: Path, *options: str) -> list[str]:
    return ["--month", MONTH, "--usage", str(folder), "--result", str(folder / "result.jsonl"), *options]


def _memory(rows: int) -> str:
    return "10g" if rows > 50_000_000 else "4g"


def _as_collected(folder: Path) -> None:
    """The rows in the order in which they come, and in files of the collector's form; others are not compacted."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from workers.usage import SCHEMA

    for day in folder.glob("usage/date=*"):
        written = list(day.iterdir())  # Hadoop's checksums among them
        files = [file for file in written if file.suffix == ".parquet"]
        rows = pa.concat_tables([pq.ParquetFile(file).read().cast(SCHEMA) for file in files]).sort_by("minute")
        for file in written:
            file.unlink()
        size = len(rows) // 24 + 1
        for hour in range(24):
            pq.write_table(rows.slice(hour * size, size), day / f"part-{hour}.parquet")


def _change_a_day(folder: Path, day_of_month: str) -> None:
    """One file more on one day: a hundredth of another's records, sent once more with a higher seq; the sums stay."""
    import pyarrow.parquet as pq

    from workers.record_ids import with_note
    from workers.usage import SCHEMA

    day = folder / "usage" / f"date={MONTH}-{day_of_month}"
    largest = max(day.glob("*.parquet"), key=lambda file: file.stat().st_size)
    table = pq.ParquetFile(largest).read().select(SCHEMA.names).cast(SCHEMA)
    some = table.slice(0, len(table) // 100)
    again = some.set_column(SCHEMA.get_field_index("seq"), "seq", [[2] * len(some)]).cast(SCHEMA)
    pq.write_table(with_note(again), day / "again.parquet")


def duckdb_of(folder: Path, *options: str) -> Timed | None:
    """The same month by DuckDB; nothing where it is not installed."""
    if subprocess.run([sys.executable, "-c", "import duckdb"], capture_output=True).returncode != 0:
        return None
    command = [sys.executable, "-m", "tests.benchmarks.duckdb_month", str(folder), str(folder / "duckdb-spill")]
    command += options
    return printed(" ".join(["DuckDB", *options]), timed(command))


def _tiers(folder: Path) -> list[list[Any]]:
    """The billable units of each scope and rule by tier, as the pipeline found them."""
    records = map(json.loads, (folder / "result.jsonl").read_text().splitlines())
    return sorted([one["scope"], one["rule"], one["tiers"]] for one in records if one["record"] == "invoice")


def growth(sizes: list[int]) -> dict[str, Any]:
    """Each size's figures; of two sizes, by how much the time of a full run grew."""
    runs = {f"{size:,} rows": run(size) for size in sizes}
    seconds = [found["figures"]["full_s"] for found in runs.values()]  # type: ignore[index]
    if len(seconds) < 2:
        return dict(runs)
    cpu = [found["figures"]["full_cpu_s"] for found in runs.values()]  # type: ignore[index]
    more = (sizes[-1] - sizes[0]) / 1_000_000
    return {
        "largest : smallest, time of a full run": round(seconds[-1] / seconds[0], 2),
        "CPU seconds of a million rows more": round((cpu[-1] - cpu[0]) / more, 2),
        **runs,
    }


if __name__ == "__main__":
    print(json.dumps(growth([int(size) for size in sys.argv[1:]] or [ROWS]), indent=2))
