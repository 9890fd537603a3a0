"""A link that nobody uses is kept alive, noticed when its peer has closed it, and opened again ahead of its use.

docs/specification.md, section 6: one warm link for each client and backlog queue; one that the service has closed for
idleness is reopened in the background.
"""

import os
import time
from types import SimpleNamespace

import pytest
from azure.servicebus import ServiceBusMessage

from pairing.aio.links import abort_transport
from pairing.links.link import RETRY_WARM_S
from pairing.links.sockets import break_transport, token_is_aging


async def close_from_afar(world, link):
    """What a service does that closes an idle connection, as the sender's end sees it."""
    if world.name == "asyncio":
        abort_transport(link.sender)
        reader = link.sender._handler._connection._transport.reader
        await world.until(lambda: reader.at_eof() or reader.exception() is not None)
    else:
        break_transport(link.sender)


async def test_an_idle_link_to_a_backlog_queue_that_was_closed_is_reopened_in_the_background(world, secondary, queue):
    client = await world.open(backlog_queue_count=1)
    [path] = client.backlog_paths
    link = client._backlog_link(path)
    await world.warm(client, path)
    before = link.sender
    assert await world(link.maintain, time.monotonic()) is False
    assert link.sender is before
    await close_from_afar(world, link)
    reported = await world(link.maintain, time.monotonic())
    assert (reported, link.sender) == (False, None)  # noticed; whoever sends now opens it anew
    assert await world(link.maintain, time.monotonic() + RETRY_WARM_S + 1) is True  # nobody did: to be warmed
    assert await world(link.warm, 10.0) is None
    client.fail_over(queue, "test")
    await world(client.get_queue_sender(queue).send_messages, ServiceBusMessage("x"))
    assert secondary.stats(path)["active"] == 1


@pytest.fixture
def many_open_files():
    """This process has more open files than `select` can wait for."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard == resource.RLIM_INFINITY else max(soft, 2048), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    yield
    for descriptor in opened:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_link_to_the_primary_that_was_closed_is_noticed_and_waits_for_the_next_send(
    world, primary, queue, many_open_files
):
    client = await world.open()
    sender = client.get_queue_sender(queue)
    await world(sender.send_messages, ServiceBusMessage("one"))
    before = sender._link.sender
    assert await world(sender._link.maintain, time.monotonic()) is False
    assert sender._link.sender is before
    await close_from_afar(world, sender._link)
    assert await world(sender._link.maintain, time.monotonic()) is False
    assert sender._link.sender is None
    assert await world(sender._link.maintain, time.monotonic() + RETRY_WARM_S + 1) is False
    await world(sender.send_messages, ServiceBusMessage("two"))
    assert primary.stats(queue)["enqueued"] == 2
    assert client.entity_health(queue).state == "healthy"


async def test_a_link_whose_token_ages_is_opened_anew_before_the_sdk_would_fetch_one_inside_a_send(world, queue):
    client = await world.open()
    sender = client.get_queue_sender(queue)
    await world(sender.send_messages, ServiceBusMessage("one"))
    link = sender._link
    authenticator = link.sender._handler._cbs_authenticator
    authenticator._token_put_time, authenticator._expires_on = time.time() - 1000, time.time() + 10
    assert await world(link.maintain, time.monotonic()) is True
    assert link.sender is None


@pytest.mark.parametrize(("left_s", "aging"), [(3000, False), (541, False), (539, True), (-5, True)])
def test_a_token_ages_in_the_last_part_of_its_life(left_s, aging):
    life = 3600.0
    now = time.time()
    authenticator = SimpleNamespace(_expires_on=now + left_s, _token_put_time=now + left_s - life)
    assert token_is_aging(SimpleNamespace(_handler=SimpleNamespace(_cbs_authenticator=authenticator))) is aging


def test_a_sender_without_a_token_is_left_alone():
    assert token_is_aging(SimpleNamespace(_handler=None)) is False


@pytest.mark.parametrize("failed_over", [False, True], ids=["healthy", "failed over"])
async def test_a_send_whose_token_has_expired_opens_a_new_link(world, queue, failed_over, monkeypatch):
    """As where the clock of a process is set forward."""
    for links in ("pairing.links.link", "pairing.aio.links"):
        monkeypatch.setattr(f"{links}.token_is_aging", lambda sender: False)  # the send comes first
    client = await world.open(backlog_queue_count=1, enable_pings=False)
    sender = client.get_queue_sender(queue)
    if failed_over:
        client.fail_over(queue, "test")
    await world(sender.send_messages, ServiceBusMessage("x"))
    link = client._backlog_link(client.backlog_paths[0]) if failed_over else sender._link
    authenticator = link.sender._handler._cbs_authenticator
    authenticator._expires_on = authenticator._token_put_time = 0
    await world(sender.send_messages, ServiceBusMessage("y"))
    assert world.reported == (["forced"] if failed_over else [])
