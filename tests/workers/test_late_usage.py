"""Records that come late are noted, priced by a run whatever the date, and shown until then."""

import os
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.costs.late_usage import forget_late_days, late_days, months_with_late_usage, note_late_days
from dashboard.models import ChargeRun
from workers import compaction, pipeline

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
SEPTEMBER = date(2026, 9, 28)


def test_only_past_days_are_noted_and_a_run_that_began_later_forgets_them() -> None:
    note_late_days([SEPTEMBER, SEPTEMBER, NOW.date(), NOW.date() - timedelta(days=1)], NOW)
    assert months_with_late_usage() == ["2026-09", "2026-11"]
    forget_late_days("2026-09", NOW)
    assert late_days("2026-09") == [SEPTEMBER], "it may have been written after the run had looked"
    note_late_days([SEPTEMBER], NOW + timedelta(minutes=5))
    forget_late_days("2026-09", NOW + timedelta(minutes=1))
    assert late_days("2026-09") == [SEPTEMBER]
    forget_late_days("2026-09", NOW + timedelta(minutes=6))
    assert (late_days("2026-09"), months_with_late_usage()) == ([], ["2026-11"])


def test_the_nightly_run_computes_months_with_late_records_after_its_own() -> None:
    note_late_days([SEPTEMBER, NOW.date() - timedelta(days=1)], NOW)
    assert pipeline.months_to_compute(NOW) == ["2026-11", "2026-09"]
    assert pipeline.months_to_compute(datetime(2026, 10, 1, tzinfo=UTC)) == ["2026-09", "2026-10", "2026-11"]


def test_compaction_finds_days_in_which_a_file_appeared_that_it_did_not_write(tmp_path: Path) -> None:
    def put(kind: str, day: str, name: str, age: timedelta) -> None:
        path = tmp_path / kind / day / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
        at = (NOW - age).timestamp()
        os.utime(path, (at, at))

    fresh, old = timedelta(hours=3), timedelta(days=3)
    put("usage", "date=2026-09-28", "import.parquet", fresh)
    put("usage", "date=2026-09-29", "part-1.parquet", old)
    put("usage", "date=2026-09-30", "compact-1.parquet", fresh)
    put("usage", "date=2026-09-27", "_tmp-part-1.parquet", fresh)
    put("usage", "date=2026-11-21", "part-2.parquet", fresh)
    put("usage", "date=someday", "part-3.parquet", fresh)
    put("connections", "date=2026-08-01", "part-4.parquet", fresh)
    assert sorted(compaction.days_with_new_files(str(tmp_path), NOW, {})) == [date(2026, 8, 1), SEPTEMBER]
    for ago, found in ((timedelta(days=4), [SEPTEMBER, date(2026, 9, 29)]), (timedelta(days=2), [SEPTEMBER])):
        computed = {"2026-09": NOW - ago}
        assert sorted(compaction.days_with_new_files(str(tmp_path), NOW, computed)) == [date(2026, 8, 1), *found]


def test_late_files_are_priced_also_after_a_night_that_was_missed(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.USAGE_DIR = str(tmp_path)
    late = tmp_path / "usage" / "date=2026-09-28" / "import.parquet"
    late.parent.mkdir(parents=True)
    late.write_bytes(b"x")
    now = datetime.now(UTC)
    written = (now - timedelta(days=3)).timestamp()
    os.utime(late, (written, written))
    monkeypatch.setattr(pipeline, "takes_tick", lambda task: True)
    for ago, noted in ((timedelta(days=2), []), (timedelta(days=40), [SEPTEMBER])):
        ChargeRun.objects.all().delete()
        run = {"month": "2026-09", "status": "succeeded", "heard_at": now}
        ChargeRun.objects.create(**run, started_at=now - ago, details={"late_days": []})
        ChargeRun.objects.create(**run, started_at=now)  # of another folder
        pipeline.compact()
        assert late_days("2026-09") == noted
