"""Usage records become files with the columns of docs/contract.md, section 5, durably and with their billing scope."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import redis

from pairing.fleet.coordination import SharedState
from pairing.telemetry.metering import UsageRecord
from tests.pace import eventually
from tests.workers.test_streams import read_one
from workers import collectors, slices, usage
from workers.streams import Reader

MINUTE = datetime(2026, 11, 30, 23, 59, tzinfo=UTC)
RECORD = UsageRecord(
    record_id="contoso/host:1:abcdef01/20261130T2359/send/contoso/orders",
    minute=MINUTE,
    scope="contoso",
    pair="contoso",
    namespace="contoso",
    entity="orders",
    kind="send",
    reporter="host:1:abcdef01",
    seq=1,
    operations=3,
    messages=2,
    bytes=700,
    billing_units=2,
)


@pytest.fixture(autouse=True)
def files_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests are about files; what is stored for the pages is tested in test_collectors.py."""
    monkeypatch.setattr(collectors.LiveUsage, "add", lambda *_: None)


def rows(folder: Path) -> list[dict[str, object]]:
    return ds.dataset(folder / "usage", partitioning="hive", format="parquet").to_table().to_pylist()


def test_a_record_comes_back_from_its_file_as_it_was(tmp_path):
    usage.write([RECORD], str(tmp_path))
    (row,) = rows(tmp_path)
    assert {name: row[name] for name in RECORD._fields} == RECORD._asdict()


def test_each_day_has_its_own_folder(tmp_path):
    usage.write([RECORD, RECORD._replace(minute=datetime(2026, 12, 1, tzinfo=UTC))], str(tmp_path))
    assert sorted(path.name for path in (tmp_path / "usage").iterdir()) == ["date=2026-11-30", "date=2026-12-01"]


def test_columns_have_the_types_that_the_pipeline_reads(tmp_path):
    (file,) = usage.write([RECORD], str(tmp_path))
    types = {field.name: str(field.type) for field in pq.read_schema(file)}
    longs = dict.fromkeys(("seq", "operations", "messages", "bytes", "billing_units"), "int64")
    texts = ("record_id", "scope", "pair", "namespace", "entity", "kind", "reporter")
    assert types == longs | dict.fromkeys(texts, "string") | {"minute": "timestamp[us, tz=UTC]"}


def test_a_file_that_could_not_be_finished_is_never_read(tmp_path, monkeypatch):
    def power_fails(_: int) -> None:
        raise SystemExit("power")

    monkeypatch.setattr(usage.os, "fsync", power_fails)
    with pytest.raises(SystemExit, match="power"):
        usage.write([RECORD], str(tmp_path))
    assert all(path.name.startswith("_") for path in tmp_path.rglob("*.parquet"))


def test_a_disk_that_is_full_is_not_filled_further_by_attempts(tmp_path, monkeypatch):
    def disk_is_full(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(usage.os, "fsync", disk_is_full)
    with pytest.raises(OSError, match="disk full"):
        usage.write([RECORD], str(tmp_path))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_the_peak_of_a_processs_connections_has_a_folder_of_its_own(tmp_path):
    hour = datetime(2026, 11, 30, 23, tzinfo=UTC)
    peak = RECORD._replace(record_id="peak", minute=hour, scope="north", entity="*", kind="connections", operations=7)
    usage.write([RECORD, peak], str(tmp_path))
    assert len(rows(tmp_path)) == 1
    (file,) = (tmp_path / "connections" / "date=2026-11-30").iterdir()
    assert pq.ParquetFile(file).read().to_pylist() == [
        {"hour": hour, "scope": "north", "namespace": "contoso", "peak": 7, "reporter": RECORD.reporter}
    ]


def test_an_object_store_is_named_by_its_url(tmp_path):
    usage.write([RECORD], tmp_path.as_uri())
    assert len(rows(tmp_path)) == 1


@pytest.mark.parametrize(
    ("pair", "namespace", "scope"),
    [("contoso", "contoso", "north"), ("contoso", "contoso-dr", "south"), ("fabrikam", "fabrikam", "fabrikam")],
    ids=["the primary's subscription", "the secondary's subscription", "an unknown pair keeps its name"],
)
def test_the_billing_scope_is_the_subscription(pair, namespace, scope, pairs):
    (record,) = usage.with_scopes([RECORD._replace(pair=pair, namespace=namespace, scope=pair)], pairs)
    assert record.scope == scope


def test_records_are_acknowledged_only_once_their_file_is_there(fleet, pairs, settings, tmp_path, monkeypatch):
    settings.USAGE_DIR = str(tmp_path)
    monkeypatch.setattr(collectors, "pairs", lambda: pairs)
    SharedState(fleet, "contoso").record_usage([RECORD])
    reader = Reader(fleet, "pairing:usage", "record", "test")
    entries = read_one(reader)
    with monkeypatch.context() as broken:
        broken.setattr(usage, "write", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
        collectors.save_usage(reader, entries)
    assert "disk full" in collectors.usage_problems[collectors.USAGE_PROBLEM]
    assert fleet.xlen("pairing:usage") == 1
    collectors.save_usage(reader, entries)
    assert not collectors.usage_problems
    assert fleet.xlen("pairing:usage") == 0
    assert [row["scope"] for row in rows(tmp_path)] == ["north"]


@pytest.fixture
def collecting(
    fleet: redis.Redis, pairs: object, settings: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], None]]:
    """Starts a collector that would write after 45 s; it is asked to stop afterwards."""
    settings.USAGE_DIR, settings.USAGE_FLUSH_S = str(tmp_path), 45
    monkeypatch.setattr(collectors, "pairs", lambda: pairs)
    thread = threading.Thread(target=collectors.collect_usage)
    yield thread.start
    eventually(lambda: "usage" in slices._running or not thread.is_alive())
    stop_it()
    thread.join(60)
    assert not thread.is_alive()


def stop_it() -> None:
    if stop := slices._running.get("usage"):
        stop.set()


def report(fleet: redis.Redis, count: int) -> None:
    SharedState(fleet, "contoso").record_usage(RECORD._replace(record_id=str(n)) for n in range(count))


def written(folder: Path) -> int:
    return len(rows(folder)) if (folder / "usage").exists() else 0


def test_a_file_is_written_as_soon_as_much_is_held(collecting, fleet, tmp_path, monkeypatch):
    monkeypatch.setattr(collectors, "MAX_HELD", 100)
    report(fleet, 100)
    collecting()
    eventually(lambda: written(tmp_path) == 100)
    eventually(lambda: fleet.xlen("pairing:usage") == 0)


def test_what_a_collector_holds_is_written_when_it_is_asked_to_stop(collecting, fleet, tmp_path):
    report(fleet, 7)
    collecting()
    eventually(lambda: fleet.exists("pairing:usage") and pending(fleet) == 7)
    assert written(tmp_path) == 0
    stop_it()
    eventually(lambda: written(tmp_path) == 7)
    eventually(lambda: fleet.xlen("pairing:usage") == 0)


def pending(fleet: redis.Redis) -> int:
    groups = fleet.xinfo_groups("pairing:usage")
    return int(groups[0]["pending"]) if groups else 0
