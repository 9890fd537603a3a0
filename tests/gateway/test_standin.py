"""What a client may do while the primary is away: no more than it has proved."""

import time
from itertools import count
from types import SimpleNamespace
from unittest.mock import AsyncMock, Mock

import pytest
from azure.servicebus import ServiceBusMessage

from amqp10 import events as e
from amqp10 import performatives as p
from amqp10 import sas, sasl
from amqp10.cbs import TokenNode
from amqp10.client import ClientConnection
from amqp10.connection import State
from amqp10.requests import Request, request
from amqp10.types import Array, Long, ULong
from gateway import standin
from gateway.access import Access
from gateway.memory import Grant, Memory, Proofs
from gateway.namespace import Namespace
from gateway.standin import StandIn
from pairing.ends import Endpoint
from tests.gateway.test_guarded_sends import encoded, guarded, pair, received  # noqa: F401

PRIMARY = "Endpoint=sb://h;SharedAccessKeyName=own;SharedAccessKey=k"
AUDIENCE = "sb://h/orders"


class Sends:
    def __init__(self, *_):
        """Nothing is sent."""


class Peer:
    """A client in memory, and the gateway that serves it."""

    def __init__(self, client, memory=None, credentials=sasl.ANONYMOUS):
        endpoint = Endpoint.from_connection_string("primary", PRIMARY, {})
        access = Access({"app": "mine"}, Namespace.of(endpoint))
        connection = SimpleNamespace(write=self._answered, pause_reading=Mock(), resume_reading=Mock(), close=Mock())
        self.memory = memory or Memory()
        self.served = StandIn(client, Proofs(self.memory), access, connection, Mock())
        self.amqp, self.events, self.answers = ClientConnection("c", "h", credentials), [], []
        self._names = count()
        self.flush()
        if self.amqp.state is State.OPEN:
            self.tokens, self.session = TokenNode(self.amqp.begin()), self.amqp.begin()
            self.flush()

    def _answered(self, data):
        for event in self.amqp.receive(data):
            self.events.append(event)
            if (answer := self.tokens.on(event) if hasattr(self, "tokens") else None) is not None:
                self.answers.append(answer.status)

    def flush(self):
        while output := self.amqp.take_output():
            self.served.receive(output)

    async def work(self):
        self.flush()
        while self.served._tasks:
            await next(iter(self.served._tasks))
            self.flush()

    async def put(self, token, audience=AUDIENCE):
        self.tokens.put(token, audience)
        await self.work()
        return self.answers[-1]

    def attach(self, path="orders"):
        link = self.session.sender(f"s{next(self._names)}", path)
        self.flush()
        return link


@pytest.fixture
def client():
    client = Mock(backlog_paths=["queue"], is_full=False, kept=0)
    client.backlog.proves = AsyncMock(return_value=False)
    return client


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(standin, "HELD_S", 0.0)
    monkeypatch.setattr(standin, "GuardedSends", Sends)


def token(name="other", key="key", audience=AUDIENCE, life_s=600):
    return sas.sign(name, key, audience, int(time.time()) + life_s)


async def test_a_token_that_nobody_knows_waits_and_is_refused_to_be_tried_again(client):
    peer = Peer(client)
    assert await peer.put(token()) == 503
    client.backlog.proves.assert_awaited_once()
    assert not peer.served.is_open
    peer.attach()
    assert not [event for event in peer.events if isinstance(event, e.LinkOpened) and event.link.name[0] == "s"]


async def test_who_has_proved_nothing_has_few_links(client, monkeypatch):
    monkeypatch.setattr(standin, "HELD_S", 60.0)
    peer = Peer(client)
    for number in range(20):
        peer.attach(f"q{number}")
    assert len(peer.served.links) == 8
    assert sum(isinstance(event, e.LinkDetached) for event in peer.events) == 14


@pytest.mark.parametrize("name", ["own", "app"])
async def test_a_token_signed_with_a_key_of_the_gateway_is_for_its_entity_alone(client, name):
    peer = Peer(client)
    assert await peer.put(token(name, {"own": "k", "app": "mine"}[name])) == 202
    assert [peer.attach(path).credit > 0 for path in ("orders", "Orders", "other", "orders/../other")] == [
        True,
        True,
        False,
        False,
    ]
    assert await Peer(client).put(token("own", "k", AUDIENCE, -1)) == 503


async def test_a_token_that_the_primary_accepted_sends_only_where_its_owner_has_sent(client):
    shown = token()
    asked = Request(request(ULong(1), {"name": "amqps://h/orders/$management", "type": "t"}, shown, "r"))
    peer = Peer(client)
    peer.memory.learn(Grant.asked(asked))
    assert await peer.put(shown) == 202
    assert not peer.attach().credit
    peer.memory.learn(Grant.asked(asked), "orders")
    assert peer.attach().credit > 0


def test_a_client_shows_a_key_of_the_gateway_with_plain(client):
    for key, is_accepted in (("mine", True), ("other", False)):
        peer = Peer(client, credentials=sasl.Credentials.plain("app", key))
        assert (peer.served.is_open, peer.served.proofs.may_send("any")) == (is_accepted, is_accepted)


async def test_nothing_more_is_read_while_all_clients_together_keep_too_much(client):
    peer = Peer(client)
    client.is_full = True
    peer.tokens.put(token(), AUDIENCE)
    peer.flush()
    pausing, resuming = peer.served._connection.pause_reading, peer.served._connection.resume_reading
    assert (pausing.call_count, resuming.call_count) == (1, 0)
    await peer.work()
    assert (resuming.call_count, client.kept) == (1, 0)


async def test_the_secondary_may_prove_a_token(client):
    client.backlog.proves.return_value = True
    peer = Peer(client)
    assert (await peer.put(token()), peer.attach().credit > 0) == (202, True)


async def test_messages_are_scheduled_in_the_backlog_and_cannot_be_cancelled(pair, monkeypatch):  # noqa: F811
    monkeypatch.undo()
    async with guarded(pair) as (client, _):
        client.direct.is_away = True
        peer = Peer(client)
        await peer.put(token("own", "k"))
        message = encoded(ServiceBusMessage("later", scheduled_enqueue_time_utc=None))
        twice = asking("schedule-message", {"messages": [{"message": message}] * 2})
        done = Request(await peer.served._manage("orders", twice))
        assert (done.properties["statusCode"], list(done.body["sequence-numbers"])) == (200, [-1, -2])
        for name, body, status in (
            ("cancel-scheduled-message", {"sequence-numbers": Array([Long(-1)])}, 400),
            ("cancel-scheduled-message", {"sequence-numbers": Array([Long(7)])}, 503),
            ("peek-message", {}, 503),
            ("schedule-message", {"messages": [{}]}, 400),
        ):
            answer = Request(await peer.served._manage("orders", asking(name, body)))
            assert answer.properties["statusCode"] == status
    assert sum(each["enqueued"] for path, each in pair[1].stats().items() if "transfer" in path) >= 2


def asking(operation, body):
    return Request(request(ULong(1), {"operation": f"com.microsoft:{operation}"}, body, "r"))


async def test_a_link_that_is_not_accepted_keeps_nothing(client, monkeypatch):
    monkeypatch.setattr(standin, "HELD_S", 60.0)
    peer = Peer(client)
    link = peer.attach()
    peer.session.send(p.Transfer(link.handle, 0, b"t", 0, more=True))
    peer.amqp.send(peer.session.channel, p.encode_performative(p.Transfer(link.handle, more=True)) + bytes(60_000))
    peer.flush()
    assert peer.served._amqp.partial_bytes == 0
    (held,) = [each for each in peer.served.links if each.name == link.name]
    link.detach()
    peer.flush()
    assert held.owner.cancelled()


async def test_incomplete_deliveries_count_with_what_all_clients_keep(client, monkeypatch):
    monkeypatch.setattr(standin, "MOST_EARLY", 1000)
    peer = Peer(client)
    await peer.put(token("own", "k"))
    link = peer.attach()
    for number in range(2):
        peer.session.send(p.Transfer(link.handle, 0, b"t", 0, more=True))
        peer.amqp.send(peer.session.channel, p.encode_performative(p.Transfer(link.handle, more=True)) + bytes(900))
        peer.flush()
        assert (client.kept, peer.served._amqp.is_closed) == ((900, False), (0, True))[number]
        client.is_full = True
