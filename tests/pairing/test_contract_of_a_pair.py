"""What a pair promises, on the shipped fakes and on local namespaces alike: one suite, three ways to be a pair.

The fakes of ``pairing.testing`` claim sending, failing over, rewriting, pings, forced states, metering and coming home;
links, locks, sessions, subscriptions, schedules and the passing of time inside a call they do not claim.
"""

from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch
from azure.servicebus import exceptions as sdk
from azure.servicebus.amqp import AmqpAnnotatedMessage
from azure.servicebus.exceptions import ServiceBusError

from pairing import BacklogUnavailableError, PairingError, SendAvailabilityOptions
from pairing.messages.rewriting import restore
from pairing.testing import InMemoryNamespace, InMemoryPairedClient
from tests.pairing.metered import metered

ERRORS = {
    "amqp:internal-error": lambda: ServiceBusError("broken", condition=b"amqp:internal-error"),
    "com.microsoft:entity-disabled": sdk.MessagingEntityDisabledError,
    "com.microsoft:server-busy": sdk.ServiceBusServerBusyError,
    "amqp:unauthorized-access": sdk.ServiceBusAuthorizationError,
    "amqp:not-allowed": lambda: ServiceBusError("no", condition=b"amqp:not-allowed"),
    "amqp:not-found": sdk.MessagingEntityNotFoundError,
}


class InMemory:
    """The fakes."""

    def __init__(self):
        self.primary, self.secondary = InMemoryNamespace("contoso"), InMemoryNamespace("contoso-dr")
        self.queue = "orders"

    async def open(self, **options):
        settings = {"backlog_queue_count": 2, "failover_interval": timedelta(0)} | options
        self.client = InMemoryPairedClient(self.primary, self.secondary, options=SendAvailabilityOptions(**settings))
        self.client.open()
        return self.client

    async def do(self, function, *arguments, **keywords):
        return function(*arguments, **keywords)

    def fail(self, condition, path=None):
        self.primary.fail(ERRORS[condition](), path or self.queue)

    def fail_backlog(self, path):
        self.secondary.fail(ERRORS["amqp:internal-error"](), path)

    def mend(self):
        self.primary.mend()
        self.secondary.mend()

    def received(self, count):
        found = [self.primary.receive(self.queue) for _ in range(count)]
        assert self.primary.receive(self.queue) is None
        return found

    def in_backlog(self):
        return [message for path in self.client.backlog_paths for message in self.secondary.messages(path)]

    async def bring_home(self, count):
        assert self.client.bring_home() == count

    async def close(self):
        self.client.close()


class Local:
    """Local namespaces, in one of the two worlds."""

    def __init__(self, world):
        self.world = self.do = world
        self.primary, self.secondary = world.primary, world.secondary
        self.queue = self.primary.create_queue()

    async def open(self, **options):
        # The interval is also how long a ping may take: not the shortest one, as pings are made by hand here.
        settings = {"ping_primary_interval": timedelta(minutes=1)} | options
        self.client = await self.world.open(enable_pings=False, **settings)
        return self.client

    def fail(self, condition, path=None):
        self.primary.fault(entity=path or self.queue, operation="send", effect="reject", condition=condition)

    def fail_backlog(self, path):
        self.secondary.fault(entity=path, operation="send", effect="reject")

    def mend(self):
        self.primary.mend()
        self.secondary.mend()

    def received(self, count):
        found = self.primary.receive(self.queue, count)
        assert self.primary.stats(self.queue)["active"] == 0
        return found

    def in_backlog(self):
        found = []
        for path in self.client.backlog_paths:
            waiting = self.secondary.stats(path)["active"]
            found += self.secondary.receive(path, waiting) if waiting else []
        return found

    async def bring_home(self, count):
        before = self.primary.stats(self.queue)["enqueued"]
        async with self.world.syphon(self.client):
            await self.world.until(lambda: self.primary.stats(self.queue)["enqueued"] == before + count)

    async def close(self):
        await self.world.close()


@pytest.fixture(
    params=[
        "in memory",
        pytest.param("local, blocking", marks=pytest.mark.slow),
        pytest.param("local, asyncio", marks=pytest.mark.slow),
    ]
)
async def pair(request):
    if request.param == "in memory":
        found = InMemory()
    else:
        name = "sync" if request.param.endswith("blocking") else "asyncio"
        found = Local(request.getfixturevalue("make_world")(name))
    yield found
    found.mend()
    await found.close()


def bodies(messages):
    return [b"".join(message.body).decode() for message in messages]


async def test_one_message_a_list_and_a_batch_arrive_in_their_order(pair):
    client = await pair.open()
    sender = client.get_queue_sender(pair.queue)
    await pair.do(sender.send_messages, ServiceBusMessage("1"))
    await pair.do(sender.send_messages, [ServiceBusMessage("2"), ServiceBusMessage("3")])
    batch = await pair.do(sender.create_message_batch)
    batch.add_message(ServiceBusMessage("4"))
    await pair.do(sender.send_messages, batch)
    assert bodies(pair.received(4)) == ["1", "2", "3", "4"]


async def test_every_form_of_a_message_is_taken(pair):
    client = await pair.open()
    sender = client.get_queue_sender(pair.queue)
    mapping = {"body": "mapping", "message_id": "m", "application_properties": {"n": 1}}
    foreign = ServiceBusMessageBatch()
    foreign.add_message(ServiceBusMessage("foreign"))
    generator = (ServiceBusMessage(text) for text in ("from", "generator"))
    for form in (mapping, AmqpAnnotatedMessage(data_body=b"annotated"), foreign, generator):
        await pair.do(sender.send_messages, form)
    received = pair.received(5)
    assert bodies(received) == ["mapping", "annotated", "foreign", "from", "generator"]
    await pair.do(sender.send_messages, received[0])
    (again,) = pair.received(1)
    assert (bodies([again]), again.message_id, again.application_properties) == (["mapping"], "m", {b"n": 1})


async def test_nothing_is_no_error(pair):
    client = await pair.open()
    sender = client.get_queue_sender(pair.queue)
    await pair.do(sender.send_messages, [])
    await pair.do(sender.send_messages, await pair.do(sender.create_message_batch))


async def test_a_message_without_id_gets_one(pair):
    client = await pair.open()
    message = ServiceBusMessage("x")
    await pair.do(client.get_queue_sender(pair.queue).send_messages, message)
    (received,) = pair.received(1)
    assert len(received.message_id) == 36
    assert received.message_id == message.message_id


@pytest.mark.parametrize("condition", ["amqp:internal-error", "com.microsoft:entity-disabled"])
async def test_an_outage_sends_the_message_to_the_backlog_and_home_again(pair, condition):
    client = await pair.open()
    sender = client.get_queue_sender(pair.queue)
    pair.fail(condition)
    message = ServiceBusMessage(
        "kept", session_id=None, subject="s", correlation_id="c", application_properties={"n": 7, "f": 1.5, "t": "é"}
    )
    await pair.do(sender.send_messages, message)
    assert client.entity_health(pair.queue).state == "failed_over"
    pair.mend()
    client.mark_healthy(pair.queue)
    await pair.bring_home(1)
    (home,) = pair.received(1)
    assert (bodies([home]), home.message_id, home.subject, home.correlation_id) == (
        ["kept"],
        message.message_id,
        "s",
        "c",
    )
    assert home.application_properties == {b"n": 7, b"f": 1.5, b"t": "é".encode()}


async def test_in_the_backlog_a_message_carries_where_it_is_meant_to_go(pair):
    client = await pair.open()
    client.fail_over(pair.queue, "test")
    sent = ServiceBusMessage("kept", session_id="s", time_to_live=timedelta(hours=1))
    await pair.do(client.get_queue_sender(pair.queue).send_messages, sent)
    (stored,) = pair.in_backlog()
    assert (stored.session_id, stored.time_to_live) == (None, None)
    assert pair.received(0) == []
    path, restored = restore(stored)
    assert (path, restored.session_id, restored.time_to_live) == (pair.queue, "s", timedelta(hours=1))


@pytest.mark.parametrize(
    ("condition", "error"),
    [
        ("com.microsoft:server-busy", sdk.ServiceBusServerBusyError),
        ("amqp:unauthorized-access", sdk.ServiceBusAuthorizationError),
        ("amqp:not-allowed", ServiceBusError),
        ("amqp:not-found", sdk.MessagingEntityNotFoundError),
    ],
)
async def test_what_is_no_outage_is_raised_and_fails_nothing_over(pair, condition, error):
    client = await pair.open()
    pair.fail(condition)
    with pytest.raises(error) as raised:
        await pair.do(client.get_queue_sender(pair.queue).send_messages, ServiceBusMessage("x"))
    assert client.entity_health(pair.queue).state == "healthy"
    assert getattr(raised.value, "retry_after", None) == (10.0 if "busy" in condition else None)


async def test_while_the_interval_lasts_the_primarys_error_is_raised_and_a_success_clears_it(pair):
    client = await pair.open(failover_interval=timedelta(minutes=1))
    reported = []
    client.on_event(lambda event: reported.append(event.kind))
    sender = client.get_queue_sender(pair.queue)
    pair.fail("amqp:internal-error")
    with pytest.raises(ServiceBusError, match="internal-error"):
        await pair.do(sender.send_messages, ServiceBusMessage("x"))
    assert client.entity_health(pair.queue).state == "failing"
    pair.mend()
    await pair.do(sender.send_messages, ServiceBusMessage("y"))
    assert (client.entity_health(pair.queue).state, reported) == ("healthy", ["failing", "recovered"])


async def test_a_backlog_queue_that_fails_is_pulled_and_where_all_fail_the_message_stays_the_callers(pair):
    client = await pair.open()
    reported = []
    client.on_event(lambda event: reported.append(event.kind))
    sender = client.get_queue_sender(pair.queue)
    client.fail_over(pair.queue, "test")
    for path in client.backlog_paths:
        pair.fail_backlog(path)
    with pytest.raises(BacklogUnavailableError) as raised:
        await pair.do(sender.send_messages, ServiceBusMessage("x"))
    assert set(raised.value.errors) == set(client.backlog_paths)
    assert isinstance(raised.value.__cause__, ServiceBusError)
    assert reported == ["forced", "queue_pulled", "queue_pulled"]
    pair.mend()
    await pair.do(sender.send_messages, ServiceBusMessage("y"))
    assert reported[3:] == ["queue_returned"]


async def test_a_ping_heals_shows_why_it_did_not_and_is_never_received(pair):
    client = await pair.open()
    pair.fail("amqp:internal-error")
    await pair.do(client.get_queue_sender(pair.queue).send_messages, ServiceBusMessage("x"))
    refused = await pair.do(client.ping, pair.queue)
    assert "internal-error" in refused.reason
    assert (refused.accepted, client.entity_health(pair.queue).state) == (False, "failed_over")
    assert client.entity_health(pair.queue).last_ping == refused.reason
    pair.mend()
    accepted = await pair.do(client.ping, pair.queue)
    assert (accepted.accepted, client.entity_health(pair.queue).state) == (True, "healthy")
    assert pair.received(0) == []


async def test_a_held_entity_stays_until_it_is_released_and_pinged(pair):
    client = await pair.open()
    client.fail_over(pair.queue, "maintenance", operator="ann")
    await pair.do(client.ping, pair.queue)
    health = client.entity_health(pair.queue)
    assert (health.state, health.held_by) == ("failed_over", "ann")
    client.release(pair.queue, operator="ann")
    (result,) = await pair.do(client.ping_due)
    assert (result.accepted, client.entity_health(pair.queue).state) == (True, "healthy")


async def test_a_failed_over_entity_says_nothing_of_its_neighbour(pair):
    client = await pair.open()
    client.fail_over("another", "test")
    await pair.do(client.get_queue_sender(pair.queue).send_messages, ServiceBusMessage("x"))
    assert bodies(pair.received(1)) == ["x"]


async def test_sends_are_metered_by_kind_and_entity(pair):
    client = await pair.open()
    sender = client.get_queue_sender(pair.queue)
    await pair.do(sender.send_messages, ServiceBusMessage("x" * 70_000))
    await pair.do(sender.send_messages, [ServiceBusMessage("a"), ServiceBusMessage("b")])
    pair.fail("amqp:internal-error")
    await pair.do(sender.send_messages, ServiceBusMessage("c"))
    pair.mend()
    await pair.do(client.ping, pair.queue)
    sends = {
        key: sums[:3]
        for key, sums in metered(client, "kind", "namespace", "entity").items()
        if key[0] in ("send", "send_backlog", "ping")
    }
    assert sends == {
        ("send", client.primary.namespace, pair.queue): (3, 3, 4),
        ("send_backlog", client.secondary.namespace, pair.queue): (1, 1, 1),
        ("ping", client.primary.namespace, pair.queue): (1, 1, 1),
    }


async def test_after_closing_everything_says_so(pair):
    client = await pair.open()
    sender = client.get_queue_sender(pair.queue)
    await pair.do(client.close)
    await pair.do(client.close)
    assert (client.state, client.primary.state, client.secondary.state) == ("closed", "closed", "closed")
    with pytest.raises(PairingError, match="closed"):
        await pair.do(sender.send_messages, ServiceBusMessage("x"))
    with pytest.raises(PairingError, match="closed"):
        client.get_queue_sender(pair.queue)


async def test_a_closed_sender_says_so(pair):
    client = await pair.open()
    sender = client.get_queue_sender(pair.queue)
    await pair.do(sender.close)
    with pytest.raises(ValueError, match="closed"):
        await pair.do(sender.send_messages, ServiceBusMessage("x"))
