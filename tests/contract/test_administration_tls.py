"""The administration over TLS, on the same port as everything else, with the clients as they come."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from azure.servicebus import ServiceBusMessage, TransportType

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


@pytest.fixture
def verify(authority):
    return {"connection_verify": str(authority[1] / "ca.pem")}


@pytest.fixture
def administered(world, secure):
    """Makes administration clients as they come."""

    def make(**options):
        return world.administration(lambda class_: class_.from_connection_string(secure, retry_total=0, **options))

    return make


def test_a_client_needs_nothing_but_the_certificate(administered, verify):
    with administered(**verify) as client:
        assert client.create_queue("tls/queue").max_delivery_count == 10
        assert [queue.name for queue in client.list_queues()] == ["tls/queue"]
        client.delete_queue("tls/queue")


def test_plain_http_still_works_on_the_same_port(administered, world):
    with administered(transport=world.transport()) as client:
        assert client.get_namespace_properties().messaging_sku == "Standard"


def test_messages_travel_over_tls_as_well(administered, verify, connect, secure):
    port = int(secure.partition("127.0.0.1:")[2].partition(";")[0])
    options = {"custom_endpoint_address": f"sb://127.0.0.1:{port}", "transport_type": TransportType.Amqp, **verify}
    with administered(**verify) as administration:
        administration.create_queue("orders")
        with (
            connect(secure.replace("UseDevelopmentEmulator=true;", ""), **options) as client,
            client.get_queue_sender("orders") as sender,
        ):
            sender.send_messages(ServiceBusMessage("x"))
        assert administration.get_queue_runtime_properties("orders").active_message_count == 1
        administration.delete_queue("orders")
