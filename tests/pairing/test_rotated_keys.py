"""Keys of both namespaces are replaced while clients live (docs/day-two.md, Keys)."""

import time
from collections.abc import Iterator

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusAuthenticationError

from emulator.running import RunningNamespace, running
from emulator.signatures import sign
from pairing import PairedServiceBusClient, SendAvailabilityOptions
from pairing.aio import PairedServiceBusClient as AsyncPairedServiceBusClient

OLD, NEW = ("old", "first-key"), ("new", "second-key")
OPTIONS = SendAvailabilityOptions(
    primary_namespace="contoso", secondary_namespace="contoso-dr", backlog_queue_count=1, enable_pings=False
)
QUEUES = ("orders", "payments")


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


def revoke_old(pair: tuple[RunningNamespace, RunningNamespace]) -> None:
    for namespace in pair:
        namespace.replace_keys(dict([NEW]))


def in_backlog(pair: tuple[RunningNamespace, RunningNamespace]) -> int:
    return int(pair[1].stats()["contoso/x-servicebus-transfer/0"]["enqueued"])


def test_a_client_goes_on_with_the_new_keys_of_its_credentials(pair: tuple[RunningNamespace, RunningNamespace]) -> None:
    credentials = [AzureNamedKeyCredential(*OLD) for _ in pair]
    hosts = [host(namespace) for namespace in pair]
    with PairedServiceBusClient(
        *hosts, credentials[0], secondary_credential=credentials[1], options=OPTIONS, use_tls=False
    ) as client:
        with client.get_queue_sender("orders") as sender:
            sender.send_messages(ServiceBusMessage("with the old key"))
            for credential in credentials:
                credential.update(*NEW)
            revoke_old(pair)

            sender.send_messages(ServiceBusMessage("on the link that was open"))
            with client.get_queue_sender("payments") as other:
                other.send_messages(ServiceBusMessage("on a new link"))
            before = in_backlog(pair)
            client.fail_over("orders", "drill")
            sender.send_messages(ServiceBusMessage("into the backlog"))
        assert in_backlog(pair) == before + 1
        assert [queue.name for queue in client.secondary.administration.list_queues()]
    assert pair[0].stats()["payments"]["enqueued"] >= 1


async def test_an_asyncio_client_goes_on_with_them_too(pair: tuple[RunningNamespace, RunningNamespace]) -> None:
    credentials = [AzureNamedKeyCredential(*OLD) for _ in pair]
    hosts = [host(namespace) for namespace in pair]
    async with AsyncPairedServiceBusClient(
        *hosts, credentials[0], secondary_credential=credentials[1], options=OPTIONS, use_tls=False
    ) as client:
        async with client.get_queue_sender("orders") as sender:
            await sender.send_messages(ServiceBusMessage("with the old key"))
        for credential in credentials:
            credential.update(*NEW)
        revoke_old(pair)
        async with client.get_queue_sender("payments") as other:
            await other.send_messages(ServiceBusMessage("on a new link"))
        assert [queue.name async for queue in client.secondary.administration.list_queues()]


def test_a_client_without_the_new_key_is_refused_on_new_links(pair: tuple[RunningNamespace, RunningNamespace]) -> None:
    """What the tests above would see if a rotation did nothing."""
    hosts = [host(namespace) for namespace in pair]
    with PairedServiceBusClient(*hosts, AzureNamedKeyCredential(*OLD), options=OPTIONS, use_tls=False) as client:
        revoke_old(pair)
        with client.get_queue_sender("payments") as sender, pytest.raises(ServiceBusAuthenticationError):
            sender.send_messages(ServiceBusMessage("refused"))


def test_signatures_open_a_client_too(pair: tuple[RunningNamespace, RunningNamespace]) -> None:
    until = int(time.time()) + 600
    credentials = [AzureSasCredential(sign(*OLD, f"sb://{host(one).partition(':')[0]}/", until)) for one in pair]
    hosts = [host(namespace) for namespace in pair]
    with PairedServiceBusClient(
        *hosts, credentials[0], secondary_credential=credentials[1], options=OPTIONS, use_tls=False
    ) as client:
        assert client.backlog_queue_count == 1
