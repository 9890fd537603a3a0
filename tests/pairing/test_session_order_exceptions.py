"""Where the order of a session is at risk, an event says so: each exception of docs/design/session-order.md, in both
worlds."""

import pytest
from azure.servicebus import ServiceBusMessage

from pairing.sessions import shared as shared_sessions
from pairing.sessions.rulings import session_key
from pairing.sessions.shared import SharedSessions
from tests.pace import slowed


@pytest.fixture(autouse=True)
def quick_gates(monkeypatch):
    """Gates that need not be up for long: there is no other process."""
    monkeypatch.setattr(shared_sessions, "RAISING_S", 0.05)


async def ordered(world, redis_url, **options):
    client = await world.open(coordination=redis_url, preserve_session_order=True, **options)
    await world.until(lambda: client.coordination.is_connected)
    return client


def message(text: str) -> ServiceBusMessage:
    return ServiceBusMessage(text, session_id="s", message_id=text)


def risks(world) -> list[tuple[str, str]]:
    """Of which entity, and why."""
    return [(event.entity, event.reason) for event in world.events if event.kind == "order_at_risk"]


async def test_a_second_writer_of_a_session_is_reported(world, queue, redis_url):
    client = await ordered(world, redis_url)
    sender = client.get_queue_sender(queue)
    client.fail_over(queue, "drill")
    await world(sender.send_messages, message("0"))
    await world(sender.send_messages, message("1"))
    assert risks(world) == []
    other = SharedSessions(client.coordination.shared)
    other.enter(session_key(queue, "s"), None, "host:2:other", within_s=30)
    await world(sender.send_messages, message("2"))
    assert risks(world) == [(queue, "session s: another send of the session may be under way (host:2:other)")]


async def test_a_message_that_the_primary_may_have_is_reported_when_it_goes_to_the_backlog(
    world, queue, primary, redis_url
):
    client = await ordered(world, redis_url)
    sender = client.get_queue_sender(queue)
    await world(sender.send_messages, message("0"))
    primary.fault(entity=queue, operation="send", effect="lose_ack")
    await world(sender.send_messages, message("1"), timeout=slowed(8))
    assert (queue, "session s: a message was sent again although the first attempt may have been stored") in risks(
        world
    )
    primary.mend()
    assert [str(each) for each in primary.receive(queue, 2)] == ["0", "1"], "that it was reported was no false alarm"


async def test_a_message_that_a_backlog_queue_may_have_is_reported_when_it_goes_to_another(
    world, queue, secondary, redis_url
):
    client = await ordered(world, redis_url)
    sender = client.get_queue_sender(queue)
    client.fail_over(queue, "drill")
    deaf = client.backlog_paths[0]
    secondary.fault(entity=deaf, operation="send", effect="lose_ack")
    for number in range(30):  # queues are chosen at random
        text = ServiceBusMessage(str(number), session_id=f"s{number}", message_id=str(number))
        await world(sender.send_messages, text, timeout=slowed(8))
        if risks(world):
            break
    secondary.mend()
    assert risks(world) == [(queue, f"session s{number}: a message was sent again although {deaf} may have it")]
    assert secondary.stats(deaf)["enqueued"] >= 1, "that it was reported was no false alarm"


async def test_a_redis_that_has_forgotten_the_sessions_is_reported(world, queue, redis_url, redis_client):
    client = await ordered(world, redis_url)
    sender = client.get_queue_sender(queue)
    client.fail_over(queue, "drill")
    await world(sender.send_messages, message("0"))
    redis_client.flushall()
    reason = "Redis has forgotten which sessions have messages in the backlog; they are reported again"
    await world.until(lambda: ("*", reason) in risks(world))
    key = session_key(queue, "s")
    sessions = SharedSessions(client.coordination.shared)
    await world.until(lambda: any(key in (sessions.barred(path) or {}) for path in client.backlog_paths))
