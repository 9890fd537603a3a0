"""Depths of backlogs by hour and day: real samples, and a day's percentiles from its samples."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pipeline.backlog import Rollup, read_samples, rollups

BEGIN = datetime(2026, 10, 1, tzinfo=UTC)


def test_an_hour_and_a_day_show_the_deepest_the_middle_and_the_95th_of_their_samples(tmp_path: Path) -> None:
    first = [(timedelta(minutes=n), n + 1) for n in range(10)]  # 1 … 10
    second = [(timedelta(hours=5, minutes=n), 100) for n in range(2)]
    samples = [
        {"pair": "contoso", "queue": "*", "at": (BEGIN + since).isoformat(), "messages": messages}
        for since, messages in [*first, *second]
    ]
    path = tmp_path / "depths.jsonl"
    path.write_text("\n".join(map(json.dumps, samples)))
    known = {"pair": "contoso", "queue": "*"}
    assert rollups(read_samples(path)) == [
        Rollup(**known, begins_at=BEGIN, is_day=False, samples=10, deepest=10, p50=5, p95=10),
        Rollup(**known, begins_at=BEGIN, is_day=True, samples=12, deepest=100, p50=6, p95=100),
        Rollup(**known, begins_at=BEGIN + timedelta(hours=5), is_day=False, samples=2, deepest=100, p50=100, p95=100),
    ]
