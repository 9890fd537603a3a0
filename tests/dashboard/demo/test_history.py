"""The simulated past of the demo: always the same, shaped like a real one, and recognisable wherever it appears."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow.parquet as pq
import pytest

from dashboard.demo import configuration
from dashboard.demo.history import usage
from dashboard.demo.history.loading import WORKER, load
from dashboard.demo.history.plan import DAYS, INCIDENTS, MARK, SIMULATION, by_hour, history
from dashboard.demo.history.scenery import ENTITIES, LIVE_PAIR, OTHER_PAIR, SUBSCRIPTION
from dashboard.fleet.pairs.pairs_file import load_pairs
from dashboard.fleet.pairs.sync import sync
from dashboard.fleet.state.outages import outages
from dashboard.incidents.finding import find
from dashboard.incidents.story import story
from dashboard.metrics import exposition
from dashboard.models import (
    Alert,
    AuditEntry,
    DepthPeak,
    EntityHealth,
    FailoverEvent,
    PairDepth,
    SyphonLedger,
    WaitingSample,
)
from tests.dashboard.markup import one_line
from workers import usage as collectors

pytestmark = pytest.mark.slow

NOW = datetime(2026, 11, 22, 18, 20, 41, tzinfo=UTC)
STORED = (Alert, AuditEntry, DepthPeak, FailoverEvent, PairDepth, SyphonLedger, WaitingSample)
LOCAL = "Endpoint=sb://127.0.0.1:{};SharedAccessKeyName=k;SharedAccessKey=s;UseDevelopmentEmulator=true;"


@pytest.fixture(scope="module")
def past():
    return history(NOW)


@pytest.fixture(scope="module")
def rows(past):
    """All rows of usage."""
    return list(usage.rows(past))


def test_the_same_minute_has_the_same_past(past):
    assert history(NOW) == history(NOW.replace(second=3)) == past


def test_sixty_days_have_five_incidents_of_different_kinds(past):
    assert past.end - past.begin >= timedelta(days=DAYS)
    assert len({incident.reason for incident in INCIDENTS}) == len(past.incidents()) == 5
    for one in past.outages:
        assert past.begin < one.failing_at <= one.failed_over_at < one.recovered_at < one.drained_at < past.end


def test_traffic_has_a_daily_rhythm_and_quiet_weekends():
    monday = datetime(2026, 11, 16, tzinfo=UTC)
    week = [count for _, count in by_hour(ENTITIES[0], monday, monday + timedelta(days=7))]
    day, sunday = week[:24], week[-24:]

    assert max(day) > 4 * min(day)
    assert day.index(max(day)) in range(8, 17)
    assert sum(sunday) < 0.75 * sum(day)


def test_no_message_is_lost_in_the_usage(past, rows):
    """What is diverted comes home."""
    for kind in ("send_backlog", "syphon_receive", "syphon_send", "syphon_settle"):
        moved = Counter()
        for row in rows:
            if row.kind == kind:
                moved[row.pair] += row.operations
        for pair in (LIVE_PAIR, OTHER_PAIR):
            diverted = sum(one.diverted for one in past.outages if one.entity.pair == pair)
            assert moved[pair] == diverted, (kind, pair)


def test_the_files_have_the_columns_of_the_collectors(past, tmp_path):
    assert (collectors.SCHEMA, collectors.PEAKS) == (usage.SCHEMA, usage.PEAKS)
    short = replace(past, begin=NOW.replace(hour=0, minute=0, second=0), outages=())

    usage.write(short, tmp_path)

    (file,) = (tmp_path / "usage" / "date=2026-11-22").iterdir()
    found = pq.ParquetFile(file).read().to_pylist()
    assert len(found) == len({row["record_id"] for row in found}) == 18 * 40 * 3
    assert {(row["reporter"], row["scope"]) for row in found} == {(SIMULATION, SUBSCRIPTION)}


def test_the_stored_past_is_recognisable_and_folds_into_the_planned_outages(past, db, tmp_path, monkeypatch, settings):
    """One test, since to store it takes most of the time."""
    settings.PAIRS_FILE = tmp_path / "pairs.toml"
    settings.PAIRS_FILE.write_text(configuration.pairs_file(True))
    for number, name in enumerate(("contoso", "contoso-dr", "northwind", "northwind-dr")):
        monkeypatch.setenv(configuration.variable(name), LOCAL.format(5000 + number))
    list(sync(load_pairs()))
    load(past)
    everything_is_recognisable()
    events_are_of_the_planned_outages(past)
    incidents_show_depth_and_end(past)
    ledgers_explain_every_message(past)


def everything_is_recognisable():
    assert all(model.objects.exists() for model in STORED)
    assert not FailoverEvent.objects.exclude(process=WORKER).exists()
    assert not FailoverEvent.objects.exclude(reason__contains=MARK).exists()
    assert not FailoverEvent.objects.filter(alerted_at=None).exists()
    assert not AuditEntry.objects.exclude(via=SIMULATION, operator__contains=MARK).exists()
    assert not Alert.objects.exclude(detail__contains=MARK).exists()
    assert not Alert.objects.filter(resolved_at=None).exists()
    assert Counter(Alert.objects.values_list("title", flat=True)) == {
        "orders failed over": 1,
        "The primary of contoso is down": 1,
        "fleet/positions failed over": 1,
        f"payments was failed over by anna {MARK}": 1,
        **{f"invoices/{region} failed over": 1 for region in ("apac", "eu", "us")},
    }
    assert not SyphonLedger.objects.exclude(reporter=WORKER, missing=0).exists()


def events_are_of_the_planned_outages(past):
    found = []
    for one in ENTITIES:
        events = FailoverEvent.objects.filter(pair=one.pair, entity=one.path).order_by("time")
        found += [(one.path, outage.began.time, outage.ended.time) for outage in outages(events) if outage.ended]

    assert sorted(found) == sorted((one.entity.path, one.failed_over_at, one.recovered_at) for one in past.outages)
    assert set(EntityHealth.objects.values_list("state", flat=True)) == {"healthy"}


def incidents_show_depth_and_end(past):
    for planned in (past.outages[0], past.outages[-1]):
        kinds = ("failed_over", "forced")
        event = FailoverEvent.objects.get(entity=planned.entity.path, time=planned.failed_over_at, kind__in=kinds)

        found = find(planned.entity.pair, event.event_id)
        incident, samples = found.incident, found.samples

        assert incident.recovered_at == planned.recovered_at
        assert max(depth for _, depth in samples) == pytest.approx(planned.diverted, rel=0.2)
        assert incident.drained_at == planned.drained_at


def ledgers_explain_every_message(past):
    explained = 0
    for planned in past.outages:
        kinds = ("failed_over", "forced")
        event = FailoverEvent.objects.get(entity=planned.entity.path, time=planned.failed_over_at, kind__in=kinds)
        found = story(planned.entity.pair, event.event_id)
        if ledger := found.moved:
            explained += 1
            assert found.pings["count"] > 0
            assert (ledger.to_backlog, ledger.unexplained) == (planned.diverted, 0)
    recent = [one for one in past.outages if one.drained_at >= past.end - timedelta(days=8)]
    assert explained == len(past.outages) - len(recent) > 20


def test_pages_and_metrics_say_until_when_the_past_is_simulated(pair, as_role, settings, redis_here):
    settings.SIMULATED_UNTIL = NOW
    viewer = as_role("viewer")

    assert "2026-11-22 18:20 UTC is simulated" in one_line(viewer.get("/audit/").text)
    (line,) = (line for line in exposition(NOW).splitlines() if line.startswith("paired_simulated_until"))
    assert float(line.split()[1]) == NOW.timestamp()

    settings.SIMULATED_UNTIL = None

    assert "Simulated past" not in viewer.get("/audit/").text
    assert "paired_simulated_until" not in exposition(NOW)
