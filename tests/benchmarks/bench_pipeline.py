"""The month's charges on Spark, whole process, beside DuckDB (two threads) with the same checks and deduplication.

Rows with the contract's columns, one for each minute, entity, kind and process, with the identities the library gives
them (BENCH_IDS=random: random ones), a thousandth of them repeated, are written once to a temporary folder (in
BENCH_DIR), as another writer would: both look for repeated records everywhere. The same month is then compacted, as it
is every night, so that neither looks for them any longer, nor do incremental runs. CPU times beside the seconds tell
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
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

MONTH, DAYS = "2026-10", 31
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


COMPACT = """
import sys
from datetime import UTC, datetime, timedelta
from workers.compaction import compact
for nights in range(1, 32):
    compact(sys.argv[1], datetime(2026, 10, 1, 2, tzinfo=UTC) + timedelta(days=nights))
"""


def run(rows: int = ROWS) -> dict[str, float | dict[str, Any]]:
    """The ratios of whole processes, and what they were made of; seconds and megabytes."""
    with TemporaryDirectory(prefix="bench-pipeline-", dir=os.environ.get("BENCH_DIR")) as name:
        folder = Path(name)
        identities = ["random"] if os.environ.get("BENCH_IDS") == "random" else []
        printed("written", timed([sys.executable, "-c", GENERATE, str(rows), name, *identities]))
        size = sum(file.stat().st_size for file in folder.rglob("*.parquet"))
        full = printed("full run", _charges(folder, rows))
        duck = duckdb_of(folder)
        ratios = compared(full, duck, folder)
        _as_collected(folder)
        compaction = printed("compaction", timed([sys.executable, "-c", COMPACT, name]))
        compacted = printed("full run of the compacted month", _charges(folder, rows))
        duck_compacted = duckdb_of(folder, "once")
        of_compacted = compared(compacted, duck_compacted, folder)
        first = printed("first incremental run", _charges(folder, rows, "--incremental"))
        _change_a_day(folder)
        again = printed("one day changed", _charges(folder, rows, "--incremental"))
    figures: dict[str, Any] = {
        "rows": rows,
        "input_mb": round(size / 1e6),
        "full_s": full.seconds,
        "full_cpu_s": full.cpu_s,
        "full_peak_mb": full.peak_mb,
        "compaction_cpu_s": compaction.cpu_s,
        "compacted_s": compacted.seconds,
        "compacted_cpu_s": compacted.cpu_s,
        "compacted_peak_mb": compacted.peak_mb,
        "first_incremental_s": first.seconds,
        "one_day_changed_s": again.seconds,
        "one_day_changed_cpu_s": again.cpu_s,
    }
    ratios |= {f"compacted, {name}": ratio for name, ratio in of_compacted.items()}
    ratios |= {
        "compacted : as written, CPU time": round(compacted.cpu_s / full.cpu_s, 3),
        "one changed day : full run": round(again.seconds / full.seconds, 3),
        "one changed day : full run, CPU time": round(again.cpu_s / full.cpu_s, 3),
    }
    if duck is not None:
        figures |= {"duckdb_s": duck.seconds, "duckdb_cpu_s": duck.cpu_s, "duckdb_peak_mb": duck.peak_mb}
    if duck_compacted is not None:
        figures |= {"duckdb_compacted_s": duck_compacted.seconds, "duckdb_compacted_cpu_s": duck_compacted.cpu_s}
    return ratios | {"figures": figures}


def compared(spark: Timed, duck: Timed | None, folder: Path) -> dict[str, Any]:
    """The ratios of both, which have to agree; none without DuckDB."""
    if duck is None:
        return {}
    assert json.loads(duck.said) == _tiers(folder), "DuckDB and Spark disagree about the units in the tiers"
    return {
        "spark : duckdb, whole process": round(spark.seconds / duck.seconds, 2),
        "spark : duckdb, CPU time": round(spark.cpu_s / duck.cpu_s, 2),
    }


class Timed:
    """A process that ended well: how long it took, the memory and CPU time of it and its children, its last line."""

    def __init__(self, seconds: float, watched: Watched, said: str) -> None:
        self.seconds, self.said = round(seconds, 1), said
        self.peak_mb, self.cpu_s = sum(watched.peaks.values()) // 1024, round(sum(watched.cpu.values()), 1)


def printed(what: str, timed: Timed) -> Timed:
    """At once, so that an hour's figures are not lost with its last one."""
    print(f"{what}: {timed.seconds} s, {timed.cpu_s} s of CPU time, {timed.peak_mb} MB", file=sys.stderr, flush=True)
    return timed


class Watched:
    """The peak resident memory (kB) and CPU time (s) of a process and its descendants, by process id."""

    def __init__(self) -> None:
        self.peaks: dict[int, int] = {}
        self.cpu: dict[int, float] = {}

    def look(self, pid: int) -> None:
        for child in _family(pid):
            self.peaks[child] = max(self.peaks.get(child, 0), _peak_kb(child))
            self.cpu[child] = max(self.cpu.get(child, 0.0), _cpu_s(child))


def timed(command: list[str], **environment: str) -> Timed:
    begun = time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **environment}
    ) as process:
        over, watched = Event(), Watched()
        watch = Thread(target=_watch, args=(process.pid, over, watched))
        watch.start()
        said = process.communicate()[0].strip().splitlines()
        over.set()
        watch.join()
    assert process.returncode == 0, said[-1:] or command
    return Timed(time.monotonic() - begun, watched, said[-1] if said else "")


def _watch(pid: int, over: Event, watched: Watched) -> None:
    while not over.wait(0.25):
        watched.look(pid)


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
    return timed([*command, *options], SPARK_DRIVER_MEMORY=memory)


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


def _change_a_day(folder: Path) -> None:
    """One file more on one day: a hundredth of another's records, sent once more with a higher seq; the sums stay."""
    import pyarrow.parquet as pq

    from workers.record_ids import with_note
    from workers.usage import SCHEMA

    day = folder / "usage" / f"date={MONTH}-15"
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
