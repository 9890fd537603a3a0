"""AMQP over WebSockets: the handshake and frames in memory, then the SDK over them."""

import contextlib
import socket

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType
from azure.servicebus.exceptions import ServiceBusConnectionError
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage

from amqp10.transport.websocket import PATH, WebSocketChannel, WebSocketRefused
from emulator.running import running

AMQP = b"AMQP\x03\x01\x00\x00"
UNMASKED = b"\x82\x01x"


def asked(target=PATH, **headers):
    given = {
        "host": "127.0.0.1:5672",
        "upgrade": "websocket",
        "connection": "keep-alive, Upgrade",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        "sec-websocket-protocol": "AMQPWSB10",
    } | {name.replace("_", "-"): value for name, value in headers.items()}
    return target, {name: value for name, value in given.items() if value is not None}


def framed(*events):
    """The frames of a client."""
    client = Connection(ConnectionType.CLIENT)
    return b"".join(map(client.send, events))


def unframed(data):
    client = Connection(ConnectionType.CLIENT)
    client.receive_data(data)
    return list(client.events())


@pytest.mark.parametrize("offered", ["AMQPWSB10", "amqp", "other, amqp"])
@pytest.mark.parametrize(
    "target", [PATH, f"{PATH}/", f"{PATH}?sb-hc-action=connect", "/%24servicebus/websocket", f"https://a:1{PATH}"]
)
def test_a_handshake_is_answered_with_a_subprotocol_of_the_client(target, offered):
    answer = WebSocketChannel().accept(*asked(target, sec_websocket_protocol=offered)).decode().lower()
    assert answer.startswith("http/1.1 101 ")
    assert f"sec-websocket-protocol: {offered.lower().rpartition(' ')[2]}\r\n" in answer


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (asked("/orders"), 404),
        (asked(connection="close"), 400),
        (asked(sec_websocket_version="8"), 426),
        (asked(sec_websocket_protocol=None), 400),
        (asked(sec_websocket_protocol="mqtt"), 400),
        (asked(sec_websocket_protocol="ô"), 400),
        (asked(sec_websocket_key=None), 400),
    ],
)
def test_a_handshake_that_is_none_is_refused(request_, status):
    with pytest.raises(WebSocketRefused) as caught:
        WebSocketChannel().accept(*request_)
    assert caught.value.status == status


@pytest.fixture
def channel():
    channel, written = WebSocketChannel(), []
    channel.accept(*asked())
    channel.begin(written.append)
    channel.written = written
    return channel


def test_messages_are_a_stream_of_bytes_and_pings_are_answered(channel):
    data = framed(BytesMessage(b"a", message_finished=False), Ping(b"?"), Pong(b"!"), BytesMessage(b"b"))
    assert b"".join(channel.receive(data[at : at + 3]) for at in range(0, len(data), 3)) == b"ab"
    channel.write(b"c" * 100_000)
    assert unframed(b"".join(channel.written)) == [Pong(b"?"), BytesMessage(b"c" * 100_000)]


@pytest.mark.parametrize(
    ("data", "code"),
    [(framed(CloseConnection(1001)), 1001), (framed(TextMessage("x")), 1003), (UNMASKED, 1002)],
    ids=["closed", "text", "not masked"],
)
def test_what_ends_a_websocket_is_answered_once_and_nothing_follows(channel, data, code):
    assert channel.receive(framed(BytesMessage(b"a")) + data + framed(BytesMessage(b"b"))) == b"a"
    assert channel.receive(framed(BytesMessage(b"c"))) == b""
    channel.close()
    channel.write(b"more")
    (closing,) = unframed(b"".join(channel.written))
    assert (channel.is_closed, closing.code) == (True, code)


@pytest.fixture(scope="module")
def local():
    with running("contoso", entities=["contoso/orders"]) as namespaces:
        yield namespaces["contoso"]


@pytest.fixture
def connect(local):
    """Opens a socket to the namespace and asks for a WebSocket, with these bytes behind."""
    with contextlib.ExitStack() as stack:

        def connect(more=b"", **headers):
            address = ("127.0.0.1", int(local.url.rpartition(":")[2]))
            opened = stack.enter_context(socket.create_connection(address, timeout=60))
            target, given = asked(**headers)
            lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
            opened.sendall("\r\n".join([*lines, "", ""]).encode() + more)
            return opened.makefile("rb")

        yield connect


def head(answer):
    return b"".join(iter(answer.readline, b"\r\n")).decode()


def test_what_follows_the_handshake_at_once_is_read(connect):
    answer = connect(framed(BytesMessage(AMQP[:3], message_finished=False), BytesMessage(AMQP[3:])))
    assert head(answer).startswith("HTTP/1.1 101 ")
    first, size = answer.read(2)
    assert (first, answer.read(size)[:8]) == (0x82, AMQP)


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01"], ids=["HTTP", "TLS"])
def test_what_is_no_amqp_is_closed(connect, sent):
    answer = connect(framed(BytesMessage(sent)))
    head(answer)
    assert answer.read() == b"\x88\x02\x03\xe8"


def test_a_refused_handshake_is_one_sentence(connect):
    answer = connect(framed(BytesMessage(AMQP)), sec_websocket_version="8").read()
    assert answer.startswith(b"HTTP/1.1 426 ")
    assert b"Sec-WebSocket-Version: 13\r\n" in answer
    assert b'{"error": ' in answer


def over_websockets(local):
    return ServiceBusClient.from_connection_string(
        local.connection_string,
        transport_type=TransportType.AmqpOverWebsocket,
        custom_endpoint_address=local.url,
        retry_total=0,
    )


LARGE = bytes(range(256)) * 800


def test_the_sdk_sends_receives_and_settles_over_websockets(local):
    with over_websockets(local) as client:
        with client.get_queue_sender("orders") as sender:
            sender.send_messages([ServiceBusMessage("small") for _ in range(300)])
            sender.send_messages(ServiceBusMessage(LARGE))
        with client.get_queue_receiver("orders", keep_alive=0) as receiver:
            found = []
            while len(found) < 301:
                messages = receiver.receive_messages(301, max_wait_time=60)
                assert messages
                found += messages
                for message in messages:
                    receiver.complete_message(message)
            assert b"".join(found[-1].body) == LARGE
            assert receiver.peek_messages() == []


def test_faults_reach_a_client_over_websockets(local):
    with over_websockets(local) as client, client.get_queue_sender("orders") as sender:
        with local.faulty("send", "reset", entity="orders", count=1), pytest.raises(ServiceBusConnectionError):
            sender.send_messages(ServiceBusMessage("lost"))
        sender.send_messages(ServiceBusMessage("kept"))
