"""Any bytes, to every place that reads bytes from outside: nothing but the room's own errors may come out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from unittest.mock import patch

from amqp10 import events, sas
from amqp10 import performatives as p
from amqp10.cbs import TokenNode
from amqp10.client import ClientConnection
from amqp10.codec import encode
from amqp10.frame_fields import FrameFields
from amqp10.frames import AMQP_HEADER, SASL_FRAME, frame
from amqp10.sasl import greeting
from amqp10.transport.websocket import WebSocketChannel
from amqp10.types import AmqpError, Array, Described, Long, ULong
from emulator import access, conversation
from emulator.administration import Administration
from emulator.administration.messages import AdminRequest
from emulator.broker import message
from emulator.broker.descriptions import QueueDescription, SubscriptionDescription, TopicDescription
from emulator.broker.namespace import Namespace
from emulator.broker.properties import MessageProperties
from emulator.broker.sql import FilterError, SqlError, parse_action, parse_condition
from emulator.host import Host
from emulator.web.conversation import WebConversation
from tests.amqp10.peer import OPENING, SESSION, sent, source, target

NOW = 1_800_000_000.0
READ = 512


def attach(handle: int, role: bool, address: str) -> bytes:
    ends = [Described(ULong(p.SOURCE), [address]), Described(ULong(p.TARGET), [address])]
    count = None if role else 0
    return sent(p.Attach(f"link{handle}", handle, role, 0, 1, *ends, initial_delivery_count=count))


HANDSHAKE = OPENING + SESSION
LINKS = b"".join(
    attach(handle, role, address)
    for handle, (role, address) in enumerate(
        [
            (False, "orders"),
            (True, "orders"),
            (False, "orders/$management"),
            (True, "orders/$management"),
            (False, "$cbs"),
            (True, "$cbs"),
        ]
    )
)
TRANSACTION = b"txn"
"""The id of each transaction."""
COORDINATOR = sent(
    p.Attach("link6", 6, False, 0, 1, source("x"), Described(ULong(p.COORDINATOR), []), initial_delivery_count=0)
) + sent(p.Transfer(6, 0, b"t", 0), b"\x00\x53\x77" + encode(Described(ULong(p.DECLARE), [None])))


ACCEPTED = frame(0, p.encode_performative(p.SaslOutcome(0)), SASL_FRAME)
# What a server answers to a client with links to `$cbs` and to an entity, on handles of its own.
ANSWERS = (
    greeting()
    + ACCEPTED
    + AMQP_HEADER
    + sent(p.Open("server", idle_time_out=1000), channel=0)
    + sent(p.Begin(0, 0, 5000, 5000))
    + b"".join(
        sent(p.Attach(name, handle, role, source=source("x"), target=target("y"), initial_delivery_count=0))
        for handle, (name, role) in enumerate(
            [("cbs-responses", False), ("cbs-requests", True), ("r", False), ("s", True)]
        )
    )
    + sent(p.Flow(0, 5000, 0, 5000, 3, 0, 10))
)


class Nowhere:
    """A socket that swallows everything."""

    def write(self, data: bytes) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close(self) -> None: ...
    def reset(self) -> None: ...
    def begin_websocket(self, channel: WebSocketChannel, data: bytes) -> None:
        channel.begin(self.write)
        channel.receive(data)


def to_http(data: bytes) -> None:
    """A connection that asks for a WebSocket or for something else."""
    namespace = Namespace("contoso")
    calls: list[Callable[[], None]] = []
    host = Host(namespace, "key", lambda: NOW, lambda delay_s, call: calls.append(call))
    server = SimpleNamespace(host=host, administration=Administration(namespace, host.keys, NOW), requires_key=True)
    WebConversation(server, Nowhere()).receive(data)
    for call in calls:
        call()


def to_messages(data: bytes) -> None:
    for read in (message.parse, message.parse_batch, lambda data: message.parse(data, assigns_id=True)):
        with contextlib.suppress(AmqpError):
            read(data)


def to_a_stranger(data: bytes) -> None:
    converse(data, opening=b"")


def to_a_client(data: bytes) -> None:
    converse(data, opening=HANDSHAKE + LINKS + COORDINATOR + sent(p.Flow(0, 5000, 0, 5000, 1, 0, 3)))


def to_our_client(data: bytes) -> None:
    """A client that puts tokens, sends and receives, and the server that it has met."""
    connection = ClientConnection("client", "contoso")
    session = connection.begin()
    node, sender = TokenNode(session), session.sender("s", "orders")
    for name in ("r", "active"):
        session.receiver(name, "orders")
    node.put("token", "sb://host/orders")
    for event in connection.receive(data):
        with contextlib.suppress(AmqpError):
            node.on(event)
        match event:
            case events.CreditGranted(link=link) if link is sender:
                sender.deliver(MESSAGE, b"t", settled=False)
            case events.MessageReceived() if event.link.session is session:
                session.decide(event, encode(p.accepted()))
    connection.abort()


def to_frame_fields(data: bytes) -> None:
    """A frame body whose fields are replaced: what can be decoded says the same afterwards."""
    with contextlib.suppress(AmqpError):
        fields = FrameFields(data)
        for part in fields.split(64):
            FrameFields(part)
        assert repr(p.decode_performative(fields.replaced())[0]) == repr(p.decode_performative(data)[0])  # NaN too


def converse(data: bytes, *, opening: bytes) -> None:
    """A conversation with a namespace, and time passing after it."""
    namespace = Namespace("contoso")
    queue = namespace.create_queue("orders", QueueDescription("orders"), NOW)
    for _ in range(3):
        queue.enqueue(message.parse(MESSAGE), NOW)
    calls: list[Callable[[], None]] = []
    now = NOW
    host = Host(namespace, "key", lambda: now, lambda delay_s, call: calls.append(call))
    talk = conversation.Conversation(host, Nowhere())
    talk.add_grant(access.Grant("", NOW * 2))
    # An error of ours is logged and answered there; here it has to be seen.
    with (
        patch.object(conversation.log, "exception", side_effect=_raise_current),
        patch("emulator.broker.transactions.urandom", lambda size: TRANSACTION),
    ):
        for piece in (opening, *(data[start : start + READ] for start in range(0, len(data), READ))):
            talk.receive(piece)  # all of it at once would end the connection before its first message is looked at
    for call in calls:
        call()
    now += 1000
    host.advance()
    talk.lost()


def _raise_current(*_: object) -> None:
    raise


def to_the_administration(data: bytes) -> None:
    """Two bytes say what is asked for, the rest is the body: whatever it is, there is an answer."""
    if len(data) < 2:
        return
    namespace = Namespace("contoso")
    namespace.create_topic("shipments", TopicDescription("shipments"), NOW)
    namespace.create_subscription("shipments", SubscriptionDescription("shipments", "audit"), NOW)
    token = sas.sign("key", "key", "https://host", int(NOW) + 60)
    headers = {"authorization": token} | ({"if-match": "*"} if data[0] & 1 else {})
    request = AdminRequest("PUT", f"/{ADDRESSES[data[1] % len(ADDRESSES)]}", headers, data[2:])
    answer = Administration(namespace, {"key": "key"}, NOW).handle(request, NOW)
    assert answer.status < 500


ADDRESSES = (
    "orders",
    "shipments",
    "shipments/subscriptions/new",
    "shipments/subscriptions/audit",
    "shipments/subscriptions/audit/rules/rule",
)


def to_sql(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    with contextlib.suppress(SqlError):
        parse_action(text)
    with contextlib.suppress(SqlError, FilterError):
        parse_condition(text).value(MessageProperties(message.parse(MESSAGE)))


REQUEST = (
    b"PUT /orders?api-version=2024-05 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
)
UPGRADE = (
    b"GET /$servicebus/websocket HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: amqp\r\n\r\n"
    b"\x02\x84\x00\x00\x00\x00AMQP\x80\xfe\x00\x04\x00\x00\x00\x00\x03\x01\x00\x00\x89\x80abcd"
)
MESSAGE = (
    b"\x00\x53\x70"
    + encode([True, None, 1000])
    + b"\x00\x53\x72"
    + encode({"x-opt-scheduled-enqueue-time": 5})
    + b"\x00\x53\x73"
    + encode(["id", None, "to", None, None, None, "text/plain"])
    + b"\x00\x53\x74"
    + encode({"operation": "com.microsoft:peek-message", "n": Long(5)})
    + b"\x00\x53\x77"
    + encode({"from-sequence-number": Long(1), "message-count": 1, "lock-tokens": Array()})
)
