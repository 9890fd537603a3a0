"""Whatever is under a key of ours in Redis stops no step of a process: it is set aside, or skipped, and reported."""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis

from pairing.drain.dead_letter_results import SharedDecisions
from pairing.drain.lease_holder import LeaseHolder
from pairing.drain.ledger import Ledger
from pairing.drain.left_ledgers import LeftLedgers
from pairing.events import Event
from pairing.fleet import checked_redis
from pairing.fleet.checked_redis import CheckedRedis, lately_set_aside
from pairing.fleet.claims import claimed
from pairing.fleet.coordination import RedisCoordination
from pairing.fleet.keys import PAIRING, Keys
from pairing.fleet.presence import Presence, Presences
from pairing.fleet.shared_backlog import QueueNews, SharedBacklog
from pairing.fleet.shared_health import SharedHealth
from pairing.fleet.shared_state import SharedState
from pairing.sessions.gates import SessionGates
from pairing.sessions.rulings import session_key
from pairing.sessions.shared import SharedSessions
from pairing.telemetry.metering import UsageRecord
from tests.hostile_redis import BYTES, POISONS, all_keys, fields_poisoned, poison

NOW = datetime.now(UTC)
QUEUE = "contoso/x-servicebus-transfer/0"
SESSION = session_key("orders", "ann")
ME = "host:1:aaaa"
HEALTH = SharedHealth("orders", "failed_over", NOW, "an outage", None, None, "organic", 7, ME)
EVENT = Event("a" * 32, NOW, "contoso", "orders", "failed_over", "an outage", ME)
USAGE = UsageRecord("r", NOW, "s", "contoso", "contoso", "orders", "send", ME, 1, 1, 1, 1, 1)
Step = Callable[[SharedState], Any]


def sessions(shared: SharedState) -> SharedSessions:
    return SharedSessions(shared)


def redirect(shared: SharedState) -> None:
    """A session goes to the backlog, through a gate that has been up for long enough."""
    SharedSessions(shared).sync("an epoch", ["orders"])
    SharedSessions(shared).bar(QUEUE, [SESSION])
    SharedSessions(shared).enter(SESSION, QUEUE, "token", within_s=1)


STEPS: dict[str, Step] = {
    "health": lambda shared: shared.health(),
    "health of one": lambda shared: shared.health_of("orders"),
    "news": lambda shared: shared.news(None),
    "publish": lambda shared: shared.publish(HEALTH),
    "publish failing": lambda shared: shared.publish(replace(HEALTH, state="failing")),
    "publish healthy": lambda shared: shared.publish(replace(HEALTH, state="healthy")),
    "restore": lambda shared: shared.restore(HEALTH),
    "fail over": lambda shared: shared.fail_over("orders", "drill", operator="ada", process="web"),
    "hold": lambda shared: shared.hold("orders", operator="ada", process="web", expires=NOW + timedelta(hours=1)),
    "release": lambda shared: shared.release("orders", operator="ada", process="web"),
    "mark healthy": lambda shared: shared.mark_healthy("orders", operator="ada", process="web"),
    "several": lambda shared: shared.of_several(
        "fail_over", ["orders"], operator="ada", process="web", events={"orders": EVENT}
    ),
    "know": lambda shared: shared.know(["orders"]),
    "known": lambda shared: shared.known(),
    "claim a ping": lambda shared: shared.claim_ping("orders", 60),
    "record a ping": lambda shared: shared.record_ping("orders", accepted=False, reason="refused"),
    "pings": lambda shared: shared.pings(),
    "pause": lambda shared: shared.pause_syphon(None, operator="ada", reason="a rest"),
    "paused": lambda shared: shared.paused(),
    "pace": lambda shared: shared.pace_syphon("orders", 2.0, "ada", "slowly"),
    "paces": lambda shared: shared.paces(),
    "resume": lambda shared: shared.resume_syphon("orders"),
    "rotate": lambda shared: shared.report_rotation(ME, [QUEUE]),
    "rotations": lambda shared: shared.rotations(),
    "acquire": lambda shared: shared.acquire_lease(QUEUE, ME, 5),
    "renew": lambda shared: shared.renew_lease(QUEUE, ME, 5),
    "leases": lambda shared: shared.leases(),
    "keep a ledger": lambda shared: shared.keep_ledger(QUEUE, "{}", token=int(time.time() * 2000)),
    "ledger": lambda shared: shared.ledger(QUEUE),
    "ledgers": lambda shared: shared.ledgers(),
    "event": lambda shared: shared.report(EVENT),
    "usage": lambda shared: shared.record_usage([USAGE]),
    "present": lambda shared: Presences(shared).report(ME, Presence(sends=True)),
    "living": lambda shared: Presences(shared).living(),
    "look at queues": lambda shared: SharedBacklog(shared).claim_look(5),
    "repair queues": lambda shared: SharedBacklog(shared).claim_repair(5),
    "fills": lambda shared: SharedBacklog(shared).record({QUEUE: (9, 10)}, time.time()),
    "pull a queue": lambda shared: SharedBacklog(shared).report(QueueNews(QUEUE, "full", ME, NOW + timedelta(hours=1))),
    "pulled": lambda shared: SharedBacklog(shared).pulled(),
    "decide": lambda shared: SharedDecisions(shared, QUEUE).report("discarded", [1]),
    "decisions": lambda shared: SharedDecisions(shared, QUEUE).apply(Ledger(QUEUE, "")),
    "decisions are kept": lambda shared: SharedDecisions(shared, QUEUE).remove(1),
    "leave a ledger": lambda shared: LeftLedgers(shared, QUEUE).leave(json.dumps(Ledger(QUEUE).to_json())),
    "ledgers that were left": lambda shared: LeftLedgers(shared, QUEUE).absorb_into(Ledger(QUEUE)),
    "ledgers that were left are merged": lambda shared: LeftLedgers(shared, QUEUE).remove(1),
    "redirect": redirect,
    "gates": lambda shared: sessions(shared).sync("an epoch", ["orders"]),
    "enter": lambda shared: sessions(shared).enter(SESSION, QUEUE, "token", within_s=1),
    "leave": lambda shared: sessions(shared).leave([(SESSION, "token", True)]),
    "move": lambda shared: sessions(shared).move(SESSION, "token", "another", is_gone=True),
    "hold a session": lambda shared: sessions(shared).hold(QUEUE, [SESSION], 1.0),
    "barred": lambda shared: sessions(shared).barred(QUEUE),
    "lift": lambda shared: sessions(shared).lift(QUEUE, {SESSION: 1}),
    "release a lease": lambda shared: shared.release_lease(QUEUE, ME),
    "leave the fleet": lambda shared: Presences(shared).leave(ME),
}
"""What processes, workers and pages do with the Redis of a fleet."""


@pytest.fixture
def shared(redis_url: str, redis_client: redis.Redis) -> Iterator[SharedState]:
    checked_redis._logged.clear()
    with CheckedRedis.from_url(redis_url, decode_responses=True, encoding_errors="replace") as client:
        yield SharedState(client, "contoso")


@pytest.fixture
def used(shared: SharedState, redis_client: redis.Redis) -> dict[str, str]:
    """The keys that the steps leave behind, with their types; and the marks of claims and what was set aside."""
    found: dict[str, str] = {}
    for step in STEPS.values():
        step(shared)
        found |= all_keys(redis_client)
    return found


def test_every_key_that_the_library_writes_is_in_the_table_with_its_type(used, shared, redis_client):
    poison(redis_client, ["pairing:{contoso}:health"], "list")
    shared.health()
    found = used | {"pairing:set-aside": all_keys(redis_client)["pairing:set-aside"]}
    table = Keys(PAIRING)
    assert {key: table.kind_of(key) for key in found} == found
    unused = [pattern for pattern, kind in PAIRING.items() if not Keys({pattern: kind}).among(found)]
    assert unused == []


@pytest.mark.parametrize("kind", POISONS)
def test_no_step_fails_over_any_type_under_any_key(kind, used, shared, redis_client):
    for name, step in STEPS.items():
        poison(redis_client, used, kind)
        try:
            step(shared)
        except Exception as error:
            raise AssertionError(f"{name} fails over a {kind}") from error


def test_no_step_fails_over_values_that_are_no_text(used, shared, redis_client):
    for name, step in STEPS.items():
        for before in STEPS.values():
            before(shared)
        fields_poisoned(redis_client, all_keys(redis_client))
        try:
            step(shared)
        except Exception as error:
            raise AssertionError(f"{name} fails") from error


@pytest.mark.parametrize("kind", POISONS)
def test_a_process_goes_on_with_its_fleet_whatever_was_put_into_redis(kind, used, redis_url, redis_client):
    learnt: list[str] = []
    poison(redis_client, used, kind)
    process = RedisCoordination(redis_url, "contoso", ME)
    process.rotation = lambda: [QUEUE]
    process.start(lambda health: learnt.append(health.path))
    poison(redis_client, used, kind)
    process.report(EVENT)
    process.record_usage([USAGE])
    process.publish(replace(HEALTH, path="payments"))
    with CheckedRedis.from_url(redis_url, decode_responses=True, encoding_errors="replace") as client:
        other = SharedState(client, "contoso")
        other.fail_over("invoices", "drill", operator="ada", process="web")
        until(lambda: "invoices" in learnt)
        until(lambda: "payments" in other.health())
        until(lambda: any(EVENT.id in str(entry) for entry in client.xrange("pairing:events")))
        until(lambda: any('"r"' in str(entry) for entry in client.xrange("pairing:usage")))
        assert process.is_connected
    process.close()


@pytest.mark.parametrize("kind", POISONS)
def test_sends_of_sessions_are_answered_whatever_was_put_into_redis(kind, used, shared, redis_client):
    risks: list[str] = []
    gates = SessionGates(shared, ME, endangered=lambda: ["orders"], at_risk=lambda entity, reason: risks.append(reason))
    poison(redis_client, used, kind)
    gates.refresh()
    poison(redis_client, used, kind)
    assert gates.consult(SESSION, QUEUE, "token", 1.0) is not None
    poison(redis_client, used, kind)
    assert isinstance(gates.move(SESSION, "token", "another", is_gone=True), bool)
    assert not gates.is_away


@pytest.mark.parametrize("kind", POISONS)
def test_leases_are_held_whatever_was_put_into_redis(kind, used, shared, redis_client):
    coordination = RedisCoordination("redis://127.0.0.1:1/0", "contoso", ME)
    coordination.shared = shared
    poison(redis_client, used, kind)
    holder = LeaseHolder(coordination, ME, lambda: [QUEUE], lambda *_: None)
    shared.resume_syphon(None)
    for _ in range(2):
        holder.look()
    assert holder.may_serve(QUEUE)
    assert shared.keep_ledger(QUEUE, "{}", token=holder.begin(QUEUE))


def test_plain_clients_of_redis_raise_its_error_and_nothing_else(used, redis_client):
    shared = SharedState(redis_client, "contoso")
    poison(redis_client, used, "stream")
    with pytest.raises(redis.RedisError):
        shared.publish(HEALTH)


def test_what_is_set_aside_is_kept_for_a_week_logged_once_and_listed(shared, redis_client, caplog):
    with caplog.at_level(logging.ERROR, "pairing"):
        for _ in range(3):
            poison(redis_client, [shared.channel], "list")
            shared.health()
    [line] = [record.getMessage() for record in caplog.records]
    assert f"{shared.channel} in Redis was a list and should be a hash" in line
    assert redis_client.type(f"{shared.channel}:set-aside") == "list"
    assert 6 * 86_400 < redis_client.ttl(f"{shared.channel}:set-aside") <= 7 * 86_400
    assert lately_set_aside(redis_client, 60)[shared.channel].found == "list"
    redis_client.hset("pairing:set-aside", shared.channel, json.dumps({"found": "list", "at": 5}))
    assert lately_set_aside(redis_client, 60) == {}


def test_a_stream_that_takes_nothing_more_is_begun_anew_with_what_was_in_it(shared, redis_client):
    shared.report(EVENT)
    POISONS["full stream"](redis_client, "pairing:events")
    later = replace(EVENT, id="b" * 32)
    shared.report(later)
    entries = [fields for _, fields in redis_client.xrange("pairing:events")]
    assert [Event.from_json(fields["event"]) for fields in entries] == [EVENT, later]


def test_keys_of_others_are_left_alone(shared, redis_client):
    redis_client.rpush("theirs", "x")
    with pytest.raises(redis.ResponseError):
        shared.redis.hgetall("theirs")
    assert redis_client.lrange("theirs", 0, -1) == ["x"]


@pytest.mark.parametrize("key", ["pairing:{contoso}:fills-look", "pairing:{contoso}:queues-repair"])
def test_a_claim_without_an_end_ends_all_the_same(shared, redis_client, key):
    redis_client.set(key, "for ever")
    assert not claimed(shared.redis, key, 60)
    assert 0 < redis_client.ttl(key) <= 60


@pytest.mark.parametrize("end", [None, 10**9])
def test_a_lease_without_an_end_is_nobodys(shared, redis_client, end):
    redis_client.set(f"pairing:{{contoso}}:lease:{QUEUE}", "a stranger", ex=end)
    assert shared.acquire_lease(QUEUE, ME, 5)


@pytest.mark.parametrize("number", ["inf", "-inf", "nan", "1e308", "9" * 300, "1.5"])
def test_numbers_that_nobody_of_ours_has_written_hold_nothing_up(shared, redis_client, number):
    for key in ("ping-due", "fence", "ledger-token"):
        redis_client.hset(f"pairing:{{contoso}}:{key}", mapping={"orders": number, QUEUE: number})
    redis_client.set("pairing:{contoso}:latest", number)
    redis_client.set("pairing:{contoso}:session-latest", number)
    redis_client.hset(shared.channel, "orders", HEALTH.to_json().replace('"version": 7', f'"version": {number}'))
    assert shared.claim_ping("orders", 60)
    assert (token := shared.acquire_lease(QUEUE, ME, 5))
    assert shared.keep_ledger(QUEUE, "{}", token=token)
    seen = shared.news(None).seen
    shared.publish(HEALTH)
    assert shared.health()["orders"].state == "failed_over"
    assert "orders" in shared.news(seen).texts
    redirect(shared)
    assert sessions(shared).barred(QUEUE)


def until(holds: Callable[[], bool], within_s: float = 60.0) -> None:
    ended = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < ended
        threading.Event().wait(0.02)


def test_a_barrier_that_cannot_be_read_stays_up_and_can_be_lifted(shared, redis_client):
    redirect(shared)
    redis_client.hset(f"pairing:{{contoso}}:sessions:{QUEUE}", SESSION, BYTES)
    ruling = sessions(shared).enter(SESSION, None, "another", within_s=1)
    assert (ruling.queue, ruling.is_new) == (QUEUE, False)
    redis_client.hset(f"pairing:{{contoso}}:sessions:{QUEUE}", SESSION, BYTES)
    drained = sessions(shared).barred(QUEUE)
    assert sessions(shared).lift(QUEUE, drained) == 1


def test_a_gate_that_cannot_be_read_stays_up(shared, redis_client):
    sessions(shared).sync("an epoch", ["orders"])
    redis_client.hset("pairing:{contoso}:session-gates", "orders", BYTES)
    assert sessions(shared).sync("an epoch", []).up == {"orders"}


@pytest.mark.parametrize("asks", [CheckedRedis.ping, lambda client: client.pipeline().ping().execute()])
def test_what_is_asked_while_its_client_is_closed_fails_like_what_did_not_reach_redis(redis_url, monkeypatch, asks):
    client = CheckedRedis.from_url(redis_url)
    client.ping()
    read = redis.Connection.read_response

    def closed_meanwhile(*arguments: Any, **options: Any) -> Any:
        client.close()
        return read(*arguments, **options)

    monkeypatch.setattr(redis.Connection, "read_response", closed_meanwhile)
    with pytest.raises(redis.ConnectionError, match="closed before Redis answered"):
        asks(client)
