"""Sums of usage records by hour or minute, each fact once, on Spark.

Times are whole numbers of minutes, hours and days since 1970.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from pipeline.errors import FilesChangedError, UnreadableFilesError
from pipeline.schemas import KEY, SUMS, USAGE, ddl
from pipeline.usage.checks import COUNTS, is_none_of, of_id, of_key, of_row, usage_reason
from pipeline.usage.files import SourceFile, place_of

MICROS = {"minute": 60_000_000, "hour": 3_600_000_000, "day": 86_400_000_000}
OF_ALL = ("read", "misplaced")
"""Sums of all good rows, copies included: their number, and that of those in the folder of another day."""
NUMBERS = (*SUMS, *OF_ALL)
IDENTITY = ("day", "record_id")
MOST_OF_AN_ID, EXAMPLES = 200, 20
PARTS = 8
"""A power of two."""


@dataclass(frozen=True, slots=True)
class Odd:
    """Rows of a file that do not count: bad ones, with the `reason`, or good ones of a `day` that is not summed; and
    those that lie in the folder of another day.
    """

    file: str
    day: int | None
    reason: str | None
    rows: int


class Records:
    """The good records of some days in some files, each once: of rows of one day with one id the highest seq counts.

    Of two with one seq but different content the greater one in column order counts, so that reruns agree. Those of
    minutes from `until` on have no hour and no minute in the sums.
    """

    def __init__(
        self,
        spark: SparkSession,
        root: str,
        files: Sequence[SourceFile],
        days: Collection[int],
        not_after: datetime | None,
        until: datetime | None = None,
    ) -> None:
        self.files, self.days, self.until = files, days, until
        self.rows = _read(spark, root, files)
        self.reason = usage_reason(not_after)
        # Eight bytes of each row are counted here, which takes Spark three times as long; only rows whose hash is there
        # twice are compared. Of rows without an id there is none; where all have one, ids are not read again.
        hash_of = F.when(F.col("record_id").isNotNull(), F.xxhash64(*IDENTITY))
        hashed = self.rows.withColumn("h", hash_of)
        hashes = hashed.select("h").toArrow()
        of_ids = of_id() if hashes["h"].null_count else ()
        self.is_good = is_none_of([*of_ids, *of_row(not_after)]) & F.col("day").cast("int").isin(*days)
        repeated = spark.createDataFrame(_repeated(hashes))
        suspects = hashed.join(repeated, "h", "left_semi").withColumn("is_good", self.is_good & is_none_of(of_key()))
        self.superseded = _superseded(suspects).cache()

    def sums(self, time: str, hours: Collection[int] = ()) -> pa.Table:
        """The sums by KEY and `time` (`hour` or `minute`), of all hours or of these."""
        is_counted = _is_in(hours) if hours else F.lit(True)
        of_all = {"rows": F.lit(1), "read": F.lit(1), "misplaced": _is_misplaced().cast("int")}
        sums = self._summed(self.rows.where(self.is_good & is_counted).withColumns(of_all), time)
        # Without a sum in the condition, Spark would ask it of each row.
        sums = sums.where(F.when(F.col("rows") > 0, is_none_of(of_key())))
        sums = sums.unionByName(self._summed(self.superseded.where(is_counted), time))
        added = sums.toArrow().group_by([*KEY, time], use_threads=False).aggregate([(name, "sum") for name in NUMBERS])
        return added.rename_columns([*KEY, time, *NUMBERS])

    def _summed(self, rows: DataFrame, time: str) -> DataFrame:
        at = F.expr(f"unix_micros(minute) div {MICROS[time]}")
        at = F.when(F.col("minute") < F.lit(self.until), at) if self.until else at
        return rows.groupBy(*KEY, at.alias(time)).agg(*(F.sum(name).alias(name) for name in NUMBERS))

    def odd(self) -> list[Odd]:
        """The rows that are bad, of a day that is not summed, or in the folder of another day than theirs."""
        bad = self._odd_rows().groupBy("file", "day", "reason").count().collect()
        return [Odd(_name(row), row["day"], row["reason"], row["count"]) for row in bad]

    def examples(self) -> list[dict[str, str]]:
        """Some of the bad rows: their `date`, `record_id`, `file` and `reason`."""
        record_id = F.substring("record_id", 1, MOST_OF_AN_ID).alias("record_id")
        some = self._odd_rows().where("reason is not null").limit(EXAMPLES)
        columns = (F.col("date").cast("string"), record_id, "file", "reason")
        return [row.asDict() for row in some.select(*columns).collect()]

    def _odd_rows(self) -> DataFrame:
        rows = self.rows.withColumn("reason", self.reason)
        is_odd = F.col("reason").isNotNull() | _is_misplaced() | ~F.col("day").isin(*self.days)
        return rows.where(is_odd).withColumn("file", F.input_file_name())

    def require_all(self, found: int) -> None:
        """Raises UnreadableFilesError where other rows were `found` than the footers of the files say."""
        if found == sum(file.rows for file in self.files):
            return
        named = self.rows.select(F.input_file_name().alias("file")).groupBy("file").count().collect()
        counted = {_name(row): row["count"] for row in named}
        liars = {
            file.name: f"says it has {file.rows} rows and has {counted.get(file.name, 0)}"
            for file in self.files
            if file.rows != counted.get(file.name, 0)
        }
        raise UnreadableFilesError(liars) if liars else FilesChangedError("A usage file")


def _repeated(hashes: pa.Table) -> pa.Table:
    """The hashes that are there more than once, found by PARTS: what is known of one stays in the processor's cache."""
    part_of = pc.bit_wise_and(hashes["h"], PARTS - 1)
    parts = (hashes.filter(pc.equal(part_of, part)) for part in range(PARTS))
    counts = (part.group_by("h", use_threads=False).aggregate([([], "count_all")]) for part in parts)
    repeated = pa.concat_tables(count.filter(pc.field("count_all") > 1) for count in counts)
    return repeated.select(["h"]).combine_chunks()  # Spark reads as far as the first empty chunk


def _superseded(rows: DataFrame) -> DataFrame:
    """The good rows of each record but the one that counts, as they are taken off the sums."""
    order = [F.col(name).desc() for name in ("is_good", "seq", *USAGE)]
    place = F.row_number().over(Window.partitionBy(*IDENTITY).orderBy(*order))
    taken = {name: -F.col(name) for name in COUNTS} | {"rows": F.lit(-1)} | dict.fromkeys(OF_ALL, F.lit(0))
    return rows.withColumn("place", place).where("is_good and place > 1").withColumns(taken)


def _read(spark: SparkSession, root: str, files: Sequence[SourceFile]) -> DataFrame:
    """The rows of the files, with the `date` of their folder, and the `day` of their minute."""
    frames = [
        _frame(spark, root, [file.name for file in files if file.in_nanoseconds == unit], in_nanoseconds=unit)
        for unit in (False, True)
        if any(file.in_nanoseconds == unit for file in files)
    ]
    return reduce(DataFrame.unionByName, frames).withColumn("day", F.expr(f"unix_micros(minute) div {MICROS['day']}"))


def _frame(spark: SparkSession, root: str, names: Sequence[str], *, in_nanoseconds: bool) -> DataFrame:
    columns = USAGE | ({"minute": "long"} if in_nanoseconds else {})
    frame = spark.read.schema(ddl(columns)).option("basePath", root).parquet(*(f"{root}/{name}" for name in names))
    return frame.withColumn("minute", F.expr("timestamp_micros(minute div 1000)")) if in_nanoseconds else frame


def _is_in(hours: Collection[int]) -> Column:
    """Whether the minute is in one of the hours, as a condition that Parquet can skip rows by."""
    begins = [datetime.fromtimestamp(hour * 3600, UTC) for hour in sorted(hours)]
    return reduce(or_, (F.col("minute").between(begin, begin + timedelta(minutes=59)) for begin in begins))


def _is_misplaced() -> Column:
    return F.coalesce(F.col("day") != F.unix_date("date"), F.lit(False))


def _name(row: Row) -> str:
    """The name of a file in a path from Spark, which is percent-encoded."""
    return place_of(unquote(row["file"]))
