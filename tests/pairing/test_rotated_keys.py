"""Keys of both namespaces are replaced while clients live (docs/day-two.md, Keys)."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusAuthenticationError

import pairing
from amqp10.sas import sign
from emulator.running import RunningNamespace, running
from pairing import SendAvailabilityOptions
from tests.pairing.conftest import World

OLD, NEW = ("old", "first-key"), ("new", "second-key")
OPTIONS = SendAvailabilityOptions(
    primary_namespace="contoso", secondary_namespace="contoso-dr", backlog_queue_count=1, enable_pings=False
)
QUEUES = ("orders", "payments")
BACKLOG = "contoso/x-servicebus-transfer/0"


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[RunningNamespace, RunningNamespace]]:
    with running("contoso", "contoso-dr", entities=[f"contoso/{queue}" for queue in QUEUES]) as namespaces:
        yield namespaces["contoso"], namespaces["contoso-dr"]


@pytest.fixture(autouse=True)
def keys(pair: tuple[RunningNamespace, RunningNamespace]) -> None:
    for namespace in pair:
        namespace.replace_keys(dict([OLD, NEW]))


def host(namespace: RunningNamespace) -> str:
    return namespace.url.removeprefix("http://")


def enqueued(namespace: RunningNamespace, path: str) -> int:
    return int(namespace.stats().get(path, {}).get("enqueued", 0))


def keyed(library: Any, pair: tuple[RunningNamespace, RunningNamespace], *credentials: Any) -> Any:
    own, others = credentials
    return library.PairedServiceBusClient(
        *map(host, pair), own, secondary_credential=others, options=OPTIONS, use_tls=False
    )


@pytest.mark.parametrize("world", ["sync", "asyncio"], indirect=True)
async def test_a_client_goes_on_with_the_new_keys_of_its_credentials(
    world: World, pair: tuple[RunningNamespace, RunningNamespace]
) -> None:
    credentials = [AzureNamedKeyCredential(*OLD) for _ in pair]
    client = keyed(world.module, pair, *credentials)
    await world(client.open)
    sender = client.get_queue_sender("orders")
    await world(sender.send_messages, ServiceBusMessage("with the old key"))
    for credential in credentials:
        credential.update(*NEW)
    for namespace in pair:
        namespace.replace_keys(dict([NEW]))

    await world(sender.send_messages, ServiceBusMessage("on the link that was open"))
    sent, kept = enqueued(pair[0], "payments"), enqueued(pair[1], BACKLOG)
    await world(client.get_queue_sender("payments").send_messages, ServiceBusMessage("on a new link"))
    client.fail_over("orders", "drill")
    await world(sender.send_messages, ServiceBusMessage("into the backlog"))
    assert (enqueued(pair[0], "payments"), enqueued(pair[1], BACKLOG)) == (sent + 1, kept + 1)
    listed = client.secondary.administration.list_queues()
    assert [each async for each in listed] if world.name == "asyncio" else list(listed)
    await world(client.close)


def test_a_client_without_the_new_key_is_refused_on_new_links(pair: tuple[RunningNamespace, RunningNamespace]) -> None:
    """What the tests above would see if a rotation did nothing."""
    credential = AzureNamedKeyCredential(*OLD)
    with keyed(pairing, pair, credential, credential) as client:
        for namespace in pair:
            namespace.replace_keys(dict([NEW]))
        with client.get_queue_sender("payments") as sender, pytest.raises(ServiceBusAuthenticationError):
            sender.send_messages(ServiceBusMessage("refused"))


def test_signatures_open_a_client_too(pair: tuple[RunningNamespace, RunningNamespace]) -> None:
    until = int(time.time()) + 600
    credentials = [AzureSasCredential(sign(*OLD, f"sb://{host(one).partition(':')[0]}/", until)) for one in pair]
    with keyed(pairing, pair, *credentials) as client:
        assert client.backlog_queue_count == 1
