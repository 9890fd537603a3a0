"""A Redis that is slow or away costs the workers a line in the log, and no fact (docs/operations.md, Redis is away)."""

import socket
import threading
from collections.abc import Iterator
from functools import partial

import pytest
import redis
from kombu import Connection
from structlog.testing import capture_logs

from dashboard.site.redis import patient_connection
from workers import collectors, syphons, watchers
from workers.streams import _WAIT_MS, Reader


@pytest.fixture
def slow_redis(redis_url: str, fleet: redis.Redis, settings: object) -> Iterator[threading.Event]:
    """Redis behind a door that lets answers through only while the event is set."""
    host, port = fleet.connection_pool.connection_kwargs["host"], fleet.connection_pool.connection_kwargs["port"]
    is_open = threading.Event()
    is_open.set()
    with socket.create_server(("127.0.0.1", 0)) as door:
        settings.REDIS_URL = f"redis://127.0.0.1:{door.getsockname()[1]}/0"
        threading.Thread(target=_serve, args=(door, (host, port), is_open), daemon=True).start()
        yield is_open
        is_open.set()


def _serve(door: socket.socket, where: tuple[str, int], is_open: threading.Event) -> None:
    while True:
        try:
            here, _ = door.accept()
        except OSError:
            return
        there = socket.create_connection(where)
        threading.Thread(target=_pass_on, args=(here, there, None), daemon=True).start()
        threading.Thread(target=_pass_on, args=(there, here, is_open), daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket, is_open: threading.Event | None) -> None:
    with source, target:
        try:
            while data := source.recv(65536):
                if is_open is not None:
                    is_open.wait(60)
                target.sendall(data)
        except OSError:
            return


def test_a_redis_that_answers_late_is_waited_for(slow_redis, fleet):
    """The answer to a read comes three seconds after the block has ended; the control plane's own limit is two."""
    reader = Reader(patient_connection(), "facts", "fact", "a")
    batches = reader.batches(threading.Event())
    assert next(batches) == []
    slow_redis.clear()
    threading.Timer(_WAIT_MS / 1000 + 3.0, slow_redis.set).start()
    fleet.xadd("facts", {"fact": "late"})

    assert [text for _, text in next(batches)] == ["late"]


@pytest.mark.parametrize("task", [collectors.events, collectors.health, collectors.collect_usage, watchers.refresh])
@pytest.mark.django_db
def test_a_redis_that_is_away_is_one_line_in_the_log_for_each_task(task, settings):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    with capture_logs() as reported:
        task()

    assert [(line["log_level"], line["event"]) for line in reported] == [("warning", "Redis does not answer")]
    assert "\n" not in reported[0]["problem"]


def test_so_is_a_redis_that_goes_away_before_a_task_has_started_another(fleet, pairs, monkeypatch):
    with Connection("redis://127.0.0.1:1/0") as refusing:
        away = partial(syphons.host.apply_async, connection=refusing, retry=False)
        monkeypatch.setattr(syphons, "pairs", lambda: pairs)
        monkeypatch.setattr(syphons.host, "apply_async", away)
        with capture_logs() as reported:
            syphons.ensure()

    assert [(line["event"], line["task"]) for line in reported] == [("Redis does not answer", "syphons.ensure")]
