"""What `/metrics` tells, and that it stays small and well-formed however large the fleet."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from dashboard.alerts.rounds import look
from dashboard.fleet.pairs.sync import sync
from dashboard.fleet.state import projection
from dashboard.metrics import exposition
from dashboard.metrics.fleet import MOST_LISTED
from dashboard.models import AlertRule, ChannelState, ChargeRun, EntityHealth
from tests.dashboard.alerts.test_alerts_rounds import QUEUE, backlog_queue
from tests.dashboard.conftest import NOW, health
from tests.dashboard.exposition import Sample, sample, samples

pytestmark = pytest.mark.postgres_nightly

S = timedelta(seconds=1)


def labels(one: Sample) -> dict[str, str]:
    return dict(one[1])


def test_what_is_not_healthy_is_listed_with_its_beginning(pair, redis_here):
    projection.apply_all_health("contoso", [health(held_by="ada")])
    text = exposition(NOW)

    assert samples(text, "paired_entities") == [
        sample('paired_entities{pair="contoso",state="unknown"} 1'),
        sample('paired_entities{pair="contoso",state="healthy"} 0'),
        sample('paired_entities{pair="contoso",state="failing"} 0'),
        sample('paired_entities{pair="contoso",state="failed_over"} 1'),
    ]
    name = "paired_entity_not_healthy_since_timestamp_seconds"
    assert samples(text, name) == [
        sample(f'{name}{{pair="contoso",entity="orders",state="failed_over",held="true"}} {NOW.timestamp():.0f}')
    ]


def test_a_thousand_entities_make_a_bounded_number_of_series_and_questions(
    pair, redis_here, django_assert_max_num_queries
):
    rows = (EntityHealth(pair=pair, path=f"q{n}", state="failed_over", since=NOW, waiting=n) for n in range(1_000))
    EntityHealth.objects.bulk_create(rows)
    with django_assert_max_num_queries(40):
        text = exposition(NOW)

    assert len(samples(text, "paired_entity_not_healthy_since_timestamp_seconds")) == MOST_LISTED
    assert len(samples(text, "paired_entity_waiting_messages")) == MOST_LISTED
    assert labels(samples(text, "paired_entity_waiting_messages")[0]) == {"pair": "contoso", "entity": "q999"}
    assert sample('paired_entities{pair="contoso",state="failed_over"} 1000') in samples(text)
    assert len(text.splitlines()) < 2 * MOST_LISTED + 200


def test_backlog_pings_and_ledgers_are_reported(pair, redis_here):
    backlog_queue(pair, active=7, dead_lettered=1, size_bytes=100, max_size_bytes=1000)
    pair.entities.filter(path="orders").update(
        state="failed_over",
        since=NOW,
        pings_ever=4,
        next_ping_at=NOW - 60 * S,
        waiting=7,
        oldest_waiting_at=NOW - 90 * S,
    )
    pair.ledgers.create(
        queue=QUEUE, began_at=NOW, home=5, enqueued=6, missing=1, ended_at=NOW, moved_at=NOW, seen_at=NOW
    )
    found = samples(exposition(NOW))

    for line in (
        f'backlog_messages{{pair="contoso",queue="{QUEUE}",state="dead_lettered"}} 1',
        f'backlog_size_bytes{{pair="contoso",queue="{QUEUE}"}} 100',
        f'backlog_size_limit_bytes{{pair="contoso",queue="{QUEUE}"}} 1000',
        f'backlog_oldest_message_timestamp_seconds{{pair="contoso"}} {NOW.timestamp() - 90:.0f}',
        f'backlog_sampled_timestamp_seconds{{pair="contoso"}} {NOW.timestamp():.0f}',
        'pings_total{pair="contoso"} 4',
        'pings_overdue{pair="contoso"} 1',
        f'syphon_settled_messages_total{{pair="contoso",queue="{QUEUE}"}} 5',
        'syphon_missing_messages{pair="contoso"} 1',
    ):
        assert sample(f"paired_{line}") in found


def test_of_a_pair_that_left_the_pairs_file_only_counters_remain(pair, redis_here):
    backlog_queue(pair, active=7, size_bytes=100, max_size_bytes=1000)
    projection.apply_all_health("contoso", [health()])
    pair.entities.update(pings_ever=4, next_ping_at=NOW - 60 * S, waiting=7, oldest_waiting_at=NOW - 90 * S)
    pair.ledgers.create(
        queue=QUEUE, began_at=NOW, home=5, enqueued=6, missing=1, ended_at=NOW, moved_at=NOW, seen_at=NOW
    )
    list(sync({}))

    its_own = {one[0] for one in samples(exposition(NOW)) if labels(one).get("pair") == "contoso"}
    assert its_own - {"paired_processes"} == {"paired_pings_total", "paired_syphon_settled_messages_total"}


def test_the_control_planes_own_work_is_reported(pair, redis_here):
    ChargeRun.objects.create(
        month="2026-11", status="succeeded", started_at=NOW, heard_at=NOW, finished_at=NOW + 42 * S, rows=17
    )
    AlertRule.objects.create(name="r", channels=["mail"], changed_at=NOW)
    ChannelState.objects.create(channel="mail", failing_since=NOW)
    projection.apply_all_health("contoso", [health()])
    look(NOW + S)
    found = samples(exposition(NOW + 60 * S))

    for line in (
        'pipeline_runs_total{status="succeeded"} 1',
        f"pipeline_last_success_timestamp_seconds {NOW.timestamp() + 42:.0f}",
        "pipeline_last_duration_seconds 42",
        "pipeline_last_rows 17",
        'alerts_open{kind="failover",severity="critical",acknowledged="false"} 1',
        f"alerts_look_timestamp_seconds {NOW.timestamp() + 1:.0f}",
        'alert_outbox_messages{channel="mail"} 1',
        'alert_channel_failing{channel="mail"} 1',
    ):
        assert sample(f"paired_{line}") in found


def test_reports_on_their_way_and_leases_are_reported(pair, shared, redis_here):
    shared.acquire_lease(QUEUE, "host:1:aaaa", 30)
    redis_here.xadd("pairing:events", {"event": "x"}, id="1000000-1")
    found = samples(exposition(timezone.now()))

    assert sample(f'paired_lease_held{{pair="contoso",lease="{QUEUE}"}} 1') in found
    assert sample('paired_stream_entries{stream="pairing:events"} 1') in found
    assert sample('paired_stream_oldest_entry_timestamp_seconds{stream="pairing:events"} 1000') in found
    assert sample("paired_redis_up 1") in found


@pytest.mark.django_db
def test_without_redis_the_rest_is_reported_with_the_same_names(redis_here, settings):
    with_redis = set(re.findall(r"^# TYPE (\S+ \S+)", exposition(NOW), re.MULTILINE))
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    text = exposition(NOW)

    assert sample("paired_redis_up 0") in samples(text)
    assert set(re.findall(r"^# TYPE (\S+ \S+)", text, re.MULTILINE)) == with_redis


def test_the_address_has_prometheus_format_and_the_age_of_each_heartbeat(pair, redis_here, alive, client):
    answer = client.get("/metrics")

    (age,) = samples(answer.text, "paired_worker_heartbeat_age_seconds")
    assert answer["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert labels(age) == {"process": "host:1:aaaa", "role": "pings"}
