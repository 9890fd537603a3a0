"""Redis belongs to the product: what it holds under our keys is ours, and anything else is one error with its name."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import redis

from pairing.events import Event
from pairing.fleet.redis_url import NamedRedis
from pairing.fleet.shared_backlog import QueueNews
from pairing.fleet.shared_health import Pace, Pause, PingRecord, SharedHealth
from pairing.fleet.shared_state import SharedState
from pairing.telemetry.metering import UsageRecord

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ME = "host:1:aaaa"
HEALTH = SharedHealth("orders", "failed_over", NOON, "an outage", None, None, "organic", 7, ME)
RECORDS = [
    HEALTH,
    replace(HEALTH, held_by="ada", expires=NOON, origin="forced"),
    PingRecord(NOON, False, "refused", 3, NOON),
    Pause("ada", "a rest", NOON),
    Pace(2.5, "ada", "slowly", NOON),
    QueueNews("contoso/x-servicebus-transfer/0", "torn", ME, NOON),
    Event("a" * 32, NOON, "contoso", "orders", "failed_over", "an outage", ME),
    UsageRecord("r", NOON, "s", "contoso", "contoso", "orders/ü", "send", ME, 1, 1, 1, 2**40, 1),
]


@pytest.fixture
def shared(redis_url, redis_client):
    with NamedRedis.from_url(redis_url, decode_responses=True) as client:
        yield SharedState(client, "contoso")


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_is_read_as_it_was_written_and_refused_with_any_field_missing(record):
    written, read = record.to_json(), type(record).from_json
    assert read(written) == record
    fields = json.loads(written)
    for name in fields.keys() - {"operator", "held_by", "expires", "until", "next_due"}:
        with pytest.raises(ValueError, match=f"cannot be read: KeyError.*{name}"):
            read(json.dumps({key: value for key, value in fields.items() if key != name}))


READS = {
    "a command": lambda shared: shared.health(),
    "a script": lambda shared: shared.publish(HEALTH),
    "a pipeline": lambda shared: shared.of_several("fail_over", ["orders"], operator="ada", process="web"),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_value_of_another_type_is_an_error_that_names_its_key(shared, redis_client, read):
    redis_client.rpush(shared.channel, "what a stranger wrote")
    with pytest.raises(redis.ResponseError, match=re.escape("pairing:{contoso}:health")):
        read(shared)
    assert redis_client.lrange(shared.channel, 0, -1) == ["what a stranger wrote"]


def test_a_field_that_cannot_be_read_is_an_error_that_names_it(shared, redis_client):
    redis_client.hset(shared.channel, "orders", "{}")
    with pytest.raises(ValueError, match=re.escape("orders of pairing:{contoso}:health")):
        shared.health()


@pytest.mark.parametrize("asks", [NamedRedis.ping, lambda client: client.pipeline().ping().execute()])
def test_what_is_asked_while_its_client_is_closed_fails_like_what_did_not_reach_redis(redis_url, monkeypatch, asks):
    client = NamedRedis.from_url(redis_url)
    client.ping()
    read = redis.Connection.read_response

    def closed_meanwhile(*arguments, **options):
        client.close()
        return read(*arguments, **options)

    monkeypatch.setattr(redis.Connection, "read_response", closed_meanwhile)
    with pytest.raises(redis.ConnectionError, match="closed before Redis answered"):
        asks(client)
