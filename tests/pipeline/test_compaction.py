"""Small files of past days are merged; no row is lost or made twice, whatever happens meanwhile."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline.schemas import CONNECTIONS, USAGE
from pipeline.usage import compaction
from pipeline.usage.compaction import compact
from pipeline.usage.folder import UsageFolder
from tests.pipeline.conftest import write_table
from tests.pipeline.test_charges_on_spark import OCTOBER, record

DAY = OCTOBER.start
NOW = DAY + timedelta(days=1, hours=2)
FOLDER = f"usage/date={DAY:%Y-%m-%d}"


def collect(usage: Path, *numbers: int) -> None:
    """A small file for each number, with a record of its own and one that all have."""
    for number in numbers:
        rows = [record(str(number), DAY + timedelta(minutes=number)), record("of all")]
        write_table(usage / FOLDER / f"part-{number}.parquet", rows, USAGE)


def merged(usage: Path, now: datetime = NOW) -> int:
    return compact(UsageFolder.of(str(usage)), now)


def names(usage: Path) -> list[str]:
    return sorted(path.name.partition("-")[0] for path in (usage / FOLDER).iterdir())


def rows(usage: Path) -> Counter[str]:
    """How often each record is there, by what readers read."""
    files = [path for path in (usage / FOLDER).glob("*.parquet") if not path.name.startswith("_")]
    return Counter(row for path in files for row in pq.ParquetFile(path).read(["record_id"])["record_id"].to_pylist())


def test_a_day_that_is_over_becomes_one_file_also_after_a_missed_night_and_with_late_records(usage: Path) -> None:
    collect(usage, *range(9))
    peak = {"hour": DAY, "scope": "sub", "namespace": "contoso", "peak": 3}
    for number in range(2):
        write_table(usage / f"connections/date={DAY:%Y-%m-%d}/part-{number}.parquet", [peak], CONNECTIONS)
    before = rows(usage)
    assert merged(usage, DAY + timedelta(hours=23)) == 0, "the day is not over"
    assert merged(usage, NOW + timedelta(days=9)) == 9 + 2
    assert (names(usage), rows(usage)) == (["compact"], before)
    collect(usage, 10, 11)
    assert (merged(usage), merged(usage), names(usage)) == (2, 0, ["compact", "compact"])


def test_many_rows_become_several_files(usage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "ROWS_AT_ONCE", 6)
    collect(usage, *range(7))
    before = rows(usage)
    assert merged(usage) == 6
    assert (names(usage), rows(usage)) == (["compact", "compact", "part"], before)


def test_files_of_others_and_damaged_files_are_left_alone(usage: Path) -> None:
    collect(usage, *range(4))
    day = usage / FOLDER
    write_table(day / "foreign.parquet", [record("foreign")], USAGE)
    write_table(day / "part-other.parquet", [record("x") | {"more": 1}], USAGE | {"more": "long"})
    (day / "part-no.parquet").write_bytes(b"no Parquet")
    (day / "part-folder.parquet").mkdir()
    pq.write_table(pq.read_table(day / "part-0.parquet"), day / "part-0.parquet", write_page_checksum=True)
    flipped = bytearray((day / "part-0.parquet").read_bytes())
    flipped[40] ^= 1
    (day / "part-0.parquet").write_bytes(flipped)
    (usage / "usage" / "date=2026-10-01.tar").write_bytes(b"an archive of the day")
    assert merged(usage) == 3
    left = {path.name for path in day.iterdir() if not path.name.startswith("compact-")}
    expected = {"foreign", "part-other", "part-no", "part-folder", "part-0"}
    assert left == {f"{name}.parquet" for name in expected}


def test_unfinished_files_of_killed_writers_are_deleted_after_an_hour(usage: Path) -> None:
    collect(usage, 1)
    old, fresh = (usage / FOLDER / f"_tmp-{name}.parquet" for name in ("old", "fresh"))
    for path, age in ((old, 2), (fresh, 0.5)):
        path.write_bytes(b"half")
        at = (NOW - timedelta(hours=age)).astimezone(UTC).timestamp()
        os.utime(path, (at, at))
    merged(usage)
    assert (old.exists(), fresh.exists()) == (False, True)


class PowerFailure(BaseException):
    pass


@contextmanager
def power_for(steps: int) -> Iterator[list[int]]:
    """Raises PowerFailure at the compaction's line of that number; the list tells how many there were."""
    seen = [0]

    def each(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != compaction.__file__:
            return None
        if event == "line":
            seen[0] += 1
            if seen[0] > steps:
                raise PowerFailure
        return each

    before = sys.gettrace()
    sys.settrace(each)
    try:
        yield seen
    finally:
        sys.settrace(before)


def test_a_compaction_that_is_killed_at_any_step_loses_nothing_and_is_made_good_by_the_next(usage: Path) -> None:
    collect(usage, *range(3))
    before = rows(usage)
    with power_for(10_000) as seen:
        merged(usage)
    for steps in range(seen[0]):
        for path in (usage / FOLDER).iterdir():
            path.unlink()
        collect(usage, *range(3))
        with suppress(PowerFailure), power_for(steps):
            merged(usage)
        found = rows(usage)
        assert found.keys() == before.keys(), steps
        assert all(before[name] <= count <= 2 * before[name] for name, count in found.items()), steps
        merged(usage)
        assert rows(usage).keys() == before.keys()
        assert names(usage).count("part") <= 1
