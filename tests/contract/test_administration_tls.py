"""The administration over TLS, on the same port as everything else, with the clients as they come."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from azure.core.exceptions import ServiceRequestError
from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType
from azure.servicebus.aio.management import ServiceBusAdministrationClient as AsyncServiceBusAdministrationClient
from azure.servicebus.management import ServiceBusAdministrationClient

pytestmark = pytest.mark.contract


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[trustme.CA, Path]:
    directory = tmp_path_factory.mktemp("certificates")
    ca = trustme.CA()
    ca.cert_pem.write_to_path(directory / "ca.pem")
    leaf = ca.issue_cert("127.0.0.1", "localhost")
    leaf.private_key_pem.write_to_path(directory / "key.pem")
    for blob in leaf.cert_chain_pems:
        blob.write_to_path(directory / "cert.pem", append=True)
    return ca, directory


@pytest.fixture(scope="module")
def secure(authority, emulator_with) -> Iterator[str]:
    _, directory = authority
    arguments = ("--tls-cert", str(directory / "cert.pem"), "--tls-key", str(directory / "key.pem"))
    with emulator_with(*arguments) as connection_string:
        yield connection_string


def test_the_blocking_client_needs_nothing_but_the_certificate(secure, authority):
    _, directory = authority
    with ServiceBusAdministrationClient.from_connection_string(
        secure, connection_verify=str(directory / "ca.pem")
    ) as client:
        assert client.create_queue("blocking/tls").max_delivery_count == 10
        assert [queue.name for queue in client.list_queues()] == ["blocking/tls"]
        client.delete_queue("blocking/tls")


async def test_the_asyncio_client_too(secure, authority):
    _, directory = authority
    client = AsyncServiceBusAdministrationClient.from_connection_string(
        secure, connection_verify=str(directory / "ca.pem")
    )
    async with client:
        await client.create_queue("asyncio/tls")
        assert [queue.name async for queue in client.list_queues()] == ["asyncio/tls"]
        await client.delete_queue("asyncio/tls")


def test_a_stranger_to_the_certificate_is_warned(secure):
    client = ServiceBusAdministrationClient.from_connection_string(secure, retry_total=0)
    with client, pytest.raises(ServiceRequestError, match="CERTIFICATE_VERIFY_FAILED"):
        client.get_queue("orders")


def test_plain_http_still_works_on_the_same_port(secure, plain_transport):
    with ServiceBusAdministrationClient.from_connection_string(secure, transport=plain_transport()) as client:
        assert client.get_namespace_properties().messaging_sku == "Standard"


def test_messages_travel_over_tls_as_well(secure, authority):
    _, directory = authority
    encrypted = secure.replace("UseDevelopmentEmulator=true;", "")
    port = int(secure.partition("127.0.0.1:")[2].partition(";")[0])
    with ServiceBusAdministrationClient.from_connection_string(
        secure, connection_verify=str(directory / "ca.pem")
    ) as administration:
        administration.create_queue("orders")
        options = {"connection_verify": str(directory / "ca.pem"), "transport_type": TransportType.Amqp}
        with (
            ServiceBusClient.from_connection_string(
                encrypted, custom_endpoint_address=f"sb://127.0.0.1:{port}", retry_total=0, **options
            ) as client,
            client.get_queue_sender("orders") as sender,
        ):
            sender.send_messages(ServiceBusMessage("x"))
        assert administration.get_queue_runtime_properties("orders").active_message_count == 1
