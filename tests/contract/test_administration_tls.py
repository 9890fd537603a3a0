"""The administration over TLS, on the same port as everything else, with the clients as they come."""

import socket
import ssl
from collections.abc import Iterator

import pytest
from azure.servicebus import ServiceBusMessage, TransportType

from tests.emulator.clients.conftest import Served, serving

pytestmark = pytest.mark.contract


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("certificates")) as served:
        yield served


@pytest.fixture
def secure(served: Served) -> str:
    return served.namespace.connection_string


@pytest.fixture
def verify(served: Served) -> dict[str, str]:
    return {"connection_verify": str(served.authority)}


@pytest.fixture
def administered(world, secure):
    """Makes administration clients as they come."""

    def make(**options):
        return world.administration(lambda class_: class_.from_connection_string(secure, retry_total=0, **options))

    return make


def test_a_client_needs_nothing_but_the_certificate(administered, verify):
    with administered(**verify) as client:
        assert client.create_queue("tls/queue").max_delivery_count == 10
        assert [queue.name for queue in client.list_queues()] == ["orders", "tls/queue"]
        client.delete_queue("tls/queue")


def test_plain_http_still_works_on_the_same_port(administered, world):
    with administered(transport=world.transport()) as client:
        assert client.get_namespace_properties().messaging_sku == "Standard"


def test_messages_travel_over_tls_as_well(served, verify, connect, secure):
    port, before = int(served.namespace.url.rpartition(":")[2]), served.namespace.stats()["orders"]["active"]
    options = {"custom_endpoint_address": f"sb://127.0.0.1:{port}", "transport_type": TransportType.Amqp, **verify}
    with (
        connect(secure.replace("UseDevelopmentEmulator=true;", ""), **options) as client,
        client.get_queue_sender("orders") as sender,
    ):
        sender.send_messages(ServiceBusMessage("x"))
    assert served.namespace.stats()["orders"]["active"] == before + 1


def test_a_client_that_gives_tls_up_ends_only_its_own_connection(served):
    context, greeting = ssl.create_default_context(cafile=str(served.authority)), b"AMQP\x03\x01\x00\x00"
    raw = socket.create_connection(("127.0.0.1", int(served.namespace.url.rpartition(":")[2])), timeout=60)
    with context.wrap_socket(raw, server_hostname="127.0.0.1") as wrapped:
        wrapped.sendall(greeting)
        assert wrapped.recv(8) == greeting
        socket.socket(fileno=wrapped.detach()).close()
    assert "orders" in served.namespace.stats()
