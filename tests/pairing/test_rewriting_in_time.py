"""Rewriting a large list for the backlog takes of the send's own time (docs/specification.md, section 5)."""

from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage

from pairing import BacklogUnavailableError
from pairing.messages.payload import REWRITTEN_AT_ONCE, Payload
from pairing.testing import ManualClock

MESSAGES = [ServiceBusMessage(str(number)) for number in range(4 * REWRITTEN_AT_ONCE)]
TIMEOUT_S = 8.0
PATIENCE_S = 60.0
"""What the link itself gets: time stands still in these tests, but not for the server."""


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def slow(monkeypatch, clock):
    """Lets the rewriting of each message take so long; counts those that were rewritten."""
    rewritten: list[Any] = []

    def set_pace(seconds):
        copy = Payload._copy

        def copy_slowly(self, message):
            clock.advance(seconds)
            rewritten.append(message)
            return copy(self, message)

        monkeypatch.setattr(Payload, "_copy", copy_slowly)

    set_pace.rewritten = rewritten
    return set_pace


@pytest.fixture
async def client(world, clock, queue):
    client = await world.open(clock=clock, backlog_queue_count=2, enable_pings=False)
    client.fail_over(queue, "test")
    return client


@pytest.mark.parametrize("as_a_batch", [False, True])
async def test_the_link_gets_what_the_rewriting_has_left(world, client, queue, slow, monkeypatch, as_a_batch):
    sender, timeouts = client.get_queue_sender(queue), []
    messages = MESSAGES
    if as_a_batch:
        messages = await world(sender.create_message_batch)
        for message in MESSAGES:
            messages.add_message(message)
    slow(2.0 / len(MESSAGES))
    links = type(client._backlog_link(client.backlog_paths[0]))
    send_patiently = links.send

    def send(link, outgoing, timeout_s):
        timeouts.append(timeout_s)
        return send_patiently(link, outgoing, PATIENCE_S)

    monkeypatch.setattr(links, "send", send)
    await world(sender.send_messages, messages, timeout=TIMEOUT_S)
    assert timeouts == [pytest.approx(TIMEOUT_S / 2 - 2.0)]
    assert len(slow.rewritten) == len(MESSAGES)


async def test_a_rewriting_that_takes_all_the_time_ends_the_send_and_blames_no_queue(world, client, queue, slow, clock):
    slow(TIMEOUT_S / REWRITTEN_AT_ONCE)
    began = clock.now()
    with pytest.raises(BacklogUnavailableError) as raised:
        await world(client.get_queue_sender(queue).send_messages, MESSAGES, timeout=TIMEOUT_S)
    assert len(slow.rewritten) == REWRITTEN_AT_ONCE
    assert clock.now() - began == pytest.approx(TIMEOUT_S)
    assert "Rewriting" in str(raised.value.__cause__)
    assert "queue_pulled" not in world.reported
