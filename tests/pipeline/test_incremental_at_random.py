"""Files that come late, repeat, correct, change and go: an incremental run comes to what a full run comes to."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline.schemas import USAGE
from tests.pipeline.conftest import write_table
from tests.pipeline.test_charges_on_spark import MILLION, OCTOBER, as_of_many_rows, computed, record
from tests.pipeline.test_incremental import kept_in_brief

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
DAYS = [OCTOBER.start + timedelta(days=n) for n in (0, 1, 8, 20)]
CHANGES = ("late", "late", "late", "repeated", "corrected", "corrected", "deleted", "replaced", "moved", "moved")
CHANGES_A_RUN = 2


class Collector:
    """The files of some days; what happens to them is chance."""

    def __init__(self, usage: Path, random: Random) -> None:
        self.usage, self.random = usage, random
        self.numbers = count()
        self.files: dict[Path, list[dict[str, Any]]] = {}

    def change(self, what: str, day: datetime) -> None:
        place = self.usage / "usage" / f"date={day.date()}"
        known = [path for path in self.files if path.parent == place]
        new = place / f"{next(self.numbers)}.parquet"
        some = self.random.sample([row for path in known for row in self.files[path]], 2) if known else []
        match what:
            case "repeated" if known:
                self._write(new, some)
            case "corrected" if known:
                self._write(new, [row | self._counts() | {"seq": row["seq"] + 1} for row in some])
            case "moved":
                others = [row for path, rows in self.files.items() if path.parent != place for row in rows]
                moved = {"minute": day, "seq": self.random.randrange(3)}
                self._write(new, [row | self._counts() | moved for row in self.random.sample(others, 2)])
            case "deleted" if known:
                path = self.random.choice(known)
                path.unlink()
                del self.files[path]
            case "replaced" if known:
                path = self.random.choice(known)
                self._write(path, [*self.files[path][1:], self._fact(day)])
            case _:
                self._write(new, [self._fact(day) for _ in range(4)])

    def _write(self, path: Path, rows: list[dict[str, Any]]) -> None:
        self.files[path] = rows
        write_table(path, rows, USAGE)

    def _fact(self, day: datetime) -> dict[str, Any]:
        minute = day + timedelta(hours=self.random.randrange(2), minutes=self.random.randrange(2))
        kind, entity = self.random.choice(["send", "settle", "receive"]), self.random.choice(["orders", "payments"])
        return record(str(next(self.numbers)), minute, kind=kind, entity=entity) | self._counts()

    def _counts(self) -> dict[str, int]:
        units = self.random.randrange(MILLION)
        return {"operations": units, "billing_units": units}


@pytest.mark.nightly
@pytest.mark.parametrize("are_many", [False, True], ids=["few rows", "many rows"])
def test_whatever_becomes_of_the_files_the_kept_sums_are_those_of_all_of_them(
    spark: SparkSession, usage: Path, monkeypatch: pytest.MonkeyPatch, are_many: bool
) -> None:
    if are_many:
        as_of_many_rows(monkeypatch)
    random = Random(4711)
    collector = Collector(usage, random)
    for day in DAYS:
        collector.change("late", day)
    changes = [*CHANGES]
    random.shuffle(changes)
    while True:
        assert computed(spark, usage, incremental=True) == computed(spark, usage)
        kept_in_brief(spark, usage)
        if not changes:
            break
        for day in random.sample(DAYS, CHANGES_A_RUN):
            collector.change(changes.pop(), day)
