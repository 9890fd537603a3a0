"""Programs made of the SDKs, through a gateway: every frame arrives as it was sent, on both ways.

Each uses the option for a custom endpoint, so that not even a name has to be changed on the way.
"""

import pytest

from tests import forked
from tests.administration import administration_of
from tests.emulator.clients.installed import JAVASCRIPT, node_packages
from tests.emulator.clients.programs import NET_CLIENT, command
from tests.emulator.clients.test_programs import GENERAL, STEPS, prepare
from tests.selection import nightly

pytestmark = pytest.mark.slow

BLOCKING = """
import sys
from datetime import UTC, datetime, timedelta
from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType

named, endpoint, authority = sys.argv[1:]
amqp = {"custom_endpoint_address": endpoint, "connection_verify": authority, "transport_type": TransportType.Amqp}
with ServiceBusClient.from_connection_string(named, **amqp) as client:
    with client.get_queue_sender("orders") as sender, client.get_queue_receiver("orders", prefetch_count=5) as receiver:
        sender.send_messages(ServiceBusMessage(b"x" * 200_000))
        sender.send_messages([ServiceBusMessage(str(number), subject="batch") for number in range(5)])
        later = sender.schedule_messages(ServiceBusMessage("later"), datetime.now(UTC) + timedelta(hours=1))
        sender.cancel_scheduled_messages(later)
        assert len(receiver.peek_messages(6)) == 6
        received = []
        while len(received) < 6:
            received += receiver.receive_messages(6 - len(received), max_wait_time=10)
        assert len(bytes(b"".join(received[0].body))) == 200_000
        receiver.complete_message(received[0])
        receiver.abandon_message(received[1])
        receiver.dead_letter_message(received[2], reason="mine")
        receiver.renew_message_lock(received[3])
        receiver.defer_message(received[3])
        (deferred,) = receiver.receive_deferred_messages(received[3].sequence_number)
        receiver.complete_message(deferred)
"""
ASYNCIO = """
import asyncio, ssl, sys
from azure.servicebus import ServiceBusMessage, TransportType
from azure.servicebus.aio import ServiceBusClient

named, endpoint, authority = sys.argv[1:]
amqp = {"custom_endpoint_address": endpoint, "transport_type": TransportType.Amqp}

async def main():
    context = ssl.create_default_context(cafile=authority)
    async with (
        ServiceBusClient.from_connection_string(named, ssl_context=context, **amqp) as client,
        client.get_queue_sender("orders") as sender,
        client.get_queue_receiver("orders") as receiver,
    ):
        await asyncio.gather(*(sender.send_messages(ServiceBusMessage(str(number))) for number in range(20)))
        received = 0
        while received < 20:
            for message in await receiver.receive_messages(20, max_wait_time=10):
                await receiver.complete_message(message)
                received += 1

asyncio.run(main())
"""


@pytest.mark.sampled
@pytest.mark.parametrize("program", [BLOCKING, ASYNCIO], ids=["blocking", "asyncio"])
def test_the_sdk_for_python(watched, program):
    arguments = [watched.named, watched.endpoint, str(watched.served.authority)]
    forked.run(["-c", program, *arguments], {}, check=True)

    assert len(watched.before.connections) >= 2
    assert watched.unequal() == []


@pytest.mark.parametrize("program", ["service_bus.mjs", *nightly("rhea.mjs")])
def test_the_clients_for_javascript(watched, program):
    plain = watched.served.namespace.connection_string
    with administration_of(plain) as administration:
        administration.create_queue("sessions", requires_session=True)
    command = ["node", "--test-reporter=tap", str(JAVASCRIPT / program)]
    places = {"ADMINISTRATION_CONNECTION_STRING": watched.administered, "PLAIN_CONNECTION_STRING": plain}
    places |= {"CUSTOM_ENDPOINT": watched.endpoint, "CLIENT_PACKAGES": str(node_packages())}
    printed = watched.served.run(command, watched.named, **places)

    assert f"\n# pass {42 if program == 'service_bus.mjs' else 12}\n" in printed
    assert watched.unequal() == []


@pytest.mark.parametrize("watched", [True, *nightly(False)], indirect=True, ids=["guarded", "relayed"])
@pytest.mark.skipif(NET_CLIENT is None, reason="The steps of .NET need NET_CLIENT, the path of a program of its SDK.")
def test_the_sdk_for_dotnet(watched):
    addresses = ["--admin", watched.administered, "--endpoint", watched.endpoint]
    printed = watched.served.run([NET_CLIENT, "steps", watched.named, *addresses])

    assert printed.splitlines()[-1] == "NET 36 ok, 0 failed"
    assert watched.unequal() == []


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["Go", "Java", "JMS", "qpid-proton"])
def test_other_clients(watched, name):
    prepare(name, watched.served)
    here = watched.named.replace("localhost", f"localhost:{watched.before.port}")
    more = {"NAMESPACE": "localhost", "ADMINISTRATION_CONNECTION_STRING": watched.served.namespace.connection_string}
    printed = watched.served.run(command(name), here, **more)

    assert f"\n# pass {(STEPS | GENERAL)[name]}\n" in printed
    assert watched.unequal() == []
