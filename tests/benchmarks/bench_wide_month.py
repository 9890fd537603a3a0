"""Months with many rows of the report: 10,000 entities with 40 kinds each, beside one entity with as many records.

A record is one per entity, kind and day, each month as many: `wide`, `scopes` (the same on 1,000 billing scopes),
`skewed` (one entity has nine tenths of the records, a tenth of the others the rest) and `narrow` (one entity has all).
There are eleven kinds of operations, so that “40 kinds” are ten of them in four namespaces: 40 rows of the report for
each entity. Whole processes are measured: the job that computes the month, also beside DuckDB, then the command that
stores its result in an empty database.

    python -m tests.benchmarks.bench_wide_month [entities [days [month …]]]

By `make bench` there are BENCH_ENTITIES (10,000) on 31 days: 12.4 million records and 150 MB for each month.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.benchmarks.bench_pipeline import MONTH, compared, duckdb_of
from tests.benchmarks.processes import Timed, printed, timed

ENTITIES = int(os.environ.get("BENCH_ENTITIES", 10_000))
DAYS = 31
KINDS = 40
MONTHS = {"wide": 5, "scopes": 1_000, "skewed": 5, "narrow": 5}
"""The months, and the number of billing scopes of each."""

GENERATE = textwrap.dedent("""
    import sys
    from pipeline.usage.spark import build_session
    month, folder = sys.argv[1], sys.argv[2]
    entities, days, scopes = map(int, sys.argv[3:])
    spark = build_session("generate")
    rows, a_day = entities * {kinds} * days, entities * {kinds}
    weight = min(max(500_000 * scopes // rows, 1), 400)  # so that a scope reaches tiers with a price
    kinds = ("array('send', 'receive', 'settle', 'receive_empty', 'send_backlog', 'syphon_receive', 'syphon_send', "
             "'syphon_settle', 'ping', 'manage')")
    entity = {{"narrow": "0", "skewed": "if(n % 10 = 0, n, 0)"}}.get(month, "n")
    is_one = {{"narrow": "true", "skewed": "n % 10 > 0"}}.get(month, "false")
    frame = spark.range(0, rows, 1, days).selectExpr(
        "id", f"cast(id div {{a_day}} as int) as day", "cast(id % {kinds} as int) as k",
        f"cast(id % {{a_day}} div {kinds} as int) as n", "xxhash64(id) as h",
    ).selectExpr(
        "id", "h", "day", f"element_at({{kinds}}, k % 10 + 1) as kind", f"{{entity}} as e",
        f"if({{is_one}}, n % 1440, cast(pmod(h, 1440L) as int)) as at", f"if({{is_one}}, n div 1440, 0) as process",
        "concat('contoso-', k div 20) as pair",
        "concat('contoso-', k div 20, if(k div 10 % 2 = 1, '-dr', '')) as namespace",
    ).selectExpr(
        "h", "kind", "pair", "namespace", "concat('orders/', e) as entity",
        f"concat('scope-', e % {{scopes}}) as scope",
        "timestamp '{month}-01' + make_interval(0, 0, 0, day, 0, at) as minute",
        "concat('host-', process, ':4711:0123abcd') as reporter",
        f"{{weight}} * (1 + pmod(h, 200L)) * (1 + e % {{scopes}} % 4) as operations",
    ).selectExpr(
        "concat_ws('/', pair, reporter, replace(date_format(minute, 'yyyyMMdd HHmm'), ' ', 'T'), kind, namespace, "
        "entity) as record_id",
        "minute", "scope", "pair", "namespace", "entity", "kind", "reporter", "1L as seq", "operations",
        "0L as messages", "pmod(h, 200000L) as bytes", "operations + pmod(h, 3L) as billing_units",
        "date_format(minute, 'yyyy-MM-dd') as date",
    )
    frame.write.option("compression", "zstd").partitionBy("date").parquet(f"{{folder}}/usage")
""").format(month=MONTH, kinds=KINDS)


def run(entities: int = ENTITIES, days: int = DAYS, months: Sequence[str] = tuple(MONTHS)) -> dict[str, Any]:
    """How long each month takes compared with one entity's, and the figures."""
    figures = {month: _measured(month, entities, days) for month in months}
    ratios: dict[str, Any] = {"records": entities * KINDS * days}
    for month in months:
        for what in ("computed", "stored"):
            for unit in ("s", "cpu_s"):
                name = f"{what}_{unit}"
                if month != "narrow" and "narrow" in figures and figures["narrow"][name]:
                    ratios[f"{month} : narrow, {name}"] = round(figures[month][name] / figures["narrow"][name], 2)
    return ratios | {"figures": figures}


def _measured(month: str, entities: int, days: int) -> dict[str, Any]:
    with TemporaryDirectory(prefix="bench-wide-", dir=os.environ.get("BENCH_DIR")) as name:
        folder = Path(name)
        numbers = [str(entities), str(days), str(MONTHS[month])]
        printed(f"{month}, written", timed([sys.executable, "-c", GENERATE, month, name, *numbers]))
        computed = printed(f"{month}, computed", _computed(folder))
        stored = printed(f"{month}, stored", _stored(folder))
        beside = compared(computed, duckdb_of(folder), folder)
        lines = sum(line.startswith('{"record": "line"') for line in (folder / "result.jsonl").open())
    return {
        "rows": lines,
        "computed_s": computed.seconds,
        "computed_cpu_s": computed.cpu_s,
        "computed_peak_mb": computed.peak_mb,
        "stored_s": stored.seconds,
        "stored_cpu_s": stored.cpu_s,
        "stored_peak_mb": stored.peak_mb,
        **beside,
    }


def _computed(folder: Path) -> Timed:
    result = ["--result", str(folder / "result.jsonl")]
    command = [sys.executable, "-m", "pipeline.jobs.charges", "--month", MONTH, "--usage", str(folder), *result]
    return timed(command)


def _stored(folder: Path) -> Timed:
    database = {"DATABASE_URL": f"sqlite:///{folder / 'control.db'}", "USAGE_DIR": str(folder), "PAIRS_FILE": ""}
    timed([sys.executable, "manage.py", "migrate"], **database)
    command = [sys.executable, "manage.py", "compute_charges", "--store", str(folder / "result.jsonl")]
    return timed(command, **database)


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:3]] + [ENTITIES, DAYS][len(sys.argv[1:3]) :]
    print(json.dumps(run(*numbers, months=sys.argv[3:] or tuple(MONTHS)), indent=2))
