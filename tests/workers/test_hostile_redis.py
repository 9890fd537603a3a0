"""Whatever a stranger writes into Redis: no page, no answer of the API and no periodic task fails."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from django.conf import settings as django_settings
from django.test import Client
from django.utils import timezone

from dashboard.access import tokens
from dashboard.api import throttle
from dashboard.fleet.pairs_file import load_pairs
from dashboard.fleet.sync import sync
from dashboard.models import FailoverEvent, Heartbeat
from dashboard.routes import api
from dashboard.site import redis as dashboard_redis
from pairing.events import Event
from pairing.fleet.keys import PAIRING, Keys
from pairing.telemetry.metering import UsageRecord
from tests.dashboard.access.test_access_walk import NAMES, QUEUE, address, place  # noqa: F401 - a fixture
from tests.dashboard.conftest import (  # noqa: F401 - fixtures
    PASSWORD,
    alive,
    as_role,
    fast_passwords,
    local_namespaces,
    orders,
    pair,
    people,
    redis_here,
)
from tests.hostile_redis import POISONS, all_keys, fields_poisoned, poison
from tests.pairing.test_hostile_redis import STEPS
from tests.selection import nightly
from workers import celery, connections, heartbeats, pingers, pipeline, slices, syphons, tasks

MODULES = ("drills", "orphans", "pingers", "readiness", "watchers", "syphons", "collectors")
PAIRS = """
[pairs.contoso]
primary = { connection_string_env = "CONTOSO_PRIMARY", namespace = "contoso" }
secondary = { connection_string_env = "CONTOSO_SECONDARY", namespace = "contoso-dr" }
backlog_queue_count = 1
entities = "*"
drill = { entity = "orders", every_days = 0.00001 }
"""
OFTEN = ("list", "values")
KINDS = [*OFTEN, *nightly(*(kind for kind in POISONS if kind not in OFTEN))]
NOW = datetime.now(UTC)
EVENT = Event("c" * 32, NOW, "contoso", "orders", "failed_over", "an outage", "host:1:aaaa")
USAGE = UsageRecord("r", NOW, "s", "contoso", "contoso", "orders", "send", "host:1:aaaa", 1, 1, 1, 1, 1)


@pytest.fixture
def fleet_here(local_namespaces, redis_here, pair, alive, settings, tmp_path, monkeypatch) -> Iterator[Any]:  # noqa: F811
    """A worker process of the pair, whose tasks run at once, and whose slices are over after a moment."""
    for name, text in local_namespaces.items():
        monkeypatch.setenv(name, text)
    (file := tmp_path / "pairs.toml").write_text(PAIRS)
    settings.USAGE_DIR = str(tmp_path / "usage")
    settings.USAGE_FLUSH_S = 0.0
    reported = load_pairs(file)
    monkeypatch.setattr(connections, "pairs", lambda: reported)
    for module in MODULES:
        monkeypatch.setattr(f"workers.{module}.pairs", lambda: reported, raising=False)
    monkeypatch.setattr(slices, "slice_of", moment)
    monkeypatch.setattr("workers.streams._WAIT_MS", 50)
    celery.app.loader.import_default_modules()
    celery.app.conf.task_always_eager = True
    monkeypatch.setattr("workers.pingers.keep_pinging", pingers.away)  # its threads would need the test's transaction
    list(sync(reported))
    yield redis_here
    celery.app.conf.task_always_eager = False
    slices.stop_all()
    syphons.leave()
    syphons._hosts.clear()
    connections._failed.clear()
    slices._shutting_down.clear()
    dashboard_redis._client.cache_clear()


@contextmanager
def moment(name: str, limit_s: float = 0.0, *, room: str = "") -> Iterator[threading.Event]:
    """A slice of time that is over after a fifth of a second."""
    stop = threading.Event()
    timer = threading.Timer(0.2, stop.set)
    timer.start()
    yield stop
    timer.join()


def written(client: redis.Redis, as_role: Callable[[str], Client]) -> dict[str, str]:  # noqa: F811
    """The keys that applications, pages and workers leave behind, with their types."""
    found: dict[str, str] = {}
    for step in STEPS.values():
        step(dashboard_redis.shared_state("contoso"))
        found |= all_keys(client)
    as_role("stranger").post("/login/", {"username": "operator", "password": "wrong"})
    as_role("stranger").get("/api/v1/pairs", headers={"Authorization": "Bearer wrong"})
    throttle.count("token", "one")
    heartbeats.beat(SimpleNamespace(eventer=worker("one@host")))
    tasks.count("alerts.look", delay_s=0.1)
    tasks.report()
    pipeline.takes_tick("compact")
    for name in scheduled():
        run(name)
        found |= all_keys(client)
    return found | all_keys(client)


def worker(name: str) -> SimpleNamespace:
    """What Celery's signal of a heartbeat says of a worker."""
    queues = SimpleNamespace(consume_from=["pings"])
    return SimpleNamespace(hostname=name, app=SimpleNamespace(amqp=SimpleNamespace(queues=queues)))


def spoil(client: redis.Redis, keys: Mapping[str, str], kind: str) -> None:
    """Every key of ours holds something else: another type, or values that are no text."""
    if kind == "values":
        fields_poisoned(client, all_keys(client))
    else:
        poison(client, keys, kind)


def usage_files() -> Iterator[Path]:
    return Path(django_settings.USAGE_DIR).rglob("part-*.parquet")


def scheduled() -> list[str]:
    """The tasks of beat, but those that start processes or wait for a whole run of the pipeline."""
    names = {entry["task"] for entry in celery.app.conf.beat_schedule.values()}
    return sorted(name for name in names if not name.startswith("pipeline."))


def run(name: str) -> None:
    """As a worker does; an error of the task is raised."""
    celery.app.tasks[name].apply(throw=True)


def questions() -> list[str]:
    """Every GET of the API."""
    paths: Mapping[str, Any] = api.get_openapi_schema(path_prefix="/api/v1/")["paths"]
    names = {"pair": "contoso", "entity": "orders", "path": "orders", "event": "a" * 32, "queue": QUEUE}
    return [path.format_map(Named(names)) for path, methods in paths.items() if "get" in methods]


class Named(dict[str, str]):
    """A parameter that is not named is the first of its kind."""

    def __missing__(self, name: str) -> str:
        return "1"


@pytest.fixture
def used(fleet_here, place, people, as_role) -> dict[str, str]:  # noqa: F811
    return written(fleet_here, as_role)


def test_every_key_that_is_written_is_in_the_table_with_its_type(used):
    table = Keys({**PAIRING, **dashboard_redis.KEYS})
    kinds = {key: {"counter": "string"}.get(kind := table.kind_of(key) or "", kind) for key in used}
    assert kinds == used
    assert not [p for p, kind in dashboard_redis.KEYS.items() if not Keys({p: kind}).among(used)]


@pytest.mark.parametrize("kind", KINDS)
def test_no_page_and_no_answer_fails(kind, used, fleet_here, people, as_role, settings):  # noqa: F811
    settings.API_REQUESTS_PER_MINUTE = 1_000_000
    token = tokens.make(people["administrator"], "a program", "administer", 30, timezone.now())[1]
    person = as_role("administrator")
    for path in [address(name) for name in NAMES if name != "live"] + ["/metrics", "/readyz", "/healthz"]:
        spoil(fleet_here, used, kind)
        assert person.get(path).status_code < 500 or path.startswith("/demo"), path
    for path in questions():
        spoil(fleet_here, used, kind)
        answer = person.get(path, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code < 500, (path, answer.content[:300])


@pytest.mark.parametrize("kind", KINDS)
def test_signing_in_and_wrong_tokens_are_answered(kind, used, fleet_here, people, as_role):  # noqa: F811
    spoil(fleet_here, used, kind)
    answer = as_role("stranger").post("/login/", {"username": "operator", "password": PASSWORD})
    assert answer.status_code == 302
    spoil(fleet_here, used, kind)
    answer = as_role("stranger").get("/api/v1/pairs", headers={"Authorization": "Bearer wrong"})
    assert answer.status_code == 401


@pytest.mark.parametrize("kind", KINDS)
def test_no_task_fails_and_each_does_its_work_afterwards(kind, used, fleet_here):
    for name in scheduled():
        spoil(fleet_here, used, kind)
        run(name)
    spoil(fleet_here, used, kind)
    for name in scheduled():
        run(name)
    shared = dashboard_redis.shared_state("contoso")
    shared.report(EVENT)
    shared.record_usage([USAGE])
    heartbeats.beat(SimpleNamespace(eventer=worker("two@host")))
    for name in scheduled():
        run(name)
    assert FailoverEvent.objects.filter(event_id=EVENT.id).exists()
    assert "two@host" in Heartbeat.objects.values_list("process", flat=True)
    assert list(usage_files())


def test_a_worker_reports_what_was_set_aside(used, fleet_here):
    poison(fleet_here, ["pairing:{contoso}:health"], "list")
    dashboard_redis.shared_state("contoso").health()
    heartbeats.beat(SimpleNamespace(eventer=worker("two@host")))
    reported = json.loads(fleet_here.hget("workers:heartbeat", "two@host"))["problems"]
    assert "held a list" in reported["Redis: pairing:{contoso}:health"]
