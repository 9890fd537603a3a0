"""A message without a session for a queue that requires sessions is refused during an outage as it is before.

docs/design/session-order.md, "A forgotten session id".
"""

import asyncio
import contextlib
from datetime import timedelta

import pytest
from azure.core.exceptions import ClientAuthenticationError
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from pairing.health.faults import condition

pytestmark = pytest.mark.sampled("world")

TIMEOUT = timedelta(seconds=20)
WITH, WITHOUT = ServiceBusMessage("with", session_id="s"), ServiceBusMessage("without")


@pytest.fixture
def sessions_queue(primary):
    return primary.create_queue(requires_session=True)


@pytest.fixture
async def client(world):
    return await world.open(backlog_queue_count=1, enable_pings=False)


def stored_in_backlog(world, client):
    return world.secondary.stats(client.backlog_paths[0]).get("enqueued", 0)


async def refusal(world, sender, messages):
    with pytest.raises(ServiceBusError, match=r"requires? sessions") as refused:
        await world(sender.send_messages, messages)
    return condition(refused.value)


@pytest.mark.parametrize("first", [WITH, WITHOUT], ids=["a message with a session", "a refused message without one"])
async def test_it_is_refused_once_the_client_has_learnt_that_the_queue_requires_sessions(
    world, client, sessions_queue, first
):
    sender = client.get_queue_sender(sessions_queue)
    with contextlib.suppress(ServiceBusError):
        await world(sender.send_messages, first)
    healthy = await refusal(world, sender, WITHOUT)
    await world.until(lambda: client._required_sessions.required)
    client.fail_over(sessions_queue, "test")
    before = stored_in_backlog(world, client)
    for messages in (WITHOUT, [WITH, WITHOUT]):
        assert await refusal(world, sender, messages) == healthy == "amqp:not-allowed"
    assert stored_in_backlog(world, client) == before
    await world(sender.send_messages, [WITH, WITH])
    assert stored_in_backlog(world, client) == before + 2


async def test_queues_that_take_messages_without_sessions_go_on_doing_so(world, client, queue, sessions_queue):
    for path in (queue, sessions_queue):
        await world(client.get_queue_sender(path).send_messages, WITH)
    await world.until(lambda: client._required_sessions.required and not client._required_sessions.unknown)
    client.fail_over(queue, "test")
    await world(client.get_queue_sender(queue).send_messages, WITHOUT)
    assert stored_in_backlog(world, client) == 1


async def test_a_key_without_the_right_to_ask_asks_once(world, client, sessions_queue, monkeypatch):
    asked = []

    def refuse(path):
        asked.append(path)
        raise ClientAuthenticationError("no")

    monkeypatch.setattr(client.primary.administration, "get_queue", refuse)
    sender = client.get_queue_sender(sessions_queue)
    await world(sender.send_messages, WITH)
    await world.until(lambda: asked and not client._required_sessions.unknown)
    await refusal(world, sender, WITHOUT)
    assert (asked, client._required_sessions.unknown) == ([sessions_queue], {})
    client.fail_over(sessions_queue, "test")
    await world(sender.send_messages, WITHOUT)
    assert stored_in_backlog(world, client) == 1


async def test_one_that_reached_the_backlog_is_dead_lettered_with_the_reason(world, sessions_queue):
    client = await world.open(
        backlog_queue_count=1, enable_pings=False, enable_syphon=True, max_restore_attempts=2, send_timeout=TIMEOUT
    )
    client.fail_over(sessions_queue, "test")
    sender = client.get_queue_sender(sessions_queue)
    for message in (WITHOUT, WITH):
        await world(sender.send_messages, message)
    client.mark_healthy(sessions_queue)
    [backlog] = client.backlog_paths
    await world.until(lambda: world.primary.stats(sessions_queue).get("enqueued", 0) == 1)
    await world.until(lambda: world.secondary.stats(backlog).get("dead_lettered", 0) == 1)
    [letter] = await asyncio.to_thread(world.secondary.receive, f"{backlog}/$DeadLetterQueue", 1)
    assert "sessions" in f"{letter.dead_letter_reason} {letter.dead_letter_error_description}"
