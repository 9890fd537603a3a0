"""What others write into Redis may make no sense: it hides nothing, stops nothing, and is reported once."""

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pairing import stored_json as reading
from pairing.drain.dead_letter_results import SharedDecisions
from pairing.drain.ledger import Ledger
from pairing.events import Event
from pairing.fleet.coordination import RedisCoordination
from pairing.fleet.presence import Presence, Presences
from pairing.fleet.shared_backlog import QueueNews, SharedBacklog
from pairing.fleet.shared_health import Pace, Pause, PingRecord, SharedHealth
from pairing.fleet.shared_state import SharedState
from pairing.telemetry.metering import UsageRecord
from tests.selection import depth

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HEALTH = SharedHealth("orders", "failed_over", NOON, "an outage", None, None, "organic", 7, "host:1:aaaa")
EVENT = Event("a" * 32, NOON, "contoso", "orders", "failed_over", "an outage", "host:1:aaaa")
USAGE = UsageRecord("r", NOON, "s", "contoso", "contoso", "orders", "send", "host:1:aaaa", 1, 1, 1, 1, 1)
NEWS = QueueNews("contoso/x-servicebus-transfer/0", "torn", "host:1:aaaa", NOON)
RECORDS: list[Any] = [
    HEALTH,
    replace(HEALTH, held_by="ada", expires=NOON, origin="forced"),
    PingRecord(NOON, False, "refused", 3, NOON),
    Pause("ada", "a rest", NOON),
    Pace(2.5, "ada", "slowly", NOON),
    NEWS,
    EVENT,
    USAGE,
]

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["\ud800", "9999-12-31T23:59:59-23:59", "2026-11-21T12:00:00", "failed_over", "10" * 3000])
)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)
rubbish = st.binary(max_size=20) | anything.map(lambda value: json.dumps(value).encode()) | st.just(b"[" * 100_000)
few = settings(max_examples=depth(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def spoilt(written: str) -> st.SearchStrategy[bytes]:
    """A record of which one field is something else, or missing, or one more than this version knows."""
    fields = json.loads(written)
    if not isinstance(fields, dict):
        return rubbish
    names = st.sampled_from([*fields, "more"])
    changed = st.tuples(names, anything).map(lambda change: fields | {change[0]: change[1]})
    missing = names.map(lambda name: {key: value for key, value in fields.items() if key != name})
    return rubbish | (changed | missing).map(lambda record: json.dumps(record).encode())


@pytest.fixture(autouse=True)
def nothing_reported_yet() -> Iterator[None]:
    reading._logged.clear()
    yield
    reading._logged.clear()


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
@given(data=st.data())
@settings(deadline=None)
def test_a_record_is_read_whole_or_refused_with_a_value_error(record, data):
    assert type(record).from_json(record.to_json()) == record
    written = data.draw(spoilt(record.to_json()))
    try:
        read = type(record).from_json(written)
    except ValueError:
        return
    reported = read.to_json()
    reported.encode()
    assert type(record).from_json(reported) == read


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_what_a_newer_version_has_more_is_left_unread(record):
    newer = json.dumps(json.loads(record.to_json()) | {"colour": {"deep": [1]}})
    assert type(record).from_json(newer) == record


@given(rubbish)
@example(b'{"queue": "q", "created_at": "", "first": [[]], "highest": 7}')
@settings(deadline=None)
def test_ledgers_that_make_no_sense_are_a_value_error(written):
    try:
        with reading.reading("a ledger"):
            Ledger.from_json(reading.record(written))
    except ValueError:
        pass


@dataclass(frozen=True)
class Reader:
    """One way to look into Redis: which hash, an entry that makes sense, and how its fields are read."""

    key: str
    sense: str
    read: Callable[[SharedState], Any]


def fill() -> str:
    return json.dumps({"size": 1, "limit": 2, "at": 3.0, "rate": 0.5})


READERS = {
    "health": Reader("health", HEALTH.to_json(), lambda shared: shared.health()),
    "one health": Reader("health", HEALTH.to_json(), lambda shared: {shared.health_of("sound"), shared.health_of("x")}),
    "pings": Reader("pings", RECORDS[2].to_json(), lambda shared: shared.pings()),
    "some pings": Reader("pings", RECORDS[2].to_json(), lambda shared: shared.pings(["sound", "x"])),
    "pauses": Reader("syphon", RECORDS[3].to_json(), lambda shared: shared.paused()),
    "paces": Reader("pace", RECORDS[4].to_json(), lambda shared: shared.paces()),
    "rotations": Reader(
        "rotations", json.dumps({"at": 1e15, "paths": ["q"]}), lambda shared: shared.rotations(within_s=1e12)
    ),
    "presences": Reader(
        "processes",
        json.dumps({"at": 1e15, "report": {"sends": True, "disputed": ["orders"], "clock": 1.0}}),
        lambda shared: Presences(shared).living(within_s=1e12),
    ),
    "fills": Reader("fills", fill(), lambda shared: SharedBacklog(shared).fills()),
    "queues": Reader(
        "queues",
        replace(NEWS, until=NOON.replace(year=9000)).to_json(),
        lambda shared: {news.path: news for news in SharedBacklog(shared).pulled()} | {"sound": 1},
    ),
}


@pytest.mark.parametrize("name", READERS)
@given(data=st.data())
@few
def test_what_cannot_be_read_hides_nothing_else(redis_client, name, data):
    reader = READERS[name]
    key = f"pairing:{{contoso}}:{reader.key}"
    redis_client.delete(key)
    redis_client.hset(key, mapping={"sound": reader.sense, "x": data.draw(spoilt(reader.sense))})
    found = reader.read(SharedState(redis_client, "contoso"))
    if name == "one health":
        assert HEALTH in found
    else:
        assert "sound" in found


@pytest.mark.parametrize("name", READERS)
def test_what_cannot_be_read_is_reported_once_and_not_what_it_holds(redis_client, caplog, name):
    reader = READERS[name]
    shared = SharedState(redis_client, "contoso")
    redis_client.hset(f"pairing:{{contoso}}:{reader.key}", mapping={"x": "hunter2", "sound": reader.sense})
    with caplog.at_level(logging.WARNING, "pairing"):
        for _ in range(3):
            reader.read(shared)
    [reported] = [line.getMessage() for line in caplog.records]
    assert f"x of pairing:{{contoso}}:{reader.key}" in reported
    assert "hunter2" not in reported


def test_memory_for_what_was_reported_is_bounded(caplog, monkeypatch):
    monkeypatch.setattr(reading, "_MOST_LOGGED", 5)
    for field in map(str, range(12)):
        reading.skipped("key", field, ValueError("no"))
    assert len(reading._logged) <= 5
    assert len(caplog.records) == 12


def test_a_pause_that_cannot_be_read_pauses_all_the_same(redis_client):
    redis_client.hset("pairing:{contoso}:syphon", mapping={"*": "?", "orders": Pause("ada", "why", NOON).to_json()})
    paused = SharedState(redis_client, "contoso").paused()
    assert paused["*"].by == "?"
    assert paused["orders"] == Pause("ada", "why", NOON)


@given(rubbish | spoilt(HEALTH.to_json()))
@few
@example(b'{"version": 7}')
@example(b'{"version": "7", "since": 5}')
@example(b"7")
def test_a_failover_can_be_engaged_over_health_that_makes_no_sense(redis_client, written):
    shared = SharedState(redis_client, "contoso")
    redis_client.delete(shared.channel)
    redis_client.hset(shared.channel, "orders", written)
    forced = shared.fail_over("orders", "drill", operator="ada", process="web")
    assert (forced.state, forced.held_by) == ("failed_over", "ada")
    assert shared.health()["orders"] == forced
    assert shared.mark_healthy("orders", operator="ada", process="web").state == "healthy"


@given(rubbish)
@few
def test_no_step_of_a_process_fails_over_health_that_makes_no_sense(redis_client, written):
    shared = SharedState(redis_client, "contoso")
    steps: list[Callable[[], Any]] = [
        lambda: shared.publish(HEALTH),
        lambda: shared.publish(replace(HEALTH, state="failing")),
        lambda: shared.publish(replace(HEALTH, state="healthy")),
        lambda: shared.hold("orders", operator="ada", process="web"),
        lambda: shared.release("orders", operator="ada", process="web"),
        lambda: shared.mark_healthy("orders", operator="ada", process="web"),
        lambda: shared.restore(HEALTH),
        lambda: shared.of_several("hold", ["orders"], operator="ada", process="web"),
    ]
    for step in steps:
        redis_client.delete(shared.channel)
        redis_client.hset(shared.channel, "orders", written)
        step()


def test_numbers_that_make_no_sense_begin_anew(redis_client):
    shared = SharedState(redis_client, "contoso")
    for key in ("ping-due", "pings", "fence", "ledger-token"):
        redis_client.hset(f"pairing:{{contoso}}:{key}", "orders", "soon")
    redis_client.set("pairing:{contoso}:latest", "soon")
    assert shared.claim_ping("orders", 60)
    assert not shared.claim_ping("orders", 60)
    shared.record_ping("orders", accepted=False, reason="refused")
    assert shared.pings()["orders"].count == 1
    assert (token := shared.acquire_lease("orders", "host:1:aaaa", 10))
    assert shared.keep_ledger("orders", "{}", token=token)
    assert shared.news(None).is_everything
    shared.publish(HEALTH)
    assert shared.news(None).seen.latest > 0


def test_one_entity_that_cannot_be_read_cuts_no_process_off(redis_url, redis_client):
    coordination = RedisCoordination(redis_url, "contoso", "host:1:aaaa")
    learnt: list[str] = []
    coordination._on_change = lambda health: learnt.append(health.path)
    redis_client.hset(coordination.shared.channel, mapping={"payments": b"\xff\xfe", "orders": "?", b"\xff": "{}"})
    redis_client.set("pairing:{contoso}:latest", 5)
    other = SharedState(redis_client, "contoso")
    other.fail_over("invoices", "drill", operator="ada", process="web")
    coordination._reconcile()
    assert learnt == ["invoices"]
    coordination.publish(replace(HEALTH, path="payments"))
    coordination.publish(HEALTH)
    coordination._report_all()
    assert other.health().keys() == {"invoices", "orders", "payments"}
    for channel_says in (b"\xff", b"[" * 100_000, b"{}"):
        coordination._read(channel_says)
        coordination._read_queue(channel_says)
    coordination.close()


def test_a_decision_that_makes_no_sense_is_let_go_with_the_others(redis_client):
    decisions = SharedDecisions(SharedState(redis_client, "contoso"), "q")
    for written in ("?", '["sold", [1]]', '["restored", ["1"]]', '[["restored"], [1]]', "{}"):
        redis_client.rpush("pairing:{contoso}:dead_letter_results:q", written)
    ledger = Ledger("q", "")
    ledger.close(5, "dead_lettered")
    decisions.report("discarded", [5])
    assert decisions.apply(ledger) == 6
    assert ledger.count("discarded") == 1


def test_a_process_that_cannot_be_read_is_not_counted(redis_client):
    presences = Presences(SharedState(redis_client, "contoso"))
    redis_client.hset("pairing:{contoso}:processes", mapping={"x": "?", "y": '{"at": null, "report": []}'})
    presences.report("host:1:aaaa", Presence(sends=True))
    assert presences.living().keys() == {"host:1:aaaa"}


def test_a_redis_client_that_gives_bytes_is_read_alike(redis_url):
    with redis.Redis.from_url(redis_url) as raw:
        raw.hset("pairing:{contoso}:pace", mapping={b"\xff": b"\xff", b"*": Pace(1.0, "ada", "why", NOON).to_json()})
        assert SharedState(raw, "contoso").paces() == {"*": Pace(1.0, "ada", "why", NOON)}
