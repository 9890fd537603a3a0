"""What the control plane tells the pipeline beside the usage: tiers, regions, depths; and who may keep the hours."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dashboard.costs.runs.charges import ChargesRequest, compute_month, depths_for
from dashboard.costs.runs.inputs import namespaces
from dashboard.costs.runs.jobs import JobFailed
from dashboard.costs.runs.storing import store
from dashboard.models import BacklogQueue, BacklogRollup, ChargeRun, DepthSample, PairDepth
from tests.dashboard.costs.test_costs import RUN
from tests.dashboard.results import result_of

pytestmark = pytest.mark.django_db
MONTH = "2026-11"
NOW = datetime(2026, 11, 2, 3, 0, tzinfo=UTC)
PAIRS = """
[pairs.contoso]
primary = { fully_qualified_namespace = "contoso.servicebus.windows.net", region = "westeurope", subscription = "s1" }
bandwidth_per_gb = 0.05
[pairs.contoso.secondary]
fully_qualified_namespace = "dr.servicebus.windows.net"
region = "northeurope"
tier = "premium"
messaging_units = 2
"""


def reported(arguments: list[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in Path(arguments[1]).read_text().splitlines()]


def test_tiers_messaging_units_and_regions_of_the_pairs_file_reach_the_job(settings, tmp_path):
    settings.PAIRS_FILE = tmp_path / "pairs.toml"
    assert namespaces() == []
    settings.PAIRS_FILE.write_text(PAIRS)
    assert namespaces() == [
        {"record": "namespace", "name": "contoso", "scope": "s1", "tier": "standard", "messaging_units": 1},
        {"record": "namespace", "name": "dr", "scope": "contoso", "tier": "premium", "messaging_units": 2},
        {"record": "crossing", "pair": "contoso", "per_gigabyte": 0.05, "meter": ""},
    ]
    settings.PAIRS_FILE.write_text(PAIRS.replace("northeurope", "WestEurope"))
    assert [record["record"] for record in namespaces()] == ["namespace", "namespace"]


def test_a_pairs_file_that_cannot_be_read_stops_the_run(settings, tmp_path):
    settings.PAIRS_FILE = tmp_path / "pairs.toml"
    settings.PAIRS_FILE.write_text("[pairs]")
    with pytest.raises(JobFailed, match="PAIRS_FILE cannot be used, so tiers and regions are not known"):
        compute_month(ChargesRequest(month=MONTH))
    assert ChargeRun.objects.get().status == ChargeRun.Status.FAILED


def test_samples_of_the_month_and_of_single_queues_since_yesterday_reach_the_job(pair, tmp_path):
    queue = BacklogQueue.objects.create(pair=pair, path="x-0", seen_at=NOW)
    for days in (0, 1, 2):
        at = NOW - timedelta(days=days)
        PairDepth.objects.create(pair=pair, at=at, messages=days)
        DepthSample.objects.create(queue=queue, at=at, active=days, scheduled=5)
    found = reported(depths_for(tmp_path, MONTH, NOW))
    assert sorted((each["queue"], each["messages"]) for each in found) == [("*", 0), ("*", 1), ("x-0", 5), ("x-0", 6)]


def run(status: str = "running", minutes_ago: int = 0) -> ChargeRun:
    heard = datetime.now(UTC) - timedelta(minutes=minutes_ago)
    return ChargeRun.objects.create(month=MONTH, status=status, started_at=heard, heard_at=heard)


def rollup(deepest: int, day: int = 1) -> dict[str, object]:
    begins = f"2026-11-{day:02d}T00:00:00+00:00"
    period = {"pair": "contoso", "queue": "*", "begins_at": begins, "is_day": True, "samples": 9, "p50": 1, "p95": 2}
    return {"record": "rollup", **period, "deepest": deepest}


def test_rollups_replace_their_own_periods_and_leave_those_whose_samples_are_gone(tmp_path):
    for records in ([rollup(5, 1), rollup(6, 2)], [rollup(9, 2)]):
        store(run(), result_of(tmp_path, [RUN | {"month": MONTH}, *records]))
    assert list(BacklogRollup.objects.values_list("begins_at__day", "deepest")) == [(1, 5), (2, 9)]
