"""Events and health reach the database once, in spite of redelivery (docs/specification.md, section 11)."""

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime

import pytest
import redis
from django.db import DataError, OperationalError

from dashboard.fleet.pairs.pairs_file import PairConfig
from dashboard.fleet.pairs.sync import sync
from dashboard.fleet.state import catching_up
from dashboard.fleet.usage import metered
from dashboard.models import EntityHealth, FailoverEvent, MeteredRecord
from dashboard.site.redis import CHANGED
from pairing.events import Event
from pairing.fleet.coordination import SharedState
from pairing.telemetry.metering import UsageRecord
from pairing.testing import ManualClock
from workers import collectors
from workers.streams import Reader

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def event(identity: str, kind: str = "failed_over") -> Event:
    return Event(identity * 32, NOW, "contoso", "orders", kind, "connection refused", "host:1:abcdef01")


@pytest.fixture
def reader(fleet: redis.Redis, pairs: dict[str, PairConfig]) -> Reader:
    list(sync(pairs))
    return Reader(fleet, "pairing:events", "event", "test")


@pytest.fixture
def announced(fleet: redis.Redis) -> Iterator[redis.client.PubSub]:
    with closing(fleet.pubsub(ignore_subscribe_messages=True)) as channel:
        channel.subscribe(CHANGED)
        channel.get_message(timeout=60)
        yield channel


def collect(reader: Reader) -> None:
    collectors.save_events(reader, next(batch for batch in reader.batches(threading.Event()) if batch))


def test_an_event_is_stored_once_though_it_is_delivered_twice(reader, fleet):
    shared = SharedState(fleet, "contoso")
    shared.report(event("a"), event("a"))
    collect(reader)
    shared.report(event("a"), event("b", "recovered"))
    collect(reader)
    assert sorted(FailoverEvent.objects.values_list("kind", flat=True)) == ["failed_over", "recovered"]


def test_an_event_stays_in_the_stream_while_the_database_refuses_it(reader, fleet, monkeypatch):
    SharedState(fleet, "contoso").report(event("a"))

    def refuse(_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(collectors.projection, "record_events", refuse)
    with pytest.raises(OSError, match="disk full"):
        collect(reader)
    assert fleet.xlen("pairing:events") == 1


def test_pages_are_notified_after_the_event_is_stored(reader, fleet, announced):
    SharedState(fleet, "contoso").report(event("a"))
    collect(reader)
    assert announced.get_message(timeout=60) is not None


def test_health_follows_the_event_that_reports_it(reader, fleet):
    shared = SharedState(fleet, "contoso")
    shared.fail_over("orders", "drill", operator="ada", process="web")
    shared.record_ping("orders", accepted=False, reason="refused")
    shared.report(event("a", "forced"))
    collect(reader)
    entity = EntityHealth.objects.get(path="orders")
    assert (entity.state, entity.held_by, entity.last_ping_reason) == ("failed_over", "ada", "refused")


LATER = json.dumps(json.loads(event("c").to_json()) | {"kind": "of a later version"})


@pytest.mark.parametrize("text", ["no JSON", '{"id": "incomplete"}', LATER])
def test_a_report_that_cannot_be_read_holds_up_no_other(reader, fleet, text):
    fleet.xadd("pairing:events", {"event": text})
    SharedState(fleet, "contoso").report(event("d"))
    collect(reader)
    assert list(FailoverEvent.objects.values_list("event_id", flat=True)) == ["d" * 32]
    assert fleet.xlen("pairing:events") == 0


def test_a_state_that_cannot_be_read_holds_up_no_event(reader, fleet):
    shared = SharedState(fleet, "contoso")
    fleet.hset("pairing:{contoso}:health", "payments", '{"path": "payments"}')
    shared.report(event("e"))
    collect(reader)
    assert FailoverEvent.objects.count() == 1
    assert fleet.xlen("pairing:events") == 0


def test_a_change_of_one_entity_of_many_costs_a_handful_of_queries(reader, fleet, django_assert_max_num_queries):
    shared = SharedState(fleet, "contoso")
    for number in range(200):
        shared.fail_over(f"orders/{number}", "drill", operator="ada", process="web")
        shared.record_ping(f"orders/{number}", accepted=True, reason="")
    assert catching_up.catch_up("contoso")
    assert EntityHealth.objects.filter(state="failed_over", last_ping_accepted=True).count() == 200
    shared.mark_healthy("orders/7", operator="ada", process="web")
    with django_assert_max_num_queries(10):
        assert catching_up.catch_up("contoso")
    assert EntityHealth.objects.filter(state="healthy").get().path == "orders/7"
    assert not catching_up.catch_up("contoso")


def test_a_database_that_lags_behind_is_brought_up_to_date_in_time(reader, fleet, monkeypatch):
    SharedState(fleet, "contoso").fail_over("orders", "drill", operator="ada", process="web")
    monkeypatch.setattr(catching_up, "READ_ALL_S", 0.0)
    assert catching_up.catch_up("contoso")
    EntityHealth.objects.update(state="unknown", version=0, held_by=None)  # yesterday's copy
    assert catching_up.catch_up("contoso")
    assert EntityHealth.objects.get(path="orders").state == "failed_over"


def test_a_health_that_could_not_be_stored_is_news_once_more(reader, fleet, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError("disk full")

    catching_up.catch_up("contoso")
    SharedState(fleet, "contoso").fail_over("orders", "drill", operator="ada", process="web")
    with monkeypatch.context() as broken:
        broken.setattr(catching_up.projection, "apply_all_health", refuse)
        with pytest.raises(OSError, match="disk full"):
            catching_up.catch_up("contoso")
    assert catching_up.catch_up("contoso")
    assert EntityHealth.objects.get(path="orders").state == "failed_over"


def metered_entry(record_id: str) -> tuple[str, str]:
    minute = datetime.now(UTC).replace(second=0, microsecond=0)
    place = ("contoso", "contoso", "contoso", "orders", "send", "host:1:aaaa")
    return "1-0", UsageRecord(record_id, minute, *place, 1, 3, 3, 900, 3).to_json()


def test_usage_is_stored_for_the_pages(pairs, monkeypatch):
    monkeypatch.setattr(collectors, "pairs", lambda: pairs)
    collectors.LiveUsage().add([metered_entry("one")])
    assert MeteredRecord.objects.get().scope == "north"


def test_a_database_that_is_away_is_asked_now_and_then_and_gets_what_came_meanwhile(pairs, monkeypatch):
    monkeypatch.setattr(collectors, "pairs", lambda: pairs)
    clock, tried = ManualClock(), []

    def refuse(records: Iterable[UsageRecord], _: datetime) -> int:
        tried.append(len(list(records)))
        raise OperationalError("the database is away")

    pages = collectors.LiveUsage(clock.now)
    with monkeypatch.context() as away:
        away.setattr(metered, "store", refuse)
        for number in range(100):
            pages.add([metered_entry(f"{number}")])
            clock.advance(0.25)
    assert tried == [1, 41, 81], "each attempt may take seconds, and is a line in the log"
    clock.advance(collectors.DATABASE_REST_S)
    pages.add([])
    assert MeteredRecord.objects.count() == 100


def test_a_record_that_the_database_refuses_keeps_no_other_from_the_pages(pairs, monkeypatch):
    monkeypatch.setattr(collectors, "pairs", lambda: pairs)
    pages = collectors.LiveUsage()
    with monkeypatch.context() as refusing:
        refusing.setattr(metered, "store", lambda *_: (_ for _ in ()).throw(DataError("out of range")))
        pages.add([metered_entry("one")])
    pages.add([metered_entry("two")])
    assert MeteredRecord.objects.count() == 1
