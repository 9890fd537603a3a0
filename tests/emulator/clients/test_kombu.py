"""kombu's transport for Azure Service Bus, on which Celery runs: its queues, acknowledgements, rejections, purges."""

import socket

import kombu
import pytest
from azure.servicebus.management import ServiceBusAdministrationClient
from kombu.transport import azureservicebus

from pairing import emulator_transport

pytestmark = pytest.mark.nightly
RECEIVE_TIMEOUT_S = 60


@pytest.fixture
def connection(served, monkeypatch):
    text = served.namespace.connection_string

    class Channel(azureservicebus.Channel):
        """Kombu builds the connection string itself, without what makes the SDK leave TLS away."""

        def _try_parse_connection_string(self):
            self._namespace, self._connection_string = "contoso", text

    def administration(_, **options):
        return ServiceBusAdministrationClient.from_connection_string(text, transport=emulator_transport(), **options)

    monkeypatch.setattr(azureservicebus.Transport, "Channel", Channel)
    monkeypatch.setattr(
        azureservicebus,
        "ServiceBusAdministrationClient",
        type("Administration", (), {"from_connection_string": staticmethod(administration)}),
    )
    url = "azureservicebus://RootManageSharedAccessKey:key@contoso"
    with kombu.Connection(url, transport_options={"wait_time_seconds": 1}) as connection:
        yield connection


def received(connection, queue, answer, count=1):
    """The bodies of messages, each of which was answered so."""
    bodies = []

    def on_message(body, message):
        bodies.append(body)
        answer(message)

    with kombu.Consumer(connection, [queue], callbacks=[on_message], accept=["json"], prefetch_count=1):
        while len(bodies) < count:
            connection.drain_events(timeout=RECEIVE_TIMEOUT_S)
    return bodies


def test_publishes_acknowledges_requeues_and_purges(connection):
    queue = kombu.Queue("tasks", kombu.Exchange("tasks", type="direct"), routing_key="tasks")
    with kombu.Producer(connection) as producer:
        for number in range(2):
            producer.publish({"n": number}, exchange=queue.exchange, routing_key="tasks", declare=[queue])
        assert received(connection, queue, lambda message: message.ack(), 2) == [{"n": 0}, {"n": 1}]
        producer.publish({"n": 2}, exchange=queue.exchange, routing_key="tasks")
        assert received(connection, queue, lambda message: message.requeue()) == [{"n": 2}]
        assert received(connection, queue, lambda message: message.reject()) == [{"n": 2}]
        producer.publish({"n": 3}, exchange=queue.exchange, routing_key="tasks")
    with connection.channel() as channel:
        bound = queue(channel)
        assert bound.purge() >= 1
        assert bound.get() is None
        bound.delete()


def test_nothing_comes_from_an_empty_queue(connection):
    queue = kombu.Queue("idle", kombu.Exchange("idle"), routing_key="idle")
    with kombu.Consumer(connection, [queue], accept=["json"]), pytest.raises(socket.timeout):
        connection.drain_events(timeout=2)
