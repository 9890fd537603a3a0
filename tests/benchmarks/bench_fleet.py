"""What one fleet costs: how fast a word is known to all, what 10,000 entities take, and the event collector.

50 processes send one message a second each. The collector writes into SQLite, and into a PostgreSQL of its own where
there is one.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles

import redis

from pairing import SendAvailabilityOptions
from pairing.clock import SystemClock
from pairing.events import Event
from pairing.fleet.shared_health import SharedHealth
from pairing.fleet.shared_state import SharedState
from tests.acceptance.fleet import ROOT, Fleet, Member, Namespaces, RedisServer
from tests.benchmarks.processes import measured, resident_bytes, size
from tests.postgres import cluster, programs

SIZE = size(50, 3)
ROUNDS = size(6, 1)
ENTITIES, CHANGES = size(10_000, 100), size(200, 8)
EVENTS, PATHS = size(20_000, 500), 50
KEY = "SharedAccessKeyName=bench;SharedAccessKey=eA=="
ROWS = [
    ("a forced failover known to 50 processes, p99", "at most 100 ms", "{forced_failover[p99_ms]} ms"),
    ("a backlog queue pulled by one of 50 processes, known to all, p99", "at most 100 ms", "{queue_pulled[p99_ms]} ms"),
    (
        "10,000 entities: read at the start; memory of a process",
        "under 1 s; under 20 MB",
        "{ten_thousand_entities[start_up_read_s]} s; {ten_thousand_entities[memory_mb]} MB",
    ),
    ("one change, CPU time of each process", "under 1 ms", "{ten_thousand_entities[one_change_cpu_ms]} ms"),
    (
        "events into the database",
        "5,000 a second",
        "{collector[events_a_second]} a second into SQLite, {collector_postgres[events_a_second]} into PostgreSQL",
    ),
]


def run() -> dict[str, float | dict[str, float]]:
    """Milliseconds until all know, cost of 10,000 entities, microseconds a count, events a second."""
    news, pulled = forced_failover_and_pulled_queue()
    found: dict[str, float | dict[str, float]] = {
        "forced_failover": news,
        "queue_pulled": pulled,
        "ten_thousand_entities": _measured("entities"),
        "collector": _measured("collector"),
    }
    if postgres := _on_postgres():
        found["collector_postgres"] = postgres
    return found


def _on_postgres() -> dict[str, float] | None:
    """The same on PostgreSQL, as durable as it is out of the box; None where there is none."""
    if programs() is None:
        print("PostgreSQL is not installed: left out", file=sys.stderr, flush=True)
        return None
    with cluster(is_durable=True) as url:
        return _measured("collector", url)


def forced_failover_and_pulled_queue() -> tuple[dict[str, float], dict[str, float]]:
    """From just before the operator's command, or the failed send, to the moment each process has taken it in."""
    with tempfile.TemporaryDirectory() as folder:
        namespaces, server = Namespaces("contoso", "orders"), RedisServer(Path(folder))
        fleet = Fleet(Path(folder), namespaces, server, "contoso")
        try:
            fleet.start(SIZE, every_s=1.0, durations={"ping_primary_interval": 60.0})
            fleet.all_go_on_sending("orders", 60)
            took = [delay for _ in range(ROUNDS) for delay in _one_round(fleet)]
            pulled = [delay for _ in range(ROUNDS) for delay in _one_pull(fleet)]
        finally:
            fleet.end()
            server.kill()
            namespaces.end()
    return _spread(took), _spread(pulled)


def _spread(took: list[float]) -> dict[str, float]:
    return {
        "processes": SIZE,
        "p50_ms": round(1000 * median(took), 2),
        "p99_ms": round(1000 * quantiles(took, n=100)[-1], 2),
        "worst_ms": round(1000 * max(took), 2),
    }


def _one_round(fleet: Fleet) -> list[float]:
    shared = fleet.shared
    seen = {member.name: len(member.events) for member in fleet.members}
    began = fleet.clock()
    shared.fail_over("orders", "drill", operator="ada", process="web")
    fleet.until(lambda: all(len(m.events) > seen[m.name] for m in fleet.members), 30, "all know")
    delays = [member.events[seen[member.name]][2] - began for member in fleet.members]
    fleet.all_go_on_sending("orders", 60)
    seen = {member.name: len(member.events) for member in fleet.members}
    shared.mark_healthy("orders", operator="ada", process="web")
    fleet.until(lambda: all(len(m.events) > seen[m.name] for m in fleet.members), 30, "all are back")
    fleet.all_go_on_sending("orders", 60)
    return delays


def _one_pull(fleet: Fleet) -> list[float]:
    """One process finds a backlog queue out of order; how long until each of the others leaves it alone."""
    first, *others = fleet.members
    path, began = fleet.ask(first, "pull", 0)
    delays = [at - began for at in _heard(fleet, others, "pulled", path)]
    fleet.ask(first, "bring_back", 0)
    _heard(fleet, others, "returned", path)
    return delays


def _heard(fleet: Fleet, members: list[Member], kind: str, path: str) -> list[float]:
    """When each of these first heard that of the queue, in this round; the reconciling read tells it again."""

    def reported(member: Member) -> float | None:
        last = [event for event in member.heard if event[1] == path]
        return next((at for is_kind, _, at in _from_the_last_change(last) if is_kind == kind), None)

    fleet.until(lambda: all(reported(member) for member in members), 30, f"all heard {kind}")
    return [at for member in members if (at := reported(member)) is not None]


def _from_the_last_change(events: list[tuple[str, str, float]]) -> list[tuple[str, str, float]]:
    same = next((n for n, event in enumerate(reversed(events)) if event[0] != events[-1][0]), len(events))
    return events[len(events) - same :]


def _measured(what: str, database: str = "") -> dict[str, float]:
    """The same in a fresh process, with its own memory and settings, and with SQLite by default."""
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(Path(folder))
        try:
            found: dict[str, float] = measured(
                "bench_fleet",
                what,
                DATABASE_URL=database or f"sqlite:///{folder}/db.sqlite3",
                STATE_DIR=folder,
                REDIS_URL=server.url,
                PAIRS_FILE=str(_pairs_file(folder)),
                PRIMARY=f"Endpoint=sb://contoso.example.com/;{KEY}",
                SECONDARY=f"Endpoint=sb://contoso-dr.example.com/;{KEY}",
                DJANGO_SETTINGS_MODULE="dashboard.settings",
            )
            return found
        finally:
            server.kill()


def _pairs_file(folder: str) -> Path:
    file = Path(folder) / "pairs.toml"
    file.write_text(
        '[pairs.contoso]\nprimary = { connection_string_env = "PRIMARY", namespace = "contoso" }\n'
        'secondary = { connection_string_env = "SECONDARY", namespace = "contoso-dr" }\nentities = ["orders"]\n'
    )
    return file


def entities() -> dict[str, float]:
    """One process that joins a fleet of which 10,000 entities are failed over."""
    from pairing.membership import Fleet as Line
    from pairing.pair import Pair

    shared = SharedState(redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True), "contoso")
    for number in range(ENTITIES):
        shared.publish(_failed_over(number))
    pair = Pair(SendAvailabilityOptions(), "contoso", "host:1:abcdef01", SystemClock())
    line = Line(pair, os.environ["REDIS_URL"])
    gc.collect()
    before, began = resident_bytes() / 1e6, time.perf_counter()
    line.start()
    while len(pair.entities()) < ENTITIES:
        time.sleep(0.005)
    read_s = time.perf_counter() - began
    gc.collect()
    grown = resident_bytes() / 1e6 - before
    change_ms = _cost_of_changes(pair)
    line.close()
    return {"start_up_read_s": round(read_s, 3), "memory_mb": round(grown, 1), "one_change_cpu_ms": round(change_ms, 3)}


def _cost_of_changes(pair: object) -> float:
    """CPU milliseconds that a change by somebody else costs this process, reconciling reads included."""
    with _somebody_else() as change:
        change(1)
        time.sleep(1)
        began = time.process_time()
        for _ in range(4):
            change(CHANGES // 4)
            time.sleep(5)  # as long as it takes to reconcile
        quiet_began, busy = time.process_time(), time.process_time() - began
        time.sleep(10)
        quiet = 2 * (time.process_time() - quiet_began)
    return (busy - quiet) / CHANGES * 1000


@contextmanager
def _somebody_else() -> Iterator[object]:
    """Another process that changes entities, so many as it is reported."""
    command = [sys.executable, "-m", "tests.benchmarks.bench_fleet", "somebody"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        answers, orders = other.stdout, other.stdin

        def change(count: int) -> None:
            orders.write(f"{count}\n")
            orders.flush()
            answers.readline()

        yield change
        orders.close()


def somebody() -> None:
    shared = SharedState(redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True), "contoso")
    number = 0
    for line in sys.stdin:
        for _ in range(int(line)):
            number += 1
            shared.fail_over(f"orders/region-{number % ENTITIES:05}", "drill", operator="ada", process="web")
        print("done", flush=True)


def _failed_over(number: int) -> SharedHealth:
    path, reason = f"orders/region-{number:05}", "ServiceBusConnectionError: the connection was refused"
    return SharedHealth(path, "failed_over", datetime.now(UTC), reason, None, None, "organic", 0, "host:2:abcdef02")


def collector() -> dict[str, float]:
    """The collector's own loop, from the stream into the database, acknowledged; 50 entities change now and then."""
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    call_command("sync_pairs", stdout=sys.stderr)
    from dashboard.models import FailoverEvent
    from dashboard.site.redis import connection, shared_state
    from workers import collectors
    from workers.streams import Reader

    _fill(shared_state("contoso"))
    stored = FailoverEvent.objects.count()
    reader, stop, left = Reader(connection(), "pairing:events", "event"), threading.Event(), EVENTS
    began, cpu_began = time.perf_counter(), time.process_time()
    for entries in reader.batches(stop):
        collectors.save_events(reader, entries)
        left -= len(entries)
        if not left:
            break
    elapsed, cpu = time.perf_counter() - began, time.process_time() - cpu_began
    assert FailoverEvent.objects.count() - stored == EVENTS
    return {"events_a_second": round(EVENTS / elapsed), "cpu_us_an_event": round(cpu / EVENTS * 1e6, 1)}


def _fill(shared: SharedState) -> None:
    for number in range(PATHS):
        shared.publish(_failed_over(number))
    now, paths = datetime.now(UTC), [f"orders/region-{number:05}" for number in range(PATHS)]
    for _ in range(EVENTS // PATHS):
        shared.report(*(Event(os.urandom(16).hex(), now, "contoso", path, "failing", "refused", "p") for path in paths))


if __name__ == "__main__":
    if sys.argv[1] == "somebody":
        somebody()
    else:
        print(json.dumps({"entities": entities, "collector": collector}[sys.argv[1]]()))
