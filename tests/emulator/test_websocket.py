"""AMQP over WebSockets: the handshake and frames in memory, then the SDK over them, blocking and asyncio."""

import contextlib
import itertools
import os
import socket

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient
from azure.servicebus.exceptions import ServiceBusConnectionError

from emulator.http import HttpError, Request
from emulator.running import running
from emulator.websocket import MAX_FRAME, PART, PATH, WebSocketChannel, WebSocketError, accepted

KEY, ACCEPTANCE = "dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="  # of RFC 6455, section 1.3
MASK = b"\x01\x02\x03\x04"
BINARY, FINAL = 0x2, 0x80
AMQP = b"AMQP\x03\x01\x00\x00"


def asked(target=PATH, method="GET", **headers):
    given = {
        "host": "127.0.0.1:5672",
        "upgrade": "websocket",
        "connection": "keep-alive, Upgrade",
        "sec-websocket-version": "13",
        "sec-websocket-key": KEY,
        "sec-websocket-protocol": "AMQPWSB10",
    } | {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(method, target, {name: value for name, value in given.items() if value is not None})


def framed(payload=b"", first=FINAL | BINARY, *, mask=MASK, size=None):
    """A frame of a client."""
    size = len(payload) if size is None else size
    if size < 126:
        length = bytes([size])
    else:
        length = b"\x7e" + size.to_bytes(2, "big") if size < 1 << 16 else b"\x7f" + size.to_bytes(8, "big")
    body = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload)) if mask else payload
    return bytes([first, length[0] | (0x80 if mask else 0)]) + length[1:] + mask + body


@pytest.fixture
def channel():
    sent = []
    channel = WebSocketChannel(sent.append)
    channel.sent = sent
    return channel


# --- the handshake --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offered", ["AMQPWSB10", "amqp", "other, amqp"])
@pytest.mark.parametrize("target", [PATH, f"{PATH}/", f"{PATH}?sb-hc-action=connect", "/%24servicebus/websocket"])
def test_a_handshake_is_answered_with_a_subprotocol_of_the_client(target, offered):
    answer = accepted(asked(target, sec_websocket_protocol=offered)).decode()
    assert answer.startswith("HTTP/1.1 101 ")
    assert answer.endswith("\r\n\r\n")
    assert f"Sec-WebSocket-Accept: {ACCEPTANCE}\r\n" in answer
    assert f"Sec-WebSocket-Protocol: {offered.rpartition(' ')[2]}\r\n" in answer


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (asked("/orders"), 404),
        (asked(method="POST"), 400),
        (asked(connection="close"), 400),
        (asked(sec_websocket_version="8"), 426),
        (asked(sec_websocket_protocol=None), 400),
        (asked(sec_websocket_protocol="mqtt"), 400),
        (asked(sec_websocket_key=None), 400),
        (asked(sec_websocket_key="dGhl"), 400),
        (asked(sec_websocket_key="é"), 400),
        (asked(origin="https://attacker.example"), 403),
        (asked(origin="null"), 403),
        (asked(origin="http://[broken"), 403),
    ],
)
def test_a_handshake_that_is_none_is_refused(request_, status):
    with pytest.raises(HttpError) as caught:
        accepted(request_)
    assert caught.value.status == status


def test_a_page_of_the_same_host_may_connect():
    assert accepted(asked(origin="http://127.0.0.1:3000"))


# --- frames ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, MAX_FRAME])
def test_data_arrives_whole_and_unmasked_however_it_is_cut(channel, size):
    data = (bytes(range(256)) * (size // 256 + 1))[:size]
    sent = framed(data[:5], BINARY) + framed(data[5:], FINAL)  # two fragments of one message
    cuts = sorted((0, 1, 3, 9, len(sent) // 2, len(sent)))
    received = [channel.receive(sent[start:end]) for start, end in itertools.pairwise(cuts)]
    assert b"".join(received) == data
    assert channel.sent == []


@pytest.mark.parametrize("size", [0, 1, 125, 126, PART - 1, PART, PART + 1, 3 * PART])
def test_what_is_written_is_framed_in_parts(channel, size):
    data = os.urandom(size)
    channel.write(data)
    found = b""
    for each in channel.sent:
        assert each[0] == FINAL | BINARY
        start = {126: 4, 127: 10}.get(each[1], 2)
        length = each[1] if start == 2 else int.from_bytes(each[2:start], "big")
        assert length == len(each) - start <= PART
        found += each[start:]
    assert found == data


def test_pings_are_answered_between_fragments_and_pongs_are_not(channel):
    assert channel.receive(framed(b"a", BINARY) + framed(b"?", FINAL | 0x9) + framed(b"!", FINAL | 0xA)) == b"a"
    assert channel.sent == [b"\x8a\x01?"]
    assert channel.receive(framed(b"b", FINAL)) == b"b"


def test_closing_is_answered_once_and_nothing_follows(channel):
    assert channel.receive(framed(b"a") + framed(b"\x03\xe8", FINAL | 0x8) + framed(b"b")) == b"a"
    channel.close()
    channel.write(b"more")
    assert (channel.is_closed, channel.sent) == (True, [b"\x88\x02\x03\xe8"])


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (framed(b"x", mask=b""), 1002),
        (framed(b"x", FINAL | 0x40 | BINARY), 1002),
        (framed(b"x", FINAL | 0x1), 1003),
        (framed(b"x", FINAL), 1002),
        (framed(b"x", BINARY) + framed(b"x", BINARY), 1002),
        (framed(b"x", FINAL | 0x3), 1002),
        (framed(b"x", FINAL | 0xB), 1002),
        (framed(b"x", 0x9), 1002),
        (framed(b"x" * 126, FINAL | 0x9), 1002),
        (framed(size=MAX_FRAME + 1), 1009),
        (framed(size=2**63), 1009),
    ],
    ids=["not masked", "extension", "text", "continues nothing", "begins within a message", "unknown",
         "unknown control", "half a ping", "long ping", "too long", "far too long"],
)  # fmt: skip
def test_a_frame_against_the_protocol_is_refused_before_it_is_whole(channel, sent, code):
    with pytest.raises(WebSocketError) as caught:
        channel.receive(sent)
    assert caught.value.code == code


# --- in a process ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def local():
    with running("contoso", entities=["contoso/orders", "contoso/aio"]) as namespaces:
        yield namespaces["contoso"]


@pytest.fixture
def connect(local):
    """Opens a socket to the namespace and asks for a WebSocket, with these bytes behind."""
    with contextlib.ExitStack() as stack:

        def connect(more=b"", **headers):
            address = ("127.0.0.1", int(local.url.rpartition(":")[2]))
            opened = stack.enter_context(socket.create_connection(address, timeout=60))
            request = asked(**headers)
            lines = [f"GET {request.target} HTTP/1.1", *(f"{name}: {value}" for name, value in request.headers.items())]
            opened.sendall("\r\n".join([*lines, "", ""]).encode() + more)
            return opened.makefile("rb")

        yield connect


def head(answer):
    return b"".join(iter(answer.readline, b"\r\n")).decode()


def test_what_follows_the_handshake_at_once_is_read(connect):
    answer = connect(framed(AMQP[:3], BINARY) + framed(AMQP[3:], FINAL))
    assert head(answer).startswith("HTTP/1.1 101 ")
    first, size = answer.read(2)
    assert first == FINAL | BINARY
    assert answer.read(size).startswith(AMQP)


@pytest.mark.parametrize(
    ("sent", "code"),
    [(framed(b"GET / HTTP/1.1\r\n\r\n"), 1000), (framed(b"\x16\x03\x01"), 1000), (framed(b"x", mask=b""), 1002)],
    ids=["HTTP", "TLS", "not masked"],
)
def test_what_is_no_amqp_is_closed(connect, sent, code):
    answer = connect(sent)
    head(answer)
    assert answer.read() == b"\x88\x02" + code.to_bytes(2, "big")


def test_a_refused_handshake_is_one_sentence(connect):
    answer = connect(framed(AMQP), sec_websocket_version="8").read()
    assert answer.startswith(b"HTTP/1.1 426 ")
    assert b"Sec-WebSocket-Version: 13\r\n" in answer
    assert answer.endswith(b'{"error": "The WebSocket version must be 13."}')


def over_websockets(class_, local):
    return class_.from_connection_string(
        local.connection_string,
        transport_type=TransportType.AmqpOverWebsocket,
        custom_endpoint_address=local.url,
        retry_total=0,
    )


LARGE = bytes(range(256)) * 800


def test_the_sdk_sends_receives_and_settles_over_websockets(local):
    with over_websockets(ServiceBusClient, local) as client:
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


@pytest.mark.filterwarnings("ignore:ssl=None is deprecated:DeprecationWarning")  # the SDK uses it
async def test_the_sdk_sends_receives_and_settles_over_websockets_in_asyncio(local):
    async with over_websockets(AsyncServiceBusClient, local) as client:
        async with client.get_queue_sender("aio") as sender:
            await sender.send_messages(ServiceBusMessage(LARGE))
        async with client.get_queue_receiver("aio", keep_alive=0) as receiver:
            (message,) = await receiver.receive_messages(1, max_wait_time=60)
            await receiver.complete_message(message)
            assert b"".join(message.body) == LARGE


def test_faults_reach_a_client_over_websockets(local):
    with over_websockets(ServiceBusClient, local) as client, client.get_queue_sender("orders") as sender:
        with local.faulty("send", "reset", entity="orders", count=1), pytest.raises(ServiceBusConnectionError):
            sender.send_messages(ServiceBusMessage("lost"))
        sender.send_messages(ServiceBusMessage("kept"))
