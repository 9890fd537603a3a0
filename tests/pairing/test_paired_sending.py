"""Sending through a pair, in both worlds, over real AMQP (docs/specification.md, sections 4 to 7)."""

import asyncio
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch
from azure.servicebus import exceptions as sdk
from azure.servicebus.amqp import AmqpAnnotatedMessage

from pairing import PairingError, ScheduledInBacklogError, SendAvailabilityOptions
from pairing.messages.payload import payload
from pairing.messages.rewriting import restore
from pairing.testing import InMemoryNamespace, InMemoryPairedClient, ManualClock
from tests.pairing.metered import metered

pytestmark = pytest.mark.sampled("world")


def bodies(messages) -> list[str]:
    return [b"".join(message.body).decode() for message in messages]


def in_backlog(client, secondary, count: int) -> list:
    """What sits in the client's backlog queues, as it will come home: (path, message)."""
    found = []
    for path in client.backlog_paths:
        waiting = secondary.stats(path)["active"]
        found += [restore(message) for message in secondary.receive(path, waiting)] if waiting else []
    assert len(found) == count
    return found


# The healthy path


@pytest.mark.parametrize(
    "form", [lambda text: ServiceBusMessage(text), lambda text: [{"body": text}]], ids=["one", "list"]
)
async def test_a_send_that_was_accepted_is_not_repeated_where_the_entity_fails_over_in_that_instant(
    world, primary, secondary, queue, form
):
    client = await world.open()
    sender = client.get_queue_sender(queue)
    send = sender._link.send

    def failing_over(failure):
        client.fail_over(queue, "in the instant of the acknowledgement")
        return failure

    async def send_awaited(message, timeout_s):
        return failing_over(await send(message, timeout_s))

    sender._link.send = send_awaited if world.name == "asyncio" else lambda *given: failing_over(send(*given))
    for text in ("the client's first", "a later one"):
        await world(sender.send_messages, form(text))
        client.mark_healthy(queue)
    assert bodies(primary.receive(queue, 2)) == ["the client's first", "a later one"]
    assert in_backlog(client, secondary, 0) == []


async def test_a_topic_is_sent_to_as_a_queue_is(world, primary, secondary):
    topic = primary.create_topic()
    client = await world.open()
    sender = client.get_topic_sender(topic)
    await world(sender.send_messages, ServiceBusMessage("news"))
    assert bodies(primary.receive(topic, 1, subscription="audit")) == ["news"]
    client.fail_over(topic, "test")
    await world(sender.send_messages, ServiceBusMessage("later"))
    ((path, message),) = in_backlog(client, secondary, 1)
    assert (path, bodies([message])) == (topic, ["later"])


async def test_messages_are_scheduled_and_cancelled_in_the_primary(world, primary, queue):
    client = await world.open()
    sender = client.get_queue_sender(queue)
    later = datetime.now(UTC) + timedelta(hours=1)
    numbers = await world(sender.schedule_messages, [ServiceBusMessage("a"), ServiceBusMessage("b")], later)
    assert len(numbers) == 2
    await world(sender.cancel_scheduled_messages, numbers)
    with primary.administration() as administration:
        assert administration.get_queue_runtime_properties(queue).scheduled_message_count == 0


def test_a_fake_that_waits_for_a_busy_server_raises_once_the_timeout_is_over():
    primary, clock = InMemoryNamespace("contoso"), ManualClock()
    primary.fail(sdk.ServiceBusServerBusyError())
    options = SendAvailabilityOptions(server_busy="wait")
    client = InMemoryPairedClient(primary, InMemoryNamespace("contoso-dr"), options=options, clock=clock)
    with client, pytest.raises(sdk.ServiceBusServerBusyError):
        client.get_queue_sender("orders").send_messages(ServiceBusMessage("x"))
    assert clock.now() == 20.0  # of the 30 seconds: another wait of 10 would leave no time


# Failover


async def test_scheduling_during_a_failover_keeps_the_time_and_cannot_be_cancelled(world, secondary, queue):
    client = await world.open(enable_pings=False)
    sender = client.get_queue_sender(queue)
    client.fail_over(queue, "test")
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    numbers = await world(sender.schedule_messages, ServiceBusMessage("x"), later)
    assert numbers == []
    with pytest.raises(ScheduledInBacklogError):
        await world(sender.cancel_scheduled_messages, numbers)
    ((_, message),) = in_backlog(client, secondary, 1)
    assert message.scheduled_enqueue_time_utc == later


# Faults of the caller and of the configuration


async def test_a_message_that_cannot_be_encoded_is_the_callers_fault(world, queue):
    client = await world.open()
    message = ServiceBusMessage("x", application_properties={"n": 2**40})
    with pytest.raises(sdk.ServiceBusError):
        await world(client.get_queue_sender(queue).send_messages, message)
    assert client.entity_health(queue).state == "healthy"


# Size


async def test_what_could_not_be_failed_over_is_refused_at_healthy_times(world, primary, queue):
    client = await world.open()
    sender = client.get_queue_sender(queue)
    with pytest.raises(sdk.MessageSizeExceededError, match=r"\d+ bytes and \d+ bytes"):
        await world(sender.send_messages, ServiceBusMessage("x" * (262_144 - 100)))
    await world(sender.send_messages, ServiceBusMessage("x" * (262_144 - 1_000)))
    assert primary.stats(queue)["enqueued"] == 1


async def test_without_headroom_the_primary_takes_what_it_can(world, primary, queue):
    client = await world.open(require_headroom=False)
    await world(client.get_queue_sender(queue).send_messages, ServiceBusMessage("x" * (262_144 - 140)))
    assert primary.stats(queue)["enqueued"] == 1


def fill(batch):
    while True:
        try:
            batch.add_message(ServiceBusMessage("x" * 50, session_id="s", time_to_live=timedelta(hours=1)))
        except sdk.MessageSizeExceededError:
            return


@pytest.mark.parametrize("size", [20_000, None], ids=["of a size", "as large as can be"])
async def test_a_full_batch_still_fits_the_backlog(world, secondary, queue, size):
    client = await world.open(enable_pings=False)
    sender = client.get_queue_sender(queue)
    batch = await world(sender.create_message_batch, size)
    fill(batch)
    added = len(batch)
    client.fail_over(queue, "test")
    await world(sender.send_messages, batch)
    assert sum(secondary.stats(path)["enqueued"] for path in client.backlog_paths) == added


class PremiumLink:
    """What an open link to a Premium entity tells of its limits."""

    _max_batch_size_on_link = 1_048_576
    _max_message_size_on_link = 100 * 1_048_576


def test_a_batch_for_a_premium_primary_keeps_within_what_a_standard_secondary_takes(premium):
    batch = premium.create_message_batch()
    assert batch.max_size_in_bytes == 1_048_576
    fill(batch)
    assert 150_000 < batch.size_in_bytes < 262_144
    rewritten = payload(batch, "orders").rewritten()
    within = ServiceBusMessageBatch(max_size_in_bytes=262_144)
    for message in rewritten:
        within.add_message(message)
    assert within.size_in_bytes <= 262_144


def test_a_batch_learns_while_it_is_filled_that_the_secondary_takes_more(premium):
    batch = premium.create_message_batch()
    premium._client._learn_limit(PremiumLink())
    fill(batch)
    assert batch.size_in_bytes > 500_000


def test_a_list_is_refused_where_the_backlog_takes_no_such_batch(premium):
    premium._client._backlog_limit = 100 * 1_048_576
    with pytest.raises(sdk.MessageSizeExceededError, match="262144"):
        premium.send_messages([ServiceBusMessage("x" * 100_000) for _ in range(3)])
    premium.send_messages(ServiceBusMessage("x" * 300_000))


def test_without_headroom_a_batch_takes_what_the_primary_takes():
    with premium_sender(require_headroom=False) as sender:
        batch = sender.create_message_batch()
        fill(batch)
        assert batch.size_in_bytes > 1_000_000


@contextmanager
def premium_sender(**options):
    """A sender of a pair whose secondary is of the Standard tier, as far as anybody knows."""
    ends = InMemoryNamespace("contoso"), InMemoryNamespace("contoso-dr")
    with InMemoryPairedClient(*ends, options=SendAvailabilityOptions(**options)) as client:
        sender = client.get_queue_sender("orders")
        sender._link.sender = PremiumLink()
        yield sender


@pytest.fixture
def premium():
    with premium_sender() as sender:
        yield sender


# Pings


async def test_an_outage_spends_no_pings(world, primary, queue):
    client = await world.open()
    client.fail_over(queue, "test", hold=False)
    primary.fault(entity=queue, operation="attach", effect="refuse")
    await world.until(lambda: "internal-error" in client.entity_health(queue).last_ping)
    assert "ping" not in {record.kind for record in client.meter.drain(client.clock.now(), everything=True)}


# Receivers


async def test_receivers_are_the_primarys_and_the_sdks_own_and_nobody_bills_what_fails(world, queue):
    client = await world.open()
    await world(client.get_queue_sender(queue).send_messages, ServiceBusMessage("x"))
    receiver = client.get_queue_receiver(queue, max_wait_time=5)
    (message,) = await world(receiver.receive_messages, 1)
    await world(receiver.complete_message, message)
    for again in (receiver.complete_message, receiver.renew_message_lock):
        with pytest.raises(ValueError, match="settled"):
            await world(again, message)
    assert await world(receiver.receive_messages, 1, max_wait_time=0.3) == []
    await world(receiver.close)
    counted = metered(client, "kind", "entity")
    assert counted["receive", queue].messages == 1
    assert counted["settle", queue][:3] == (2, 1, 1)
    assert counted["manage", queue][:3] == (1, 0, 0)
    assert ("receive_empty", queue) in counted


async def test_messages_that_a_loop_over_the_receiver_brings_are_counted_each_once(world, primary, queue):
    client = await world.open()
    sizes = [10, 100, 70_000]
    await world(client.get_queue_sender(queue).send_messages, [ServiceBusMessage(b"x" * size) for size in sizes])
    receiver = client.get_queue_receiver(queue, max_wait_time=5)
    if world.name == "asyncio":
        found = [message async for message in receiver]
    else:
        found = await world(list, receiver)
    for message in found:
        await world(receiver.complete_message, message)
    await world(receiver.close)
    counted = metered(client, "kind")
    received = counted["receive"]
    assert (received.operations, received.messages, received.billing_units) == (3, 3, 4)
    assert sum(sizes) < received.bytes < sum(sizes) + 3 * 4096
    assert counted["settle"].messages == 3


async def test_delivery_annotations_are_for_the_next_hop_and_end_in_the_backlog(world, primary, queue):
    client = await world.open(enable_syphon=True, syphon_retry_interval=timedelta(seconds=1))
    message = ServiceBusMessage("x", application_properties={"kept": 1})
    message.raw_amqp_message.annotations = {"x-mine": "kept too"}
    message.raw_amqp_message.delivery_annotations = {"x-hop": "for the next one"}
    client.fail_over(queue, "test")
    await world(client.get_queue_sender(queue).send_messages, message)
    client.mark_healthy(queue)
    [received] = await asyncio.to_thread(primary.receive, queue, 1, within_s=30)
    raw = received.raw_amqp_message
    assert (raw.annotations[b"x-mine"], received.application_properties) == (b"kept too", {b"kept": 1})
    assert b"x-hop" not in (raw.delivery_annotations or {})


async def test_a_receiver_hands_out_what_the_sdk_can_decode_and_not_encode_again(world, primary, queue):
    client = await world.open()
    await world(client.get_queue_sender(queue).send_messages, AmqpAnnotatedMessage(value_body=datetime.now(UTC)))
    receiver = client.get_queue_receiver(queue, max_wait_time=5)
    (message,) = await world(receiver.receive_messages, 1)
    assert isinstance(message.raw_amqp_message.body, int)
    await world(receiver.close)


async def test_sessions_are_listed_locked_and_kept_as_in_the_sdk_and_metered(world, primary):
    queue = primary.create_queue(requires_session=True)
    client = await world.open()
    sender = client.get_queue_sender(queue)
    for session in ("a", "b"):
        await world(sender.send_messages, ServiceBusMessage("x", session_id=session))
    listed = client.list_queue_sessions(queue, timeout=10)
    found = list(listed) if world.name == "sync" else [session async for session in listed]
    assert sorted(found) == ["a", "b"]
    receiver = client.get_queue_receiver(queue, session_id="a", max_wait_time=5)
    await world(receiver.receive_messages, 1)
    await world(receiver.session.set_state, b"state")
    assert await world(receiver.session.get_state) == b"state"
    await world(receiver.session.renew_lock)
    await world(receiver.close)
    assert metered(client, "kind", "entity")["manage", queue].operations == 1 + 3


# Misuse


async def test_before_opening_every_send_says_so_and_misspelt_keywords_are_refused(world, queue):
    client = world.client()
    assert client.state == "created"
    send = client.get_queue_sender(queue).send_messages
    with pytest.raises(PairingError, match="not open"):
        await world(send, ServiceBusMessage("x"))
    with pytest.raises(TypeError):
        await world(send, ServiceBusMessage("x"), time_out=3)


# Crowds


async def test_a_crowd_on_one_sender_is_no_outage(world, primary, queue):
    """Forty sends at once, each answered after a quarter of a second: the last waits for ten, with nobody at fault."""
    client = await world.open(enable_pings=False)
    sender = client.get_queue_sender(queue)
    await world(sender.send_messages, ServiceBusMessage("first"))
    primary.fault(entity=queue, operation="send", effect="delay", delay_s=0.25)
    await asyncio.gather(*(world(sender.send_messages, ServiceBusMessage(str(n)), timeout=20.0) for n in range(40)))
    assert primary.stats(queue)["enqueued"] == 41
    assert client.entity_health(queue).state == "healthy"
