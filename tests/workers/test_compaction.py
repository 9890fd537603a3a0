"""Small usage files become few: nothing is lost or counted twice, wherever the power fails."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from structlog.testing import capture_logs

from pairing.telemetry.metering import UsageRecord
from pipeline import schemas
from tests.selection import nightly
from tests.workers import killed_compaction
from tests.workers.killed_compaction import power_for
from workers import compaction, record_ids, usage

ROOT = Path(__file__).resolve().parents[2]
DAY = datetime(2026, 11, 2, tzinfo=UTC)
NOW = DAY + timedelta(days=1, hours=2)
A_DAY = timedelta(days=1)
FOLDER = "usage/date=2026-11-02"
FIRST = UsageRecord(
    record_id="r1", minute=DAY, scope="sub", pair="contoso", namespace="contoso", entity="orders", kind="send",
    reporter="host:1", seq=1, operations=1, messages=1, bytes=10, billing_units=1,
)  # fmt: skip


class Killed(BaseException):
    """The power failed."""


def collected(folder: Path, files: int = 4) -> None:
    """A day as the collector leaves it: a record a file, each file twice, and a correction of the first record."""
    for number in range(files):
        record = FIRST._replace(record_id=f"r{number}", minute=DAY + timedelta(minutes=number))
        usage.write([record], str(folder))
        usage.write([record], str(folder))
    usage.write([FIRST._replace(record_id="r0", seq=2, billing_units=7)], str(folder))


def named(minute: int, name: str = "x") -> UsageRecord:
    """A record whose id names its minute, as the library's do."""
    at = DAY + timedelta(minutes=minute)
    return FIRST._replace(record_id=f"contoso/host:1/{at:%Y%m%dT%H%M}/send/{name}", minute=at)


def merged_every_hour(folder: Path) -> None:
    """Three hours of a day, of two records each, as the running day is compacted."""
    for hour in range(1, 4):
        for number in range(2):
            usage.write([FIRST._replace(record_id=f"{hour}-{number}")], str(folder))
        for part in (folder / FOLDER).glob("part-*"):
            os.utime(part, (DAY.timestamp(), DAY.timestamp()))
        compaction.compact_today(str(folder), DAY + timedelta(hours=hour))
    for file in (folder / FOLDER).glob("compact-*"):
        os.utime(file, (DAY.timestamp(), DAY.timestamp()))


def names(folder: Path) -> list[str]:
    return sorted(path.name.split("-")[0] for path in (folder / FOLDER).glob("*.parquet") if path.name[0] != "_")


def rows(folder: Path) -> list[dict[str, Any]]:
    files = [path for path in (folder / FOLDER).glob("*.parquet") if path.name[0] != "_"]
    return [row for path in files for row in pq.ParquetFile(path).read().to_pylist()]


def facts(folder: Path) -> dict[str, int]:
    """What the pipeline counts: of each record_id the highest seq."""
    return {row["record_id"]: row["billing_units"] for row in sorted(rows(folder), key=lambda row: row["seq"])}


def test_a_day_that_is_over_becomes_one_file_without_copies(tmp_path: Path) -> None:
    collected(tmp_path)
    before = facts(tmp_path)
    assert compaction.compact(str(tmp_path), NOW) == 9
    assert names(tmp_path) == ["compact"]
    assert facts(tmp_path) == before == {"r0": 7, "r1": 1, "r2": 1, "r3": 1}
    assert sorted((row["record_id"], row["seq"]) for row in rows(tmp_path)) == [
        ("r0", 1), ("r0", 2), ("r1", 1), ("r2", 1), ("r3", 1),
    ]  # fmt: skip


def test_the_running_day_is_left_alone(tmp_path: Path) -> None:
    collected(tmp_path)
    assert compaction.compact(str(tmp_path), DAY + timedelta(hours=23)) == 0


def test_of_the_running_day_the_files_of_finished_hours_become_one(tmp_path: Path) -> None:
    now = DAY + timedelta(hours=9, minutes=20)
    collected(tmp_path)
    before = facts(tmp_path)
    parts = sorted((tmp_path / FOLDER).iterdir())
    for number, part in enumerate(parts):
        written = now.replace(minute=0) - timedelta(seconds=1 if number < 7 else 0)
        os.utime(part, (written.timestamp(), written.timestamp()))
    assert compaction.compact_today(str(tmp_path), now) == 7
    assert names(tmp_path) == ["compact", "part", "part"]
    assert facts(tmp_path) == before
    assert compaction.compact_today(str(tmp_path), now) == 0
    assert compaction.compact_today(str(tmp_path), NOW) == 0, "nothing was written today"


def test_a_second_time_changes_nothing_and_late_records_make_one_file_more(tmp_path: Path) -> None:
    collected(tmp_path)
    compaction.compact(str(tmp_path), NOW)
    before = rows(tmp_path)
    assert compaction.compact(str(tmp_path), NOW) == 0
    assert rows(tmp_path) == before
    for number in range(2):
        usage.write([FIRST._replace(record_id=f"late{number}")], str(tmp_path))
    assert compaction.compact(str(tmp_path), NOW + A_DAY) == 2
    assert names(tmp_path) == ["compact", "compact"]


def test_of_the_day_before_what_was_merged_every_hour_becomes_one_file(tmp_path: Path) -> None:
    merged_every_hour(tmp_path)
    usage.write([FIRST._replace(record_id="last")], str(tmp_path))
    assert names(tmp_path) == ["compact"] * 3 + ["part"]
    assert compaction.compact(str(tmp_path), NOW) == 4
    assert names(tmp_path) == ["compact"]
    assert len(rows(tmp_path)) == 7


def test_a_day_whose_night_was_missed_becomes_one_file_in_a_later_one(tmp_path: Path) -> None:
    merged_every_hour(tmp_path)
    assert compaction.compact(str(tmp_path), NOW + 3 * A_DAY) == 3
    assert names(tmp_path) == ["compact"]
    for number in range(2):
        usage.write([FIRST._replace(record_id=f"late{number}")], str(tmp_path))
    assert compaction.compact(str(tmp_path), NOW + 4 * A_DAY) == 2
    assert names(tmp_path) == ["compact", "compact"], "what came late was merged alone"


def test_of_a_day_of_several_files_each_minute_is_in_one_and_footers_say_that_no_record_is_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "ROWS_AT_ONCE", 6)
    for minute in range(0, 30, 2):  # as the collector writes: the last minutes, of which one was written before
        usage.write([named(minute), named(minute + 1), named(max(minute - 1, 0))], str(tmp_path))
    before = facts(tmp_path)
    assert compaction.compact(str(tmp_path), NOW) == 15
    assert facts(tmp_path) == before
    files = [pq.ParquetFile(path) for path in (tmp_path / FOLDER).glob("compact-*")]
    assert len(files) > 3
    minutes = [set(file.read(["minute"])["minute"].to_pylist()) for file in files]
    assert sum(map(len, minutes)) == len(set.union(*minutes)) == 30
    for file in files:
        note = file.metadata.metadata[record_ids.NOTE].decode()
        assert note == f"{record_ids.ONCE_EACH}, {file.metadata.num_rows} rows"
    assert compaction.compact(str(tmp_path), NOW + A_DAY) == 0


def test_a_file_that_cannot_be_read_for_once_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "ROWS_AT_ONCE", 6)
    read = pq.ParquetFile.read
    for failing in range(6):
        folder = tmp_path / str(failing)
        for minute in range(0, 12, 2):
            usage.write([named(minute), named(minute + 1), named(max(minute - 1, 0))], str(folder))
        before, reads = facts(folder), iter(range(99))

        def sometimes(*given: Any, failing: int = failing, reads: Iterator[int] = reads, **more: Any) -> Any:
            if next(reads) == failing:
                raise OSError(5, "Input/output error")
            return read(*given, **more)

        with monkeypatch.context() as disk:
            disk.setattr(pq.ParquetFile, "read", sometimes)
            compaction.compact(str(folder), NOW)
        assert next(reads) > failing
        assert facts(folder) == before, f"read {failing} fails"


def test_large_files_of_every_hour_are_cut_too_and_read_no_more_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "ROWS_AT_ONCE", 12)
    for hour in range(12):  # the last minute of each hour comes with the next one's
        records = [named(60 * hour + minute, f"{hour}") for minute in range(-1 if hour else 0, 10)]
        usage.write([*records, named(60 * hour + 59, f"{hour}")], str(tmp_path))
    before = facts(tmp_path)
    compaction.compact(str(tmp_path), NOW)
    assert facts(tmp_path) == before
    files = [pq.ParquetFile(path) for path in (tmp_path / FOLDER).glob("*.parquet")]
    minutes = [set(file.read(["minute"])["minute"].to_pylist()) for file in files]
    assert len(files) >= compaction.MANY
    assert sum(map(len, minutes)) == len(set.union(*minutes))
    monkeypatch.delattr(compaction, "_read")
    assert compaction.compact(str(tmp_path), NOW) == 0
    assert compaction.compact(str(tmp_path), NOW + A_DAY) == 0


def test_what_was_merged_every_hour_becomes_one_file_though_nothing_came_in_the_evening(tmp_path: Path) -> None:
    merged_every_hour(tmp_path)
    assert names(tmp_path) == ["compact"] * 3
    assert compaction.compact(str(tmp_path), NOW) == 3
    assert names(tmp_path) == ["compact"]


def test_a_portion_all_of_whose_minutes_the_next_one_has_is_no_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "ROWS_AT_ONCE", 10)
    usage.write([named(0, f"{n}") for n in range(4)], str(tmp_path))
    usage.write([named(n) for n in range(9)], str(tmp_path))
    assert compaction.compact(str(tmp_path), NOW) == 2
    assert names(tmp_path) == ["compact"]
    assert len(rows(tmp_path)) == 13


def test_a_minute_beyond_all_calendars_keeps_no_other_file_from_being_merged(tmp_path: Path) -> None:
    collected(tmp_path)
    rows_of = usage._table("usage", [FIRST])
    wild = pa.array([3 * 10**17], pa.int64()).cast(usage.SCHEMA.field("minute").type)
    odd = rows_of.set_column(1, usage.SCHEMA.field("minute"), wild)
    pq.write_table(odd, tmp_path / FOLDER / "part-odd.parquet")
    assert compaction.compact(str(tmp_path), NOW) == 10
    assert names(tmp_path) == ["compact"]


def test_files_that_all_span_the_day_are_merged_as_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "ROWS_AT_ONCE", 6)
    for minute in range(9):
        usage.write([named(0, f"a{minute}"), named(minute), named(1439, f"z{minute}")], str(tmp_path))
    before = facts(tmp_path)
    assert compaction.compact(str(tmp_path), NOW) == 8
    assert facts(tmp_path) == before
    assert len(rows(tmp_path)) == 27


def test_a_row_without_a_minute_is_kept_where_a_day_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "ROWS_AT_ONCE", 4)
    for minute in range(0, 12, 2):
        usage.write([named(minute), named(minute + 1)], str(tmp_path))
    for number, minute in enumerate((0, 3, 4, 11)):
        table = usage._table("usage", [named(minute)])
        without = [*table.to_pylist(), table.to_pylist()[0] | {"record_id": f"none-{minute}", "minute": None}]
        pq.write_table(pa.Table.from_pylist(without, usage.SCHEMA), tmp_path / FOLDER / f"part-{number}.parquet")
    before = facts(tmp_path)
    compaction.compact(str(tmp_path), NOW)
    assert facts(tmp_path) == before
    assert len(rows(tmp_path)) == len(before)


@pytest.mark.parametrize(
    ("ids", "note"),
    [
        (["contoso/host:1/20261102T0000/send/x", "contoso/host:1/20261102T0000/settle/x"], record_ids.ONCE_EACH),
        (["contoso/host:1/20261102T0000/send/x"] * 2, record_ids.NAME_THEIR_MINUTE),
        (["contoso/host:1/20261102T0000/send/x", None], record_ids.NAME_THEIR_MINUTE),
        (["contoso/host:1/20261102T0000/send/x", "contoso/host:1/20261102T0001/send/x"], None),
        (["contoso/host:1/20261102T0000/send/x", "0123abcd"], None),
        (["contoso/host/1/20261102T0000/send/x"], None),
    ],
)
def test_a_file_says_of_its_ids_what_is_found(tmp_path: Path, ids: list[str | None], note: str | None) -> None:
    usage.write([FIRST._replace(record_id=cast("str", each)) for each in ids], str(tmp_path))
    (part,) = (tmp_path / FOLDER).iterdir()
    said = (pq.read_metadata(part).metadata or {}).get(record_ids.NOTE)
    assert (said and said.decode()) == (note and f"{note}, {len(ids)} rows")


def test_a_minute_that_is_not_whole_is_not_named(tmp_path: Path) -> None:
    usage.write([named(3)._replace(minute=DAY + timedelta(minutes=3, seconds=30))], str(tmp_path))
    (part,) = (tmp_path / FOLDER).iterdir()
    assert record_ids.NOTE not in (pq.read_metadata(part).metadata or {})


def test_the_pipeline_reads_the_notes_of_the_files() -> None:
    notes = (record_ids.NOTE.decode(), record_ids.NAME_THEIR_MINUTE, record_ids.ONCE_EACH)
    assert notes == (schemas.NOTE, schemas.NAME_THEIR_MINUTE, schemas.ONCE_EACH)


def test_many_compacted_files_become_one_again(tmp_path: Path) -> None:
    for night in range(compaction.MANY):
        for number in range(2):
            usage.write([FIRST._replace(record_id=f"{night}-{number}")], str(tmp_path))
        compaction.compact(str(tmp_path), NOW + A_DAY)
    assert names(tmp_path) == ["compact"] * compaction.MANY
    compaction.compact(str(tmp_path), NOW + A_DAY)
    assert names(tmp_path) == ["compact"]
    assert len(rows(tmp_path)) == 2 * compaction.MANY


def test_files_of_others_and_broken_ones_stay_for_the_report_to_name(tmp_path: Path) -> None:
    collected(tmp_path)
    day = tmp_path / FOLDER
    (day / "part-broken.parquet").write_bytes(b"half a fi")
    (day / "part-empty.parquet").write_bytes(b"")
    pq.write_table(pa.table({"other": [1]}), day / "part-foreign.parquet")
    pq.write_table(
        pq.read_table(next(day.glob("part-*[0-9a-f].parquet")), schema=usage.SCHEMA), day / "by-hand.parquet"
    )
    compaction.compact(str(tmp_path), NOW)
    assert {"part-broken.parquet", "part-empty.parquet", "part-foreign.parquet", "by-hand.parquet"} < {
        path.name for path in day.iterdir()
    }


def test_a_file_with_a_flipped_bit_stays_and_does_not_keep_the_others_from_becoming_one(tmp_path: Path) -> None:
    collected(tmp_path)
    broken = sorted((tmp_path / FOLDER).glob("part-*.parquet"))[3]
    content = bytearray(broken.read_bytes())
    content[content.index(b"orders")] ^= 1
    broken.write_bytes(content)

    assert compaction.compact(str(tmp_path), NOW) == 8
    assert broken.read_bytes() == content
    assert names(tmp_path) == ["compact", "part"]


@pytest.mark.parametrize("error", [OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError])
def test_a_file_with_a_flipped_bit_in_its_footer_stays_whatever_arrow_says_of_it(
    tmp_path: Path, error: type[Exception]
) -> None:
    collected(tmp_path)
    broken = sorted((tmp_path / FOLDER).glob("part-*.parquet"))[3]
    content = next(each for each in with_flipped_bits(broken.read_bytes()) if error_of(each) is error)
    broken.write_bytes(content)

    with capture_logs() as logs:
        assert compaction.compact(str(tmp_path), NOW) == 8
    assert [entry["file"] for entry in logs if entry["log_level"] == "warning"] == [str(broken)]
    assert broken.read_bytes() == content
    assert names(tmp_path) == ["compact", "part"]


def with_flipped_bits(content: bytes) -> Iterator[bytes]:
    """The file, each time with another bit of its footer flipped."""
    length = int.from_bytes(content[-8:-4], "little")
    for place in range(len(content) - 8 - length, len(content)):
        for bit in range(8):
            yield content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]


def error_of(content: bytes) -> type[Exception] | None:
    """What Arrow raises of a file's footer."""
    try:
        pq.ParquetFile(pa.BufferReader(content))
    except Exception as error:
        return type(error)
    return None


def test_a_damaged_description_of_the_minutes_does_not_end_the_worker(tmp_path: Path) -> None:
    collected(tmp_path)
    broken = sorted((tmp_path / FOLDER).glob("part-*.parquet"))[3]
    content = bytearray(broken.read_bytes())
    of_the_minutes = content.rindex(b"minute", 0, content.index(b"ARROW:schema"))
    type_of_the_column = content.rindex(b"\x15\x04", 0, of_the_minutes) + 1
    content[type_of_the_column] ^= 1  # no type at all
    broken.write_bytes(content)

    after = subprocess.run([sys.executable, "-c", COMPACTING, str(tmp_path), NOW.isoformat()], cwd=ROOT, timeout=120)
    assert after.returncode == 0
    assert broken.read_bytes() == content
    assert names(tmp_path) == ["compact", "part"]


def test_a_store_that_refuses_a_file_ends_the_night_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected(tmp_path)
    before = facts(tmp_path)

    class Refusing:
        """A store in which folders can be listed, and files not opened."""

        get_file_info = staticmethod(pafs.LocalFileSystem().get_file_info)

        def open_input_file(self, path: str) -> pa.NativeFile:
            raise OSError(f"When reading information for key '{path}': AWS Error ACCESS_DENIED")

    monkeypatch.setattr(compaction, "_open", lambda _: (Refusing(), str(tmp_path)))
    with pytest.raises(OSError, match="ACCESS_DENIED"):
        compaction.compact(str(tmp_path), NOW)
    assert facts(tmp_path) == before


def test_a_file_named_like_a_day_is_left_alone_and_the_days_are_compacted(tmp_path: Path) -> None:
    collected(tmp_path)
    others = [tmp_path / "usage" / f"date=2026-11-0{day}{ending}" for day, ending in ((1, ".tar.gz"), (1, ""), (3, ""))]
    for other in others:
        other.write_bytes(b"an archive")
    assert compaction.days_with_new_files(str(tmp_path), NOW + A_DAY, {}) == [DAY.date()]
    assert compaction.compact_today(str(tmp_path), NOW) == 0, "of the running day there is only such a file"
    assert compaction.compact(str(tmp_path), NOW) == 9
    assert [other.read_bytes() for other in others] == [b"an archive"] * 3


def test_rows_without_an_identity_are_kept_as_often_as_they_came(tmp_path: Path) -> None:
    collected(tmp_path)
    nameless = [row | {"record_id": None} for row in rows(tmp_path)[:1]] * 2
    pq.write_table(pa.Table.from_pylist(nameless, usage.SCHEMA), tmp_path / FOLDER / "part-nameless.parquet")
    compaction.compact(str(tmp_path), NOW)
    assert sum(row["record_id"] is None for row in rows(tmp_path)) == 2


def test_peaks_of_connections_are_compacted_too(tmp_path: Path) -> None:
    for peak in (3, 3, 4):
        usage.write([FIRST._replace(kind="connections", entity="*", operations=peak)], str(tmp_path))
    assert compaction.compact(str(tmp_path), NOW) == 3
    (file,) = (tmp_path / "connections/date=2026-11-02").iterdir()
    assert sorted(row["peak"] for row in pq.ParquetFile(file).read().to_pylist()) == [3, 4]


COMPACTING = """
import os, sys
from datetime import datetime
from workers import compaction
before = len(os.listdir("/proc/self/task"))
compaction.compact(sys.argv[1], datetime.fromisoformat(sys.argv[2]))
print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted as Linux shows them")
def test_a_compaction_leaves_no_threads_behind_in_the_worker(tmp_path: Path) -> None:
    collected(tmp_path)
    argv = (sys.executable, "-c", COMPACTING, str(tmp_path), NOW.isoformat())
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split()[-1] == "0"
    assert names(tmp_path) == ["compact"]


def end() -> None:
    raise Killed


@pytest.mark.slow
@pytest.mark.parametrize("portions", ["one portion", *nightly("several portions")])
def test_whenever_it_is_killed_nothing_is_lost_and_the_next_night_ends_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, portions: str
) -> None:
    original = tmp_path / "original"
    collected(original, files=1)
    if portions == "several portions":
        monkeypatch.setattr(compaction, "ROWS_AT_ONCE", 6)
        for minute in range(6):
            usage.write([named(minute), named(minute + 1)], str(original))
    before = facts(original)
    shutil.copytree(original, tmp_path / "whole")
    with power_for(sys.maxsize, end) as seen:
        compaction.compact(str(tmp_path / "whole"), NOW)
    assert seen[0] > 50
    for steps in range(seen[0]):
        folder = tmp_path / str(steps)
        shutil.copytree(original, folder)
        with pytest.raises(Killed), power_for(steps, end):
            compaction.compact(str(folder), NOW)
        assert facts(folder) == before, f"after {steps} steps"
        compaction.compact(str(folder), NOW)
        compaction.compact(str(folder), NOW + timedelta(days=1))
        assert facts(folder) == before
        assert "part" not in names(folder) or names(folder).count("part") == 1
        shutil.rmtree(folder)


@pytest.mark.nightly
@pytest.mark.parametrize("each", range(8))
def test_a_real_process_that_is_killed_at_any_step_loses_nothing(tmp_path: Path, each: int) -> None:
    original = tmp_path / "original"
    collected(original, files=2)
    merged_every_hour(original)
    before = facts(original)
    shutil.copytree(original, tmp_path / "whole")
    with power_for(sys.maxsize, end) as seen:
        compaction.compact(str(tmp_path / "whole"), NOW)
    for steps in range(each, seen[0], 8):
        folder = tmp_path / str(steps)
        shutil.copytree(original, folder)
        killed = [sys.executable, "-m", killed_compaction.__name__, str(folder), NOW.isoformat(), str(steps)]
        assert subprocess.run(killed, cwd=ROOT, check=False).returncode == -signal.SIGKILL
        assert facts(folder) == before, f"after {steps} steps"
        compaction.compact(str(folder), NOW + A_DAY)
        assert facts(folder) == before
        assert names(folder) in (["compact"], ["compact", "part"]), f"after {steps} steps"
        shutil.rmtree(folder)


@pytest.mark.parametrize("day", [DAY, NOW])
@pytest.mark.parametrize("name", ["_tmp-compact-1.parquet", "_tmp-part-1.parquet"])
def test_what_a_killed_writer_left_unfinished_goes_an_hour_later(tmp_path: Path, name: str, day: datetime) -> None:
    collected(tmp_path)
    left = tmp_path / f"usage/date={day:%Y-%m-%d}" / name
    left.parent.mkdir(exist_ok=True)
    left.write_bytes(b"half a fi")
    os.utime(left, (NOW.timestamp(), NOW.timestamp()))
    compaction.compact(str(tmp_path), NOW + compaction.ABANDONED)
    assert left.exists()
    compaction.compact(str(tmp_path), NOW + compaction.ABANDONED + timedelta(seconds=1))
    assert not left.exists()


def test_a_compaction_killed_with_its_file_half_written_leaves_nothing_the_next_run_does_not_remove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected(tmp_path)

    def die(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as power:
        power.setattr("workers.compaction.os.fsync", die)
        with pytest.raises(Killed):
            compaction.compact(str(tmp_path), NOW)
    assert [path.name[:12] for path in (tmp_path / FOLDER).glob("_*")] == ["_tmp-compact"]
    compaction.compact(str(tmp_path), datetime.now(UTC) + 2 * compaction.ABANDONED)
    assert names(tmp_path) == ["compact"]
    assert not list((tmp_path / FOLDER).glob("_*"))
