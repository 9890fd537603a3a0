"""A process takes part in its fleet, and decides alone where Redis is away (docs/specification.md, section 11)."""

import threading
from datetime import UTC, datetime

import pytest
import redis

from pairing.events import Event
from pairing.fleet.coordination import EVENTS, RedisCoordination, SharedHealth, SharedState
from tests.pace import Stopwatch, eventually
from tests.pairing import leftovers
from tests.pairing.own_redis import RedisServer

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Process:
    """One process of the fleet, and what it was reported."""

    def __init__(self, url: str, name: str) -> None:
        self.coordination = RedisCoordination(url, "contoso", name)
        self.reported: list[SharedHealth] = []
        self._news = threading.Condition()
        self.coordination.start(self._hear)

    def _hear(self, change: SharedHealth) -> None:
        with self._news:
            self.reported.append(change)
            self._news.notify_all()

    def hears(self, state: str, timeout_s: float = 120) -> bool:
        with self._news:
            return self._news.wait_for(lambda: bool(self.reported) and self.reported[-1].state == state, timeout_s)


@pytest.fixture
def join(server):
    processes = []

    def one(name: str) -> Process:
        processes.append(Process(server.url, name))
        eventually(lambda: processes[-1].coordination.is_connected)
        return processes[-1]

    yield one
    for process in processes:
        process.coordination.close()
    assert not leftovers.threads()


def shared(server: RedisServer) -> SharedState:
    return SharedState(redis.Redis.from_url(server.url, decode_responses=True), "contoso")


def change(state: str, path: str = "orders", version: int = 0, since: datetime = NOON) -> SharedHealth:
    return SharedHealth(path, state, since, "r", None, None, "organic", version, "")


def event(number: int) -> Event:
    return Event(f"{number:032x}", NOON, "contoso", "orders", "failing", "r", "p")


def test_one_process_s_failover_and_recovery_are_news_to_all_but_itself(server, join):
    one, two = join("one"), join("two")
    one.coordination.publish(change("failed_over"))
    assert two.hears("failed_over")
    assert two.reported[-1].process == "one"
    one.coordination.publish(change("healthy"))
    assert two.hears("healthy")
    assert one.reported == []


def test_failing_is_shown_and_adopted_by_nobody(server, join):
    one, two = join("one"), join("two")
    one.coordination.publish(change("failing"))
    eventually(lambda: "orders" in shared(server).health())
    one.coordination.publish(change("failed_over", path="payments"))
    assert two.hears("failed_over")
    assert [news.path for news in two.reported] == ["payments"]


def test_a_process_that_comes_later_learns_what_stands(server, join):
    shared(server).fail_over("orders", "drill", operator="ada", process="web")
    assert join("late").hears("failed_over")


def test_who_is_contradicted_is_informed_of_what_stands(server, join):
    one = join("one")
    shared(server).fail_over("orders", "drill", operator="ada", process="web")
    assert one.hears("failed_over")
    one.coordination.publish(change("healthy", version=0), recovers=False)
    eventually(lambda: len(one.reported) == 2)
    assert one.reported[-1].held_by == "ada"


def test_with_redis_killed_nothing_blocks_and_the_news_is_reported_when_it_is_back(server, join):
    one, two = join("one"), join("two")
    server.kill()
    eventually(lambda: not one.coordination.is_connected)
    with Stopwatch() as watch:
        for number in range(1000):
            one.coordination.publish(change("failed_over"))
            one.coordination.report(event(number))
        assert one.coordination.claim_ping("orders", 60) is None
    assert watch.took < 1
    server.start()
    assert two.hears("failed_over")
    client = redis.Redis.from_url(server.url, decode_responses=True)
    eventually(lambda: client.xlen(EVENTS) == 1000)
    ids = [Event.from_json(fields["event"]).id for _, fields in client.xrange(EVENTS)]
    assert ids == [event(number).id for number in range(1000)]
    client.close()


def test_a_redis_that_comes_back_empty_is_informed_what_the_fleet_knows(server, join):
    one, two = join("one"), join("two")
    forced = shared(server).fail_over("orders", "drill", operator="ada", process="web")
    assert one.hears("failed_over")
    assert two.hears("failed_over")
    server.kill()
    server.start()
    eventually(lambda: shared(server).health() == {"orders": forced})
    assert len(one.reported) == len(two.reported) == 1


def test_a_frozen_redis_blocks_nobody_and_goes_on_where_it_was(server, join):
    one, two = join("one"), join("two")
    server.freeze()
    with Stopwatch() as watch:
        one.coordination.publish(change("failed_over"))
        one.coordination.report(event(1))
    assert watch.took < 0.5
    eventually(lambda: not one.coordination.is_connected)
    assert one.coordination.claim_ping("orders", 60) is None
    server.thaw()
    assert two.hears("failed_over")
    eventually(lambda: one.coordination.is_connected)
    assert one.coordination.claim_ping("orders", 60) is True


def test_what_was_missed_while_cut_off_is_read_afterwards(server, join):
    one = join("one")
    one.coordination._must_listen_anew.set()  # as if its subscription had been cut just now
    shared(server).fail_over("orders", "drill", operator="ada", process="web")
    assert one.hears("failed_over")


def test_the_outbox_is_bounded_and_drops_the_oldest_events_not_without_a_word(server, caplog):
    coordination = RedisCoordination(server.url, "contoso", "one")
    for number in range(20_010):
        coordination.report(event(number))
    assert coordination.dropped == 10
    assert [record.levelname for record in caplog.records if "oldest" in record.getMessage()] == ["ERROR"]
    coordination.close()


def test_a_recovery_that_waits_in_the_outbox_is_not_lost_to_a_failure_after_it(server, join):
    store = shared(server)
    held = store.fail_over("orders", "drill", operator="ann", process="web")
    one = RedisCoordination(server.url, "contoso", "one")
    one.publish(change("healthy", version=held.version))
    one.publish(change("failing", version=held.version))
    one.publish(change("healthy", version=held.version), recovers=False)
    one._report_all()
    one.close()
    assert store.health()["orders"].state == "healthy"


def test_closing_shows_what_is_left_and_leaves_no_thread(server, join):
    one = join("one")
    for number in range(2000):
        one.coordination.report(event(number))
    one.coordination.close()
    client = redis.Redis.from_url(server.url)
    assert client.xlen(EVENTS) == 2000
    client.close()


def test_closing_shows_what_is_left_to_a_redis_that_is_back_in_time(server, join, monkeypatch):
    monkeypatch.setattr("pairing.fleet.coordination._CLOSING_S", 60.0)
    one = join("one")
    server.kill()
    one.coordination.report(event(1))
    closing = threading.Thread(target=one.coordination.close)
    closing.start()
    eventually(lambda: not one.coordination.is_connected)
    server.start()
    closing.join(60)
    assert not closing.is_alive()
    client = redis.Redis.from_url(server.url)
    assert client.xlen(EVENTS) == 1
    client.close()


def test_a_password_in_the_url_is_revealed_to_nobody(caplog):
    coordination = RedisCoordination("redis://:secret@127.0.0.1:1/0", "contoso", "one")
    coordination.start(lambda news: None)
    coordination.report(event(1))
    coordination.close()
    assert "secret" not in caplog.text + repr(coordination)
