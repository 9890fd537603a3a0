"""The schedule and the queues of the Celery app."""

from datetime import UTC, datetime

import pytest
import redis
from celery.schedules import crontab

from workers import heartbeats, pipeline
from workers.celery import QUEUES, app


def schedule() -> dict[str, dict[str, object]]:
    return app.conf.beat_schedule


@pytest.mark.parametrize("name", sorted(schedule()))
def test_what_the_schedule_names_is_a_task_of_a_known_queue(name: str) -> None:
    app.loader.import_default_modules()
    task = str(schedule()[name]["task"])
    assert task in app.tasks
    assert app.amqp.router.route({}, task)["queue"].name in QUEUES


TICKS = sorted(name for name, entry in schedule().items() if not isinstance(entry["schedule"], crontab))


@pytest.mark.parametrize("name", TICKS)
def test_a_tick_is_void_before_ticks_can_pile_up(name: str) -> None:
    entry = schedule()[name]
    seconds = entry["schedule"].total_seconds()  # type: ignore[attr-defined]
    assert 0 < entry["options"]["expires"] <= max(2.0, seconds)  # type: ignore[index]


@pytest.mark.parametrize(
    ("now", "months"),
    [
        (datetime(2026, 11, 21, 2, 10, tzinfo=UTC), ["2026-11"]),
        (datetime(2026, 12, 1, 2, 10, tzinfo=UTC), ["2026-11", "2026-12"]),
        (datetime(2027, 1, 2, 2, 10, tzinfo=UTC), ["2026-12", "2027-01"]),
    ],
    ids=["in the month", "on its first day, the last one too", "over the turn of the year"],
)
def test_charges_are_computed_for_the_month_and_for_the_one_that_just_ended(now: datetime, months: list[str]) -> None:
    assert pipeline.months(now) == months


def test_a_worker_long_silent_is_forgotten(fleet: redis.Redis) -> None:
    old = heartbeats.Heartbeat(datetime(2026, 1, 1, tzinfo=UTC), ("pings",))
    fresh = heartbeats.Heartbeat(datetime.now(UTC), ("pings", "syphons"))
    fleet.hset(heartbeats.KEY, mapping={"old": old.to_json(), "fresh": fresh.to_json()})
    assert heartbeats.heartbeats() == {"fresh": fresh}
    assert fleet.hkeys(heartbeats.KEY) == ["fresh"]
