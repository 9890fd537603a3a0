"""What a sender does while sessions are kept in order, in both worlds (docs/design/session-order.md)."""

from collections import defaultdict

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from pairing.messages.rewriting import SESSION_ID
from pairing.sessions import gates as session_gates
from pairing.sessions import shared as shared_sessions
from pairing.sessions.rulings import session_key
from pairing.sessions.shared import SharedSessions
from tests.pace import slowed

pytestmark = pytest.mark.sampled("world")


def message(text: str, session: str | None) -> ServiceBusMessage:
    return ServiceBusMessage(text, session_id=session, message_id=text)


def in_backlog(world, client) -> dict[str, dict[str, list[str]]]:
    """The bodies by queue and session."""
    found: dict[str, dict[str, list[str]]] = {}
    with ServiceBusClient.from_connection_string(world.secondary.connection_string) as sdk:
        for queue in client.backlog_paths:
            with sdk.get_queue_receiver(queue) as receiver:
                by_session = found.setdefault(queue, defaultdict(list))
                for item in receiver.peek_messages(100):
                    by_session[item.application_properties.get(SESSION_ID.encode(), b"").decode()].append(str(item))
    return found


@pytest.fixture
def quick_gates(monkeypatch):
    """Gates that need not be up for long: there is no other process, and this one trusts its copy no longer."""
    monkeypatch.setattr(shared_sessions, "RAISING_S", 0.05)
    monkeypatch.setattr(session_gates, "FRESH_S", 0.04)


async def ordered(world, redis_url, *, connected=True):
    client = await world.open(coordination=redis_url, preserve_session_order=True)
    await world.until(lambda: client.coordination.is_connected is connected)
    return client


@pytest.fixture
async def client(world, queue, redis_url, quick_gates):
    """A client that keeps the order of sessions, with its queue failed over."""
    client = await ordered(world, redis_url)
    client.fail_over(queue, "drill")
    return client


def risks(world) -> list[tuple[str, str]]:
    """Of which entity the order is at risk, and why."""
    return [(event.entity, event.reason) for event in world.events if event.kind == "order_at_risk"]


async def test_messages_of_several_sessions_each_go_to_the_queue_of_their_own(world, queue, client):
    sender = client.get_queue_sender(queue)
    texts = [(f"{session}{n}", session) for n in range(3) for session in "abcdef"]
    await world(sender.send_messages, [message(*each) for each in texts] + [message("x", None)])
    for n in (3, 4):
        for session in "abcdef":
            await world(sender.send_messages, message(f"{session}{n}", session))
    found = in_backlog(world, client)
    for session in "abcdef":
        queues = [by_session[session] for by_session in found.values() if by_session[session]]
        assert queues == [[f"{session}{n}" for n in range(5)]]
    assert [by_session[""] for by_session in found.values() if by_session[""]] == [["x"]]


async def test_a_healthy_entity_gets_nothing_of_a_session_still_in_the_backlog(world, queue, primary, client):
    sender = client.get_queue_sender(queue)
    await world(sender.send_messages, message("first", "s"))
    client.mark_healthy(queue)
    await world(sender.send_messages, [message("other", "t"), message("second", "s")])
    assert [str(each) for each in primary.receive(queue, 1)] == ["other"]
    texts = [by_session["s"] for by_session in in_backlog(world, client).values() if by_session["s"]]
    assert texts == [["first", "second"]]


async def test_a_healthy_send_asks_nobody(world, queue, primary, redis_url, monkeypatch):
    client = await ordered(world, redis_url)
    await world.until(lambda: client._fleet.sessions.is_free(queue))
    asked = []
    monkeypatch.setattr(SharedSessions, "enter", lambda *reported, **more: asked.append(reported))
    sender = client.get_queue_sender(queue)
    await world(sender.send_messages, [message("a", "s"), message("b", "t")])
    assert (len(primary.receive(queue, 2)), asked) == (2, [])


async def test_a_process_that_has_not_read_the_gates_lately_asks_first(world, queue, primary, redis_url, monkeypatch):
    monkeypatch.setattr(session_gates, "FRESH_S", -1.0)
    client = await ordered(world, redis_url)
    asked = []
    enter = SharedSessions.enter
    monkeypatch.setattr(SharedSessions, "enter", lambda *reported, **more: asked.append(1) or enter(*reported, **more))
    sender = client.get_queue_sender(queue)
    await world(sender.send_messages, message("a", "s"))
    assert (len(primary.receive(queue, 1)), asked) == (1, [1])


@pytest.mark.usefixtures("quick_gates")
async def test_without_redis_sends_go_on_and_an_event_says_that_the_order_is_at_risk(world, queue, redis_url):
    client = await ordered(world, "redis://127.0.0.1:1/0", connected=False)
    sender = client.get_queue_sender(queue)
    client.fail_over(queue, "drill")
    for n in range(3):
        await world(sender.send_messages, message(str(n), "s"))
    texts = [by_session["s"] for by_session in in_backlog(world, client).values() if by_session["s"]]
    assert texts == [["0", "1", "2"]]
    assert len(risks(world)) == 1


# Where the order is at risk, an event says so: each exception of docs/design/session-order.md


async def test_a_second_writer_of_a_session_is_reported(world, queue, client):
    sender = client.get_queue_sender(queue)
    await world(sender.send_messages, message("0", "s"))
    await world(sender.send_messages, message("1", "s"))
    assert risks(world) == []
    other = SharedSessions(client.coordination.shared)
    other.enter(session_key(queue, "s"), None, "host:2:other", within_s=30)
    await world(sender.send_messages, message("2", "s"))
    assert risks(world) == [(queue, "session s: another send of the session may be under way (host:2:other)")]


@pytest.mark.usefixtures("quick_gates")
async def test_a_message_that_the_primary_may_have_is_reported_when_it_goes_to_the_backlog(
    world, queue, primary, redis_url
):
    client = await ordered(world, redis_url)
    sender = client.get_queue_sender(queue)
    await world(sender.send_messages, message("0", "s"))
    primary.fault(entity=queue, operation="send", effect="lose_ack")
    await world(sender.send_messages, message("1", "s"), timeout=slowed(8))
    assert (queue, "session s: a message was sent again although the first attempt may have been stored") in risks(
        world
    )
    primary.mend()
    assert [str(each) for each in primary.receive(queue, 2)] == ["0", "1"], "that it was reported was no false alarm"


async def test_a_message_that_a_backlog_queue_may_have_is_reported_when_it_goes_to_another(
    world, queue, secondary, client
):
    sender = client.get_queue_sender(queue)
    deaf = client.backlog_paths[0]
    secondary.fault(entity=deaf, operation="send", effect="lose_ack")
    for number in range(30):  # queues are chosen at random
        await world(sender.send_messages, message(str(number), f"s{number}"), timeout=slowed(8))
        if risks(world):
            break
    secondary.mend()
    assert risks(world) == [(queue, f"session s{number}: a message was sent again although {deaf} may have it")]
    assert secondary.stats(deaf)["enqueued"] >= 1, "that it was reported was no false alarm"


async def test_a_redis_that_has_forgotten_the_sessions_is_reported(world, queue, client, redis_client):
    sender = client.get_queue_sender(queue)
    await world(sender.send_messages, message("0", "s"))
    redis_client.flushall()
    reason = "Redis has forgotten which sessions have messages in the backlog; they are reported again"
    await world.until(lambda: ("*", reason) in risks(world))
    key = session_key(queue, "s")
    sessions = SharedSessions(client.coordination.shared)
    await world.until(lambda: any(key in (sessions.barred(path) or {}) for path in client.backlog_paths))
