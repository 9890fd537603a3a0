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
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from pipeline.errors import FilesChangedError, UnreadableFilesError
from pipeline.schemas import KEY, SUMS, USAGE, ddl
from pipeline.usage.checks import usage_reason
from pipeline.usage.files import SourceFile, place_of

MICROS = {"minute": 60_000_000, "hour": 3_600_000_000, "day": 86_400_000_000}
OF_ALL = ("read", "misplaced")
"""Sums of all good rows, copies included: their number, and that of those in the folder of another day."""
IDENTITY = ("day", "record_id")
MOST_OF_AN_ID, EXAMPLES = 200, 20


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

    Of two with one seq but different content the greater one in column order counts, so that reruns agree.
    """

    def __init__(
        self,
        spark: SparkSession,
        root: str,
        files: Sequence[SourceFile],
        days: Collection[int],
        not_after: datetime | None,
    ) -> None:
        self.files, self.days = files, days
        self.rows = _read(spark, root, files)
        self.reason = usage_reason(not_after)
        self.is_good = self.reason.isNull() & F.col("day").isin(*days)
        # Eight bytes of each row are shuffled, not the row. Only rows whose hash is there twice are compared, and held
        # before they are checked: Spark would check all rows first.
        hashed = self.rows.withColumn("h", F.xxhash64(*IDENTITY))
        repeated = hashed.select("h").repartition("h").groupBy("h").count().where("count > 1").select("h").cache()
        has_copies = not repeated.isEmpty()
        held = hashed.join(repeated, "h", "left_semi").cache()
        self.suspects = held.where(self.is_good).cache() if has_copies else None

    def sums(self, time: str, hours: Collection[int] = ()) -> pa.Table:
        """The sums by KEY and `time` (`hour` or `minute`), of all hours or of these."""
        is_counted = self.is_good & _is_in(hours) if hours else self.is_good
        summed = _summed(self.rows.where(is_counted), time)
        if self.suspects is not None:
            suspects, winners = self.suspects, _winners(self.suspects)
            if hours:
                suspects, winners = suspects.where(_is_in(hours)), winners.where(_is_in(hours))
            for part in (_summed(suspects, time, sign=-1), _summed(winners, time, sign=1)):
                summed = summed.unionByName(part)
            summed = summed.groupBy(*KEY, time).agg(*(F.sum(name).alias(name) for name in (*SUMS, *OF_ALL)))
        return summed.toArrow()

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


def _winners(rows: DataFrame) -> DataFrame:
    """The row of each record that counts."""
    others = [name for name in (*USAGE, "hour", "date") if name not in ("record_id", "seq")]
    best = rows.groupBy(*IDENTITY).agg(F.max(F.struct("seq", *others)).alias("row"))
    return best.select("day", "row.*")


def _read(spark: SparkSession, root: str, files: Sequence[SourceFile]) -> DataFrame:
    """The rows of the files, with the `date` of their folder, and the `day` and `hour` of their minute."""
    frames = [
        _frame(spark, root, [file.name for file in files if file.in_nanoseconds == unit], in_nanoseconds=unit)
        for unit in (False, True)
        if any(file.in_nanoseconds == unit for file in files)
    ]
    whole = {name: F.expr(f"unix_micros(minute) div {MICROS[name]}") for name in ("day", "hour")}
    return reduce(DataFrame.unionByName, frames).withColumns(whole)


def _frame(spark: SparkSession, root: str, names: Sequence[str], *, in_nanoseconds: bool) -> DataFrame:
    columns = USAGE | ({"minute": "long"} if in_nanoseconds else {})
    frame = spark.read.schema(ddl(columns)).option("basePath", root).parquet(*(f"{root}/{name}" for name in names))
    return frame.withColumn("minute", F.expr("timestamp_micros(minute div 1000)")) if in_nanoseconds else frame


def _is_in(hours: Collection[int]) -> Column:
    """Whether the minute is in one of the hours, as a condition that Parquet can skip rows by."""
    minute = F.col("minute")
    begins = [datetime.fromtimestamp(hour * 3600, UTC) for hour in sorted(hours)]
    each = ((minute >= F.lit(begin)) & (minute < F.lit(begin + timedelta(hours=1))) for begin in begins)
    return reduce(or_, each)


def _is_misplaced() -> Column:
    return F.coalesce(F.col("day") != F.unix_date("date"), F.lit(False))


def _summed(rows: DataFrame, time: str, sign: int = 0) -> DataFrame:
    """The sums of rows that are to be added (or, `sign` -1, taken off); only without a sign `OF_ALL` are counted."""
    counted = {"rows": F.lit(1), "read": F.lit(1), "misplaced": _is_misplaced().cast("int")}
    values = {name: counted.get(name, F.col(name)) for name in (*SUMS, *OF_ALL)}
    if sign:
        values |= {name: values[name] * sign for name in SUMS} | dict.fromkeys(OF_ALL, F.lit(0))
    at = F.col("hour") if time == "hour" else F.expr(f"unix_micros(minute) div {MICROS[time]}")
    return rows.groupBy(*KEY, at.alias(time)).agg(*(F.sum(value).alias(name) for name, value in values.items()))


def _name(row: Row) -> str:
    """The name of a file in a path from Spark, which is percent-encoded."""
    return place_of(unquote(row["file"]))
