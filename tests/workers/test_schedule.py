"""The schedule and the queues of the Celery app."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
import redis
from celery.beat import SchedulingError
from celery.schedules import crontab

from dashboard.costs.runs import jobs
from pairing.drain.backlog_queue import Progress
from pairing.drain.ledger import Ledger
from workers import connections, heartbeats, pipeline, syphons
from workers.beat import Scheduler
from workers.celery import QUEUES, app


def schedule() -> dict[str, dict[str, object]]:
    return app.conf.beat_schedule


@pytest.mark.parametrize("name", sorted(schedule()))
def test_what_the_schedule_names_is_a_task_of_a_known_queue(name):
    app.loader.import_default_modules()
    task = str(schedule()[name]["task"])
    assert task in app.tasks
    assert app.amqp.router.route({}, task)["queue"].name in QUEUES


TICKS = sorted(name for name, entry in schedule().items() if not isinstance(entry["schedule"], crontab))


@pytest.mark.parametrize("name", TICKS)
def test_a_tick_is_void_before_ticks_can_pile_up(name):
    entry = schedule()[name]
    seconds = entry["schedule"].total_seconds()
    assert 0 < entry["options"]["expires"] <= max(2.0, seconds)


@pytest.mark.parametrize(
    ("now", "months"),
    [
        (datetime(2026, 11, 21, 2, 10, tzinfo=UTC), ["2026-11"]),
        (datetime(2026, 12, 1, 2, 10, tzinfo=UTC), ["2026-11", "2026-12"]),
        (datetime(2027, 1, 2, 2, 10, tzinfo=UTC), ["2026-12", "2027-01"]),
    ],
    ids=["in the month", "on its first day, the last one too", "over the turn of the year"],
)
def test_charges_are_computed_for_the_month_for_the_one_that_just_ended_and_where_files_changed(
    monkeypatch, now, months
):
    said = {"stage": "done", "days": ["2020-01-31", f"{now:%Y-%m-%d}"]}
    monkeypatch.setattr(jobs, "run_job", lambda module, words, on_progress, usage: on_progress(said))
    assert jobs.months_to_compute(now) == [*months, "2020-01"]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch, fleet: redis.Redis) -> list[str]:
    """What workers of the fleet really do of the long tasks, in place of doing it."""
    done: list[str] = []
    monkeypatch.setattr(pipeline, "compact_usage", lambda: done.append("compact"))
    monkeypatch.setattr(pipeline, "months_to_compute", lambda _: ["2026-11"])
    monkeypatch.setattr(pipeline, "run", lambda *_: done.append("charges"))
    return done


@pytest.mark.parametrize("task", ["compact", "charges"])
def test_of_two_beats_one_tick_of_a_long_task_is_taken(task, taken, fleet):
    for _ in ("a worker, from the first beat", "another one, from the second"):
        getattr(pipeline, task)()
    assert taken == [task]
    assert fleet.ttl(f"workers:tick:{task}") <= 600, "the next hour has its own"


def test_charges_that_are_computed_often_are_computed_at_each_tick(taken, fleet, settings):
    settings.CHARGES_INTERVAL_S = 60
    pipeline.charges()
    assert taken == ["charges"]
    assert 0 < fleet.ttl("workers:tick:charges") <= 30


def test_a_heartbeat_reports_what_its_worker_cannot_serve_and_one_long_silent_is_forgotten(fleet):
    old = heartbeats.Heartbeat(datetime(2026, 1, 1, tzinfo=UTC), ("pings",))
    fresh = heartbeats.Heartbeat(
        datetime.now(UTC), ("pings", "syphons"), {"contoso": "no backlog queue can be reached"}
    )
    fleet.hset(heartbeats.KEY, mapping={"old": old.to_json(), "fresh": fresh.to_json()})
    assert heartbeats.heartbeats() == {"fresh": fresh}
    assert fleet.hkeys(heartbeats.KEY) == ["fresh"]


def test_a_pair_that_is_served_without_its_backlog_is_a_problem_and_a_whole_one_is_none(monkeypatch):
    served = {"contoso": SimpleNamespace(backlog_queue_count=0), "fabrikam": SimpleNamespace(backlog_queue_count=2)}
    monkeypatch.setattr(connections, "_clients", served)
    monkeypatch.setattr(connections, "_failed", {"northwind": (0.0, "it refused the key"), "fabrikam": (0.0, "before")})
    assert connections.problems() == {
        "contoso": "no backlog queue is reachable: check the secondary and its key.",
        "northwind": "it refused the key",
    }


def test_beat_says_once_in_one_line_that_redis_is_away_and_once_that_it_is_back(caplog):
    scheduler = Scheduler(app, lazy=True)
    entry = scheduler.Entry("pings", "pings.due", schedule=timedelta(seconds=1), app=app)
    answers = iter([SchedulingError("refused"), SchedulingError("refused"), None, None])

    def send(*_: object, **__: object) -> None:
        if error := next(answers):
            raise error

    scheduler.apply_async = send
    for _ in range(4):
        scheduler.apply_entry(entry)

    reported = [(record.levelname, record.getMessage(), record.exc_info) for record in caplog.records]
    assert reported == [
        ("WARNING", "Redis does not answer; ticks are sent again as soon as it does: refused", None),
        ("WARNING", "Redis answers again", None),
    ]


NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
QUEUE = "contoso/x-servicebus-transfer/0"


def running(monkeypatch: pytest.MonkeyPatch, **reported: object) -> None:
    progress = Progress(QUEUE, Ledger(QUEUE), state="moving", last_error="orders: it refused the key")
    for name, value in reported.items():
        setattr(progress, name, value)
    monkeypatch.setattr(syphons, "_running", {"contoso": SimpleNamespace(progress={QUEUE: progress})})


def test_a_syphon_that_delivers_nothing_for_more_than_a_minute_is_reported(monkeypatch):
    running(monkeypatch, hindered_since=NOON)
    assert syphons.hindered(NOON + timedelta(seconds=60)) == {}
    assert syphons.hindered(NOON + timedelta(seconds=61)) == {
        QUEUE: "receives and delivers nothing since 12:00:00 UTC: orders: it refused the key"
    }


def test_one_that_delivers_or_has_stopped_is_not(monkeypatch):
    running(monkeypatch)
    assert syphons.hindered(NOON + timedelta(hours=1)) == {}
    running(monkeypatch, hindered_since=NOON, state="stopped")
    assert syphons.hindered(NOON + timedelta(hours=1)) == {}
