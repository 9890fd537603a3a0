"""What a process has used is reported by time and when it closes, in both worlds (docs/design/metering.md)."""

import json

from azure.servicebus import ServiceBusMessage
from redis.exceptions import ConnectionError as RedisIsAwayError

from pairing.fleet.coordination import USAGE
from pairing.operations import maintenance


def reported(redis_client, pair: str) -> dict[str, int]:
    """Messages by kind, as the last report of each record tells."""
    latest = {}
    for _, fields in redis_client.xrange(USAGE):
        record = json.loads(fields["record"])
        if record["scope"] == pair and record["seq"] >= latest.get(record["record_id"], record)["seq"]:
            latest[record["record_id"]] = record
    found: dict[str, int] = {}
    for record in latest.values():
        found[record["kind"]] = found.get(record["kind"], 0) + record["messages"]
    return found


async def send(world, client, queue: str, count: int) -> None:
    sender = client.get_queue_sender(queue)
    for number in range(count):
        await world(sender.send_messages, ServiceBusMessage(str(number)))


def refuse(records) -> None:
    if list(records):
        raise RedisIsAwayError("no answer")


async def test_what_was_used_is_reported_on_close(world, queue, redis_url, redis_client):
    client = await world.open(coordination=redis_url)
    await world.until(lambda: client.coordination.is_connected)
    await send(world, client, queue, 3)
    assert "send" not in reported(redis_client, client.pair)
    await world(client.close)
    assert reported(redis_client, client.pair)["send"] == 3


async def test_what_was_used_is_reported_by_time_and_what_comes_after_it_once_more(
    world, queue, redis_url, redis_client, monkeypatch
):
    monkeypatch.setattr(maintenance, "REPORT_S", 0.2)
    client = await world.open(coordination=redis_url)
    await send(world, client, queue, 3)
    await world.until(lambda: reported(redis_client, client.pair).get("send") == 3)
    await send(world, client, queue, 2)
    await world.until(lambda: reported(redis_client, client.pair).get("send") == 5)


async def test_what_was_used_while_redis_was_away_is_reported_once_it_is_back(world, queue, redis_url, redis_client):
    client = await world.open(coordination=redis_url)
    await world.until(lambda: client.coordination.is_connected)
    report = client.coordination.shared.record_usage
    client.coordination.shared.record_usage = refuse
    await send(world, client, queue, 3)
    client.coordination.record_usage(client.meter.drain(client.clock.now(), everything=True))
    await world.until(lambda: not client.coordination.is_connected)
    client.coordination.shared.record_usage = report
    await world.until(lambda: reported(redis_client, client.pair).get("send") == 3)
