"""The engine's client over a socket, with a namespace in a process: tokens, batches, settlement, failures."""

import socket
import time
from contextlib import closing

import pytest

from amqp10 import events as e
from amqp10 import performatives as p
from amqp10.cbs import TokenNode
from amqp10.client import ClientConnection
from amqp10.codec import encode
from amqp10.sas import sign
from amqp10.sasl import ANONYMOUS, Credentials
from amqp10.types import ULong
from emulator.broker.message import BATCH_FORMAT
from emulator.running import running
from tests.emulator.client import body

NAME = "RootManageSharedAccessKey"


@pytest.fixture(scope="module")
def namespace():
    with running("contoso", entities=["contoso/orders"]) as found:
        yield found["contoso"]


class Line:
    """A client's connection over a socket."""

    def __init__(self, namespace, credentials=ANONYMOUS):
        host, _, port = namespace.url.removeprefix("http://").partition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=20)
        self.connection = ClientConnection("test", "contoso.servicebus.windows.net", credentials)
        self.events = []

    def close(self):
        self.socket.close()

    def wait(self, kind):
        """The next event of this kind; those before it are passed over."""
        while True:
            self.socket.sendall(self.connection.take_output())
            while self.events:
                event = self.events.pop(0)
                if isinstance(event, kind):
                    return event
            self.events = self.connection.receive(self.socket.recv(65536))


@pytest.fixture
def key(namespace):
    return namespace.connection_string.partition("SharedAccessKey=")[2].partition(";")[0]


@pytest.fixture
def line(namespace):
    with closing(Line(namespace)) as line:
        assert line.wait(e.ConnectionOpened).container_id == "contoso-emulator"
        yield line


def put(line, *tokens):
    """The answers to these tokens, put all at once."""
    node, answers = TokenNode(line.connection.begin()), {}
    numbers = [node.put(token, "sb://contoso.servicebus.windows.net/orders") for token in tokens]
    while len(answers) < len(tokens):
        answer = node.on(line.wait(object))
        answers |= {answer.number: answer} if answer else {}
    return [answers[number] for number in numbers]


def token(key, life_s=60):
    return sign(NAME, key, "sb://contoso.servicebus.windows.net/orders", int(time.time()) + life_s)


def test_tokens_are_judged_one_by_one(line, key):
    good, wrong, expired = put(line, token(key), token("another"), token(key, -60))
    assert (good.is_accepted, wrong.is_accepted, expired.is_accepted) == (True, False, False)
    assert (good.status, wrong.status, expired.description[:35]) == (202, 401, "ExpiredToken: The token is expired.")


def test_a_batch_is_sent_received_and_completed(line, key):
    put(line, token(key))
    session = line.connection.begin()
    sender = session.sender("s", "orders")
    line.wait(e.CreditGranted)
    messages = [b"\x00\x53\x73" + encode([ULong(number)]) + b"\x00\x53\x75" + encode(b"x") for number in (5, 2**40)]
    batch = b"".join(b"\x00\x53\x75" + encode(message) for message in messages)
    sender.deliver(batch, b"1", settled=False, message_format=BATCH_FORMAT)
    sender.deliver(body(b"x" * 300_000), b"2", settled=False)
    outcomes = [line.wait(e.Settled) for _ in range(2)]
    assert [(event.tag, event.outcome) for event in outcomes] == [(b"1", p.ACCEPTED), (b"2", p.REJECTED)]
    assert p.reason(outcomes[1].fields[0])[0] == "amqp:link:message-size-exceeded"

    receiver = session.receiver("r", "orders")
    line.wait(e.LinkOpened)
    receiver.grant(2)
    received = [line.wait(e.MessageReceived) for _ in range(2)]
    assert [event.payload[-len(message) :] for event, message in zip(received, messages, strict=True)] == messages
    for event in received:
        session.decide(event, encode(p.accepted()))
        confirmed = line.wait(e.Settled)
        assert (confirmed.tag, confirmed.outcome, len(event.tag)) == (event.tag, p.ACCEPTED, 16)


def test_a_link_without_a_token_is_refused_and_one_by_key_is_not(line, namespace, key):
    line.connection.begin().sender("s", "orders")
    assert line.wait(e.LinkDetached).condition == "amqp:unauthorized-access"
    with closing(Line(namespace, Credentials.plain(NAME, key))) as by_key:
        by_key.wait(e.ConnectionOpened)
        by_key.connection.begin().sender("s", "orders")
        by_key.wait(e.LinkOpened)


def test_failures_of_the_namespace_reach_the_client(line, namespace, key):
    put(line, token(key))
    for effect, kind in (("detach", e.LinkDetached), ("close", e.ConnectionClosed)):
        sender = line.connection.begin().sender("s", "orders")
        line.wait(e.LinkOpened)
        with namespace.faulty("send", effect, condition="com.microsoft:server-busy"):
            sender.deliver(body(), b"1", settled=False)
            assert line.wait(kind).condition == "com.microsoft:server-busy"
