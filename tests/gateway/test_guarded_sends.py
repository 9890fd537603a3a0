"""Deliveries of clients by the rules of the library, between two local namespaces."""

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import (
    MessageSizeExceededError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
    ServiceBusServerBusyError,
)

from amqp10.types import DecodeError
from emulator.running import running
from gateway.guard.backlog import SharedSender
from gateway.guard.client import GatewayClient, GuardedSends, QueueLink
from gateway.guard.rewriting import BATCH_FORMAT, batches
from gateway.namespace import Namespace
from pairing import SendAvailabilityOptions
from pairing.aio import Syphon
from pairing.ends import Endpoint
from pairing.errors import ServerBusyError
from pairing.links.failures import LinkFailure
from tests.pairing.test_messages_round_trip import encoded

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pair():
    with running("contoso", "contoso-dr", entities=["contoso/orders", "contoso/other"]) as namespaces:
        yield namespaces["contoso"], namespaces["contoso-dr"]


@asynccontextmanager
async def guarded(pair, entity="orders", **options):
    primary, secondary = (namespace.connection_string for namespace in pair)
    options = {"failover_interval": timedelta(0), "backlog_queue_count": 2, "enable_pings": False} | options
    named = SendAvailabilityOptions(primary_namespace="contoso", secondary_namespace="contoso-dr", **options)
    client = GatewayClient.from_connection_string(primary, secondary, options=named)
    async with client:
        raw = SharedSender(Namespace.of(Endpoint.from_connection_string("primary", primary, {})))
        yield client, GuardedSends(client, entity, QueueLink(raw, entity))
        raw.close()


async def send(client, sends, data, message_format=0, failure=None):
    return await client._runtime.run(sends.deliver(sends.delivery(data, message_format), failure, client.clock.now()))


async def received(namespace, count, entity="orders"):
    async with (
        ServiceBusClient.from_connection_string(namespace.connection_string) as client,
        client.get_queue_receiver(entity, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver,
    ):
        found = []
        while len(found) < count:
            found += await receiver.receive_messages(count, max_wait_time=10)
        return found


async def test_a_failed_delivery_waits_in_the_backlog_until_the_syphon_brings_it_home(pair):
    messages = [ServiceBusMessage(f"{number:03}" * 3000, message_id=str(number)) for number in range(28)]
    (batch,) = batches(b"", [encoded(message) for message in messages], 262_144)
    async with guarded(pair, "other") as (client, sends):
        with pair[0].rejecting("other"):
            assert "x-servicebus-transfer" in await send(client, sends, batch, BATCH_FORMAT)
            assert await send(client, sends, encoded(ServiceBusMessage("last", subject="s"))) is not None
        counted = client.meter.drain(client.clock.now(), everything=True)
        assert sum(each.messages for each in counted if each.kind == "send_backlog") == 29
        assert (await client.ping("other")).accepted
        stop = asyncio.Event()
        draining = asyncio.create_task(Syphon(client).run(stop))
        home = await received(pair[0], 29, "other")
        stop.set()
        await draining
    assert {str(message) for message in home} == {"last", *map(str, messages)}
    assert all(message.message_id for message in home)


async def test_an_error_of_the_client_and_one_within_the_failover_interval_are_the_primarys_own(pair):
    async with guarded(pair, failover_interval=timedelta(minutes=1)) as (client, sends):
        with pair[0].rejecting("orders"), pytest.raises(ServiceBusError, match="amqp:internal-error"):
            await send(client, sends, encoded(ServiceBusMessage("x")))
        assert client.entity_health("orders").state.value == "failing"
        client.fail_over("orders", "by hand")
        with pytest.raises(ValueError, match="x-ms-path"):
            await send(client, sends, encoded(ServiceBusMessage("x", application_properties={"x-ms-path": "y"})))
        with pytest.raises(MessageSizeExceededError):
            sends.delivery(encoded(ServiceBusMessage(b"x" * 262_100)), 0)


async def test_what_was_passed_on_and_failed_is_sent_to_the_backlog_without_another_attempt(pair):
    async with guarded(pair) as (client, sends):
        failure = LinkFailure(ServiceBusServerBusyError(message="busy"), reused=False)
        with pytest.raises(ServerBusyError):
            await send(client, sends, encoded(ServiceBusMessage("x")), failure=failure)
        failure = LinkFailure(ServiceBusQuotaExceededError(message="full"), reused=False)
        assert await send(client, sends, encoded(ServiceBusMessage("x")), failure=failure) is not None
        assert pair[0].stats()["orders"]["enqueued"] == 0


async def test_what_is_no_message_is_refused_before_the_primary_has_accepted_it(pair):
    async with guarded(pair) as (_, sends):
        for garbage in (b"garbage", b"\x00\x53\x73\x45\x00\x53\x70\x45"):
            with pytest.raises(DecodeError):
                sends.accepted(sends.delivery(garbage, 0))
            assert not sends._has_warmed
