"""What a relay does of its own: names and keys, heartbeats, back-pressure, and the end of one of its connections."""

import re
import socket
import subprocess
import urllib.request
from contextlib import contextmanager

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusAuthenticationError
from azure.servicebus.management import ServiceBusAdministrationClient

from amqp10 import performatives as p
from amqp10 import sasl
from amqp10.connection import EMPTY_FRAME
from amqp10.frames import AMQP_HEADER, SASL_FRAME, SASL_HEADER, frame
from tests.amqp10.peer import OPENING, SESSION, sent
from tests.deployment import product
from tests.gateway.conftest import with_tls
from tests.gateway.running import gateway
from tests.gateway.wire import NOTHING, FakePrimary, Wire

pytestmark = pytest.mark.slow
FORCED = "amqp:connection:forced"
TRANSFER = sent(p.Transfer(0, 0, b"t", 0), b"\x00\x53\x75\xa0\x01x")
ACCEPTED = frame(0, p.encode_performative(p.SaslOutcome(0)), SASL_FRAME)


@contextmanager
def connected(folder):
    """A client and a primary by hand with a gateway between them, both opened."""
    with FakePrimary() as primary, gateway(folder, primary.connection_string) as running:

        def connect(**opened):
            client = Wire.to(running.connection_string)
            client.say(OPENING)
            client.expect(SASL_HEADER, sasl.greeting()[8:], ACCEPTED, AMQP_HEADER)
            wire, _ = primary.accept_open(**opened)
            assert client.performative().container_id == "primary"
            assert wire.performative().hostname == "127.0.0.1"
            return client, wire

        yield running, connect


@pytest.fixture(scope="module")
def connect(tmp_path_factory):
    with connected(tmp_path_factory.mktemp("gateway")) as (_, connect):
        yield connect


def test_a_client_with_a_key_of_the_gateway_has_its_credential_at_the_primary(plain):
    with (
        ServiceBusClient.from_connection_string(plain.connection_string) as client,
        client.get_queue_sender("orders") as sender,
        client.get_queue_receiver("orders") as receiver,
    ):
        sender.send_messages(ServiceBusMessage("through"))
        (message,) = receiver.receive_messages(max_wait_time=10)
        receiver.complete_message(message)
        assert str(message) == "through"


def test_a_client_with_another_key_is_refused_by_the_primary(plain):
    wrong = re.sub("SharedAccessKey=[^;]*", "SharedAccessKey=wrong", plain.connection_string)
    with (
        ServiceBusClient.from_connection_string(wrong, retry_total=0) as client,
        pytest.raises(ServiceBusAuthenticationError),
        client.get_queue_sender("orders") as sender,
    ):
        sender.send_messages(ServiceBusMessage("x"))


@pytest.mark.parametrize(("key", "arrives"), [("mine", ("own", "secret")), ("theirs", ("app", "theirs"))])
def test_a_name_and_a_key_are_replaced_if_they_are_the_gateways_and_passed_on_otherwise(tmp_path, key, arrives):
    (tmp_path / "keys").write_text("app mine\n")
    with (
        FakePrimary() as primary,
        gateway(tmp_path, primary.connection_string, "--key-file", str(tmp_path / "keys")) as running,
    ):
        assert f"SharedAccessKeyName=app;SharedAccessKeyFile={tmp_path / 'keys'};" in running.connection_string
        client = Wire.to(running.connection_string)
        init = p.SaslInit("PLAIN", f"\0app\0{key}".encode(), "host")
        client.say(SASL_HEADER, frame(0, p.encode_performative(init), SASL_FRAME), AMQP_HEADER)
        client.expect(SASL_HEADER, sasl.greeting()[8:])
        _, said = primary.accept_open()
        client.expect(ACCEPTED, AMQP_HEADER)
        assert said.hostname == "127.0.0.1"
        assert said.initial_response == "\0{}\0{}".format(*arrives).encode()


def test_each_peer_gets_heartbeats_as_it_asked_and_they_are_not_passed_on(connect):
    client, primary = connect(idle_time_out=1000)
    primary.expect(EMPTY_FRAME, EMPTY_FRAME)
    client.say(EMPTY_FRAME, SESSION)
    primary.expect(*[EMPTY_FRAME] * 0)
    while (heard := primary.hear()) == EMPTY_FRAME:
        pass
    assert heard == SESSION


def test_a_silent_client_is_ended_after_twice_the_idle_time_out_of_the_primary(connect):
    client, primary = connect(idle_time_out=500)
    assert p.error_parts(client.performative().error)[0] == "amqp:resource-limit-exceeded"
    while primary.hear() != NOTHING:
        pass


@pytest.mark.parametrize("is_client", [True, False], ids=["client", "primary"])
def test_who_does_not_read_is_not_written_to_without_end(connect, is_client):
    ends = connect(max_frame_size=65536)
    writer = ends[0 if is_client else 1].socket
    writer.settimeout(2)
    writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    with pytest.raises(TimeoutError):
        writer.sendall(frame(1, TRANSFER[8:] + bytes(60_000)) * 500)  # 30 MB


def test_either_side_learns_that_the_other_is_lost(connect):
    client, primary = connect()
    primary.socket.close()
    assert p.error_parts(client.performative().error)[0] == FORCED
    assert client.hear() == NOTHING
    client, primary = connect()
    client.socket.close()
    assert primary.hear() == NOTHING


def test_an_orderly_close_passes_both_ways(connect):
    client, primary = connect()
    close = sent(p.Close(), channel=0)
    client.say(close)
    primary.expect(close)
    primary.say(close)
    client.expect(close, NOTHING)
    primary.expect(NOTHING)


def test_a_malformed_frame_ends_its_own_connection_alone(connect):
    (client, _), (other, primary) = connect(), connect()
    client.say(b"\0\0\0\1\2\0\0\0")
    assert p.error_parts(client.performative().error)[0] == "amqp:connection:framing-error"
    other.say(SESSION)
    primary.expect(SESSION)


def test_sigterm_sends_clients_elsewhere(tmp_path):
    with connected(tmp_path) as (running, connect):
        client, primary = connect()
        assert urllib.request.urlopen(f"{running.health}/readyz").read() == b"ready\n"
        metrics = urllib.request.urlopen(f"{running.health}/metrics").read()
        assert b'paired_gateway_clients{pair="contoso",sdk="other"} 1.0' in metrics
        running.process.terminate()
        assert p.error_parts(client.performative().error)[0] == FORCED
        assert primary.hear() == NOTHING
        assert running.process.wait(10) == 0


def test_administration_under_the_name_of_the_namespace_reaches_the_primary(served, tmp_path):
    make = product.DEPLOY / "container" / "make-authority.sh"
    subprocess.run(["sh", make, "localhost", tmp_path], check=True)
    port = served.namespace.url.rpartition(":")[2]
    named = served.namespace.connection_string.replace("127.0.0.1", "localhost").partition("UseDevelopment")[0]
    options = with_tls(tmp_path, "--primary-address", f"127.0.0.1:{port}")
    with gateway(tmp_path, named, *options, SSL_CERT_FILE=str(served.authority)) as running:
        there = named.replace(f":{port}", f":{running.places[0].rpartition(':')[2]}")
        with ServiceBusAdministrationClient.from_connection_string(
            there, connection_verify=str(tmp_path / "ca.pem")
        ) as client:
            assert client.get_namespace_properties().name
            client.create_queue("made", max_delivery_count=7)
            assert client.get_queue("made").max_delivery_count == 7
            client.delete_queue("made")
            assert "made" not in [queue.name for queue in client.list_queues()]
            with pytest.raises(ResourceNotFoundError):
                client.get_queue("made")
