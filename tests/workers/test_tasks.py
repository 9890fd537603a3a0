"""The delay of tasks: stamped when requested, counted by workers, reported by `/metrics`; and the ids in log lines."""

import json
import time
from datetime import UTC, datetime

import pytest
import structlog
from celery.app.task import Context

from dashboard.metrics import exposition, shared
from tests.dashboard.exposition import sample, samples
from workers import tasks
from workers.celery import app
from workers.tasks import Count, add, waited


def test_a_delay_is_the_time_since_the_request_and_never_negative():
    assert waited({"sent_at": 100.0}, 102.5) == 2.5
    assert waited({"sent_at": 100.0}, 99.0) == 0
    assert waited({}, 99.0) == 0


@pytest.mark.django_db
def test_what_all_workers_counted_is_added_up(fleet):
    add(fleet, {"pings.due": Count(3, 1, 4.5, 2.0, 1000.0)})
    add(fleet, {"pings.due": Count(2, 0, 0.5, 0.4, 1010.0), "alerts.look": Count(1, 0, 0.1, 0.1, 1010.0)})
    found = samples(exposition(datetime.now(UTC)))

    assert sample('paired_task_starts_total{task="pings.due"} 5') in found
    assert sample('paired_task_failures_total{task="pings.due"} 1') in found
    assert sample('paired_task_start_delay_seconds_total{task="pings.due"} 5') in found
    assert sample('paired_task_start_delay_longest_seconds{task="pings.due"} 2') in found
    assert sample('paired_task_last_start_timestamp_seconds{task="pings.due"} 1010') in found


def test_the_longest_delay_is_forgotten_after_a_minute(fleet):
    add(fleet, {"pings.due": Count(1, 0, 9.0, 9.0, 1000.0)})
    add(fleet, {"pings.due": Count(1, 0, 1.0, 1.0, 1061.0)})

    assert json.loads(str(fleet.hget(shared.TASKS, "pings.due")))["longest_s"] == 1


def test_what_redis_does_not_take_is_reported_with_the_next_heartbeat(fleet, settings):
    url = settings.REDIS_URL
    tasks._counts.clear()
    tasks.count({"pings.due": Count(starts=1, delay_s=1.0)})
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    tasks.report()
    settings.REDIS_URL = url
    tasks.count({"pings.due": Count(starts=1, delay_s=2.0)})
    tasks.report()

    assert json.loads(str(fleet.hget(shared.TASKS, "pings.due")))["starts"] == 2


def test_a_request_carries_its_time_to_the_worker(fleet, redis_url):
    before, app.conf.broker_url = app.conf.broker_url, redis_url
    try:
        with app.connection_for_write(redis_url) as connection:
            app.send_task("alerts.look", connection=connection, queue="alerts")
    finally:
        app.conf.broker_url = before
    message = json.loads(str(fleet.lindex("alerts", 0)))

    assert waited(vars(Context(message["headers"])), time.time() + 3) >= 3


def test_log_lines_of_a_task_carry_its_id_and_those_after_it_do_not():
    seen: list[dict[str, object]] = []

    @app.task(name="samples.seen_by_a_test")
    def look() -> None:
        seen.append(structlog.contextvars.get_contextvars())

    try:
        look.apply(task_id="42")
    finally:
        app.tasks.unregister("samples.seen_by_a_test")

    assert seen == [{"task_id": "42", "task": "samples.seen_by_a_test"}]
    assert structlog.contextvars.get_contextvars() == {}


def test_a_task_that_ends_with_an_error_is_counted():
    @app.task(name="samples.broken_by_a_test")
    def look() -> None:
        raise ValueError("no")

    tasks._counts.clear()
    try:
        look.apply()
    finally:
        app.tasks.unregister("samples.broken_by_a_test")

    counted = tasks._counts["samples.broken_by_a_test"]
    assert (counted.starts, counted.failures) == (1, 1)
    tasks._counts.clear()
