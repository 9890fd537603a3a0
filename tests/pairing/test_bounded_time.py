"""Every wait of the SDK without an end (docs/wire.md, section 9) ends within the timeout, in both worlds.

docs/specification.md, section 5: send_messages always returns or raises within its timeout, whatever either namespace
does, fallback to the backlog included; section 9 and the contract: closing takes 5 s at most.
"""

import asyncio
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus import exceptions as sdk

from pairing import BacklogUnavailableError
from tests.pace import Stopwatch, slowed
from tests.pairing import leftovers
from tests.pairing.metered import reported

pytestmark = pytest.mark.sampled("world")

TIMEOUT = 3.0
SLACK = 1.0  # for what happens beside waiting


@pytest.fixture(scope="module", autouse=True)
def without_pauses() -> None:
    """The bounds hold with the SDK's pauses."""


@pytest.fixture
def allowed() -> float:
    """A timeout in which two links open, as fast as this machine opens them just now."""
    return slowed(TIMEOUT)


SILENCES = {
    "SASL is never answered": {"operation": "connect", "effect": "silent"},
    "the attach is never answered": {"operation": "attach", "effect": "silent"},
    "the transfer is never answered": {"operation": "send", "effect": "silent"},
    "CBS is never answered": {"operation": "cbs", "effect": "silent"},
    "the acknowledgement is lost": {"operation": "send", "effect": "lose_ack"},
    "the transfer is answered with released": {"operation": "send", "effect": "released"},
    "the transfer is answered with modified": {"operation": "send", "effect": "modified"},
}
TORN = {
    "the connection is reset on transfer": {"operation": "send", "effect": "reset"},
    "the link is detached on transfer": {"operation": "send", "effect": "detach"},
    "the connection is closed on transfer": {"operation": "send", "effect": "close"},
    "the session is ended on transfer": {"operation": "send", "effect": "end"},
    "connections are refused": {"operation": "connect", "effect": "refuse"},
    "the attach is refused": {"operation": "attach", "effect": "refuse"},
}


def named(faults, entity):
    return faults if faults["operation"] == "connect" else faults | {"entity": entity}


COLD = {f"{name}, on a cold link": (fault, False) for name, fault in (SILENCES | TORN).items()}
WARM = {
    f"{name}, on a warm link": (fault, True)
    for name, fault in (SILENCES | TORN).items()
    if fault["operation"] == "send"
}


BROKEN = COLD | WARM | {f"the server is frozen, {warm=}": (None, warm) for warm in (False, True)}


@pytest.mark.parametrize(("fault", "is_warm"), BROKEN.values(), ids=BROKEN)
async def test_a_broken_primary_costs_half_of_the_timeout_and_the_backlog_takes_the_message(
    world, primary, secondary, queue, fault, is_warm, allowed
):
    client = await world.open(enable_pings=False, backlog_queue_count=1)
    sender = client.get_queue_sender(queue)
    if is_warm:
        await world(sender.send_messages, ServiceBusMessage("before"))
    primary.freeze() if fault is None else primary.fault(**named(fault, queue))
    with Stopwatch() as watch:
        await world(sender.send_messages, ServiceBusMessage("during"), timeout=2 * allowed)  # two links open in it
    assert watch.took < 2 * allowed + SLACK
    assert client.entity_health(queue).state == "failed_over"
    assert (client.state, client.primary.state) == ("opened", "opened")
    assert secondary.stats(client.backlog_paths[0])["enqueued"] == 1


@pytest.mark.parametrize("fault", SILENCES.values(), ids=SILENCES)
async def test_a_silent_backlog_too_ends_within_the_timeout(world, primary, secondary, queue, fault, allowed):
    client = await world.open(enable_pings=False, backlog_queue_count=1)
    primary.fault(entity=queue, operation="send", effect="reject")
    secondary.fault(**named(fault, client.backlog_paths[0]))
    with Stopwatch() as watch, pytest.raises(BacklogUnavailableError) as raised:
        await world(client.get_queue_sender(queue).send_messages, ServiceBusMessage("x"), timeout=allowed)
    assert watch.took < allowed + SLACK
    assert isinstance(raised.value.__cause__, sdk.ServiceBusError)


async def test_closing_takes_five_seconds_at_most_whatever_the_namespaces_do_and_usage_is_reported_at_once(
    world, primary, secondary, queue, redis_url, redis_client
):
    client = await world.open(enable_pings=False, coordination=redis_url)
    await world.until(lambda: client.coordination.is_connected)
    sender = client.get_queue_sender(queue)
    await world(sender.send_messages, ServiceBusMessage("before"))
    await world.until(lambda: any(client._backlog_link(path).sender for path in client.backlog_paths))
    primary.freeze()
    secondary.freeze()
    stuck = asyncio.ensure_future(world(sender.send_messages, ServiceBusMessage("stuck"), timeout=20))
    await asyncio.sleep(0)
    with Stopwatch() as watch:
        closing = asyncio.ensure_future(world(client.close))
        await world.until(lambda: reported(redis_client, client.pair)["send"] == 1)
        assert not stuck.done()
        await closing
    assert watch.took < 5.0 + SLACK
    with pytest.raises(Exception, match=r".+"):
        await asyncio.wait_for(stuck, 60)


async def test_closing_takes_five_seconds_at_most_while_redis_is_frozen_too(world, primary, server, queue):
    client = await world.open(coordination=server.url, preserve_session_order=True, enable_syphon=True)
    sender = client.get_queue_sender(queue)
    await world(sender.send_messages, ServiceBusMessage("before"))
    await world.until(lambda: client.coordination.is_connected)
    server.freeze()
    primary.fault(entity=queue, operation="send", effect="silent")
    stuck = asyncio.ensure_future(world(sender.send_messages, ServiceBusMessage("stuck"), timeout=20))
    await world.until(lambda: primary.hits() == [1])
    with Stopwatch() as watch:
        await world(client.close)
    assert watch.took < 5.0 + SLACK
    await asyncio.wait([stuck], timeout=60)
    assert stuck.exception() or stuck.done()  # it may have gone to the backlog before that was closed


async def test_waiting_for_a_busy_server_is_cut_short_by_a_failover_that_another_sender_engaged(
    world, primary, secondary, queue
):
    client = await world.open(enable_pings=False, backlog_queue_count=1, server_busy="wait")
    primary.fault(entity=queue, operation="send", effect="reject", condition="com.microsoft:server-busy", count=1)
    waiting = asyncio.ensure_future(
        world(client.get_queue_sender(queue).send_messages, ServiceBusMessage("waits"), timeout=30.0)
    )
    await world.until(lambda: _refused_sends(client))
    primary.fault(entity=queue, operation="send", effect="reject")
    with Stopwatch() as watch:
        await world(client.get_queue_sender(queue).send_messages, ServiceBusMessage("fails"))
        await waiting
    assert watch.took < 5.0  # not the 10 s for which a busy server wants to be left alone
    assert client.entity_health(queue).state == "failed_over"
    assert secondary.stats(client.backlog_paths[0])["enqueued"] == 2


def _refused_sends(client):
    counted = client.meter.drain(client.clock.now(), everything=True)
    return any(record.kind == "send" and record.operations > record.messages for record in counted)


async def test_repeating_a_torn_send_is_cut_short_by_a_failover_that_another_sender_engaged(
    world, primary, secondary, queue
):
    allowed = slowed(8.0)
    client = await world.open(enable_pings=False, backlog_queue_count=1)
    sender = client.get_queue_sender(queue)
    await world(sender.send_messages, ServiceBusMessage("before"))
    primary.fault(entity=queue, operation="send", effect="silent")
    slow = asyncio.ensure_future(world(sender.send_messages, ServiceBusMessage("silent"), timeout=allowed))
    await asyncio.sleep(0)
    client.fail_over(queue, "seen by another")
    attaches = primary.stats(queue)["operations"]
    with Stopwatch() as watch:
        await slow
    assert watch.took < allowed / 2 + SLACK
    assert secondary.stats(client.backlog_paths[0])["enqueued"] == 1
    assert primary.stats(queue)["operations"] <= attaches + 1  # the one that hangs, and no second one


async def test_while_failures_are_accepted_they_are_reported_within_half_of_the_timeout(world, primary, queue, allowed):
    client = await world.open(enable_pings=False, failover_interval=timedelta(minutes=1))
    primary.fault(entity=queue, operation="attach", effect="silent")
    with Stopwatch() as watch, pytest.raises(sdk.OperationTimeoutError):
        await world(client.get_queue_sender(queue).send_messages, ServiceBusMessage("x"), timeout=allowed)
    assert watch.took < allowed / 2 + SLACK


# One failure of a link that had been open is no evidence


@pytest.mark.parametrize("effect", ["reset", "detach", "close", "end"])
async def test_a_link_torn_down_in_the_middle_of_a_send_is_tried_once_more(world, primary, queue, effect):
    client = await world.open(enable_pings=False)
    sender = client.get_queue_sender(queue)
    await world(sender.send_messages, ServiceBusMessage("before"))
    primary.fault(entity=queue, operation="send", effect=effect, count=1)
    await world(sender.send_messages, ServiceBusMessage("after"))
    assert client.entity_health(queue).state == "healthy"
    assert world.reported == []


async def test_an_ambiguous_failure_that_hides_a_refusal_is_the_refusal(world, primary, queue):
    client = await world.open(enable_pings=False)
    sender = client.get_queue_sender(queue)
    await world(sender.send_messages, ServiceBusMessage("before"))
    primary.fault(entity=queue, operation="send", effect="detach", condition="amqp:not-allowed")
    primary.fault(entity=queue, operation="attach", effect="refuse", condition="amqp:not-allowed")
    with pytest.raises(sdk.ServiceBusError, match="not-allowed"):
        await world(sender.send_messages, ServiceBusMessage("x"))
    assert client.entity_health(queue).state == "healthy"


async def test_after_a_lost_acknowledgement_the_same_message_id_is_sent_again(
    world, primary, secondary, queue, allowed
):
    client = await world.open(enable_pings=False, backlog_queue_count=1)
    sender = client.get_queue_sender(queue)
    await world(sender.send_messages, ServiceBusMessage("before"))
    primary.fault(entity=queue, operation="send", effect="lose_ack", count=1)
    await world(sender.send_messages, ServiceBusMessage("twice", message_id="m"), timeout=allowed)
    stored = primary.drain(queue) + secondary.drain(client.backlog_paths[0])
    assert [message.message_id for message in stored[1:]] == ["m", "m"]


# Nothing left behind


async def test_closing_takes_five_seconds_at_most_with_a_syphon_stuck_in_a_transfer(world, primary, secondary, queue):
    client = await world.open(enable_pings=False, enable_syphon=True, backlog_queue_count=1)
    primary.fault(entity=queue, operation="send", effect="silent")
    client.fail_over(queue, "drill", hold=False)
    await world(client.get_queue_sender(queue).send_messages, ServiceBusMessage("x"))
    client.mark_healthy(queue)
    await world.until(lambda: any(primary.hits()))
    with Stopwatch() as watch:
        await world(client.close)
    assert watch.took < 5.0 + SLACK


async def test_a_client_that_is_closed_while_it_opens_stays_closed(world, secondary):
    secondary.freeze()
    client = world.client(enable_pings=False)
    opening = asyncio.ensure_future(world(client.open))
    await world.until(lambda: client._opening.locked())
    with Stopwatch() as watch:
        await world(client.close)
    assert watch.took < 5.0 + SLACK
    secondary.thaw()
    with pytest.raises(Exception, match=r"closed|closing"):
        await opening
    assert client.state == "closed"
    assert client.primary.state == "closed"


async def test_closing_waits_for_the_end_of_a_client_whose_ends_were_closed(world, queue):
    client = await world.open(enable_pings=False)
    await world(client.get_queue_sender(queue).send_messages, ServiceBusMessage("x"))
    await world(client.primary.close)
    await world(client.secondary.close)
    await world.until(lambda: client.state == "closed")
    await world(client.close)
    assert [name for name in leftovers.threads() if not name.startswith("pairing-blocking")] == []
    await world.until(lambda: leftovers.threads() == [])  # those are idle, and end without being waited for
