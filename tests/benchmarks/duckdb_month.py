"""What `bench_pipeline.py` compares Spark with: a month's units in their price tiers, under both counting rules, by
DuckDB with two threads.

The checks are the pipeline's, and so is its way with copies: eight bytes of each record_id are counted, and only rows
whose hash occurs twice are looked at. Each row is then placed in the tiers: hours that lie in one tier as a whole, and
the hours in which a tier begins row by row.

    python -m tests.benchmarks.duckdb_month FOLDER SPILL
"""

import json
import sys

import duckdb

from pipeline.jobs.prices import SAMPLE_PRICES
from pipeline.months import Month
from pipeline.prices import read_prices
from pipeline.schemas import KINDS, LARGEST_MESSAGE_BYTES, MOST, MOST_UNITS, RULES, SETTLEMENTS, TRANSFERS

KEY = "scope, pair, namespace, entity, kind"
COUNTS = ("operations", "messages", "bytes", "billing_units")

VALID = f"""
    select * from (
        select * replace (make_timestamp(epoch_us(minute)) as minute) -- DuckDB asks for the time zone of each row else
        from read_parquet('{{folder}}/usage/date=*/*.parquet', hive_partitioning = true))
    where record_id is not null and minute is not null and scope is not null and pair is not null
    and namespace is not null and entity is not null and kind is not null and reporter is not null and seq is not null
    and operations >= 0 and messages >= 0 and bytes >= 0 and billing_units >= 0
    and kind in {KINDS} and not (kind in {TRANSFERS} and billing_units < messages)
    and strlen(scope) <= 200 and strlen(pair) <= 63 and strlen(namespace) <= 260 and strlen(entity) <= 300
    and not contains(scope, chr(0)) and not contains(pair, chr(0)) and not contains(namespace, chr(0))
    and bytes // {LARGEST_MESSAGE_BYTES} <= greatest(messages, operations)
    and greatest(operations, messages, bytes, billing_units) <= {MOST}
    and billing_units <= {MOST_UNITS} * greatest(messages, operations)
    and date_trunc('day', minute) = date::timestamp and date_trunc('minute', minute) = minute
"""
SUMS = f"""
    sum(operations) as operations, sum(messages) as messages, sum(bytes) as bytes,
    sum(case when kind in {SETTLEMENTS} then 0 else billing_units end) as published,
    sum(billing_units) as settlements, count(*) as rows
"""
MADE = ("operations", "messages", "bytes", *RULES, "rows")


def statements(folder: str, starts: list[int]) -> list[str]:
    """The month in SQL; `month` is the table of the report's rows."""
    repeated = "select hash(record_id, date) as h from valid group by h having count(*) > 1"
    suspects = "valid where hash(record_id, date) in (select h from hashes)"
    signed = ", ".join(f"-{name} as {name}" for name in MADE)
    summed = ", ".join(f"sum({name}) as {name}" for name in MADE)
    by_hour = f"select {KEY}, date_trunc('hour', minute) as hour, {SUMS} from {{rows}} group by all"
    by_minute = f"""
        select {KEY}, minute, hour, {SUMS} from (select *, date_trunc('hour', minute) as hour from {{rows}})
        semi join split using (scope, hour) group by all"""
    return [
        f"create view valid as {VALID.format(folder=folder)}",
        f"create table hashes as {repeated}",
        f"create table suspects as select * from {suspects}",
        f"""create table winners as select unnest(row) from (
            select max(struct_pack(seq, minute, {KEY}, {", ".join(COUNTS)})) as row
            from suspects group by record_id, date)""",
        f"""create table hours as select {KEY}, hour, {summed} from (
            {by_hour.format(rows="valid")}
            union all select {KEY}, hour, {signed} from ({by_hour.format(rows="suspects")})
            union all {by_hour.format(rows="winners")}) group by all""",
        f"""create table ladder as
            select *, {_tier("first", starts)} as lowest, {_tier("first + used - 1", starts)} as highest
            from (select *, sum(used) over (partition by rule, scope order by hour) - used as first from (
                unpivot (select scope, hour, sum(published) as published, sum(settlements) as settlements
                         from hours group by all)
                on published, settlements into name rule value used) where used > 0)""",
        f"""create table whole as select {KEY}, rule, units, lowest as tier from (
            unpivot (select {KEY}, hour, published, settlements from hours)
            on published, settlements into name rule value units) join ladder using (rule, scope, hour)
            where lowest = highest and units > 0""",
        "create table split as select * from ladder where lowest < highest",
        f"""create table minutes as select {KEY}, minute, hour, {summed} from (
            {by_minute.format(rows="valid")}
            union all select {KEY}, minute, hour, {signed} from ({by_minute.format(rows="suspects")})
            union all {by_minute.format(rows="winners")}) group by all""",
        f"""create table parted as select {KEY}, rule, units,
            first + sum(units) over (partition by rule, scope, hour
                                     order by minute, namespace, entity, kind, pair rows unbounded preceding) as top
            from (unpivot (select {KEY}, minute, hour, published, settlements from minutes)
                  on published, settlements into name rule value units)
            join split using (rule, scope, hour)""",
        f"create table month as select {KEY}, rule, {_tiers(starts)} from (select *, null as top from whole "
        "union all by name select *, null as tier from parted) group by all",
    ]


def _tier(unit: str, starts: list[int]) -> str:
    return f"len(list_filter({starts}, lambda start : {unit} >= start)) - 1"


def _tiers(starts: list[int]) -> str:
    parts = []
    for number, (start, end) in enumerate(zip(starts, (*starts[1:], None), strict=True)):
        highest = "top" if end is None else f"least(top, {end})"
        inside = f"case when top is null then (case when tier = {number} then units else 0 end) else "
        parts.append(f"sum({inside} greatest(0, {highest} - greatest(top - units, {start})) end) as tier_{number}")
    return ", ".join(parts)


def main(folder: str, spill: str) -> None:
    """Print the invoices' units by tier as JSON, and how many rows the report has under each rule."""
    starts = list(read_prices(SAMPLE_PRICES, Month.parse("2026-10"), None).operations.starts)
    base = duckdb.connect(config={"threads": 2, "temp_directory": spill, "preserve_insertion_order": False})
    base.execute("set TimeZone = 'UTC'")
    base.execute("set enable_progress_bar = false")  # it would be written among the results
    for statement in statements(folder, starts):
        base.execute(statement)
    sums = ", ".join(f"sum(tier_{number})" for number in range(len(starts)))
    rows = base.execute(f"select scope, rule, {sums} from month group by all order by all").fetchall()
    print(json.dumps([[scope, rule, list(map(int, tiers))] for scope, rule, *tiers in rows]))


if __name__ == "__main__":
    main(*sys.argv[1:])
