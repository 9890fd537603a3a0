"""Usage files never stop silently: what waits for too long is an alert with its cause (docs/alerts.md)."""

import logging
from datetime import UTC, datetime, timedelta

import pytest

from dashboard.alerts.watching.conditions_now import unwritten
from dashboard.fleet.state import projection
from pairing.telemetry.metering import UsageRecord
from workers import collectors
from workers.collectors import usage_problems

NOW = datetime.now(UTC)
USAGE = UsageRecord("r", NOW, "s", "contoso", "contoso", "orders", "send", "host:1:aaaa", 1, 1, 1, 1, 1)
KEY = "usage:*:*"


@pytest.fixture(autouse=True)
def no_problem_yet(monkeypatch):
    usage_problems.clear()
    monkeypatch.setattr(collectors, "pairs", dict)
    yield
    usage_problems.clear()


def wait_for(redis_here, minutes: float) -> None:
    at_ms = int((NOW - timedelta(minutes=minutes)).timestamp() * 1000)
    redis_here.xadd("pairing:usage", {"record": USAGE.to_json()}, id=f"{at_ms}-0")


def test_usage_that_waits_for_a_moment_is_none(db, redis_here):
    assert list(unwritten([], NOW)) == []
    wait_for(redis_here, 4)
    assert list(unwritten([], NOW)) == []


def test_usage_that_waits_for_long_is_an_alert_that_names_the_missing_worker(db, redis_here):
    wait_for(redis_here, 6)
    [found] = unwritten([], NOW)
    assert (found.key, found.kind, found.severity) == (KEY, "usage", "critical")
    assert "1 records wait since" in found.detail
    assert "No worker serves the queue collectors" in found.detail


def test_the_alert_gives_the_reason_that_a_worker_reports(db, redis_here):
    wait_for(redis_here, 6)
    projection.record_heartbeat("one@host", "collectors", NOW, {"usage": "The disk is full."})
    [found] = unwritten([], NOW)
    assert found.detail.endswith("The disk is full.")
    projection.record_heartbeat("one@host", "collectors", NOW, {})
    [found] = unwritten([], NOW)
    assert "Workers report no problem" in found.detail


def test_an_open_alert_stays_open_while_redis_is_away(db, redis_away):
    assert [found.key for found in unwritten([KEY], NOW)] == [KEY]
    assert list(unwritten([], NOW)) == []


def test_an_expired_tick_is_no_line_of_the_log():
    assert not logging.getLogger("celery.worker.request").isEnabledFor(logging.INFO)
