"""The client's end of a connection: against our own server's end, and against frames of another one."""

import pytest

from amqp10 import events as e
from amqp10 import performatives as p
from amqp10.client import ClientConnection
from amqp10.codec import encode
from amqp10.connection import Connection
from amqp10.frames import AMQP_HEADER, SASL_FRAME, SASL_HEADER, frame
from amqp10.sasl import ANONYMOUS, Credentials, greeting
from amqp10.types import Array, Symbol
from tests.amqp10.peer import sent, source, target

ACCEPTED = encode(p.accepted())


class World:
    """A client and a server that are connected; `serve` answers the links that the client asks for."""

    def __init__(self, credentials=ANONYMOUS, *, serve=lambda link: link.accept(max_message_size=1000)):
        self.client = ClientConnection("client", "contoso", credentials, max_message_size=1000)
        self.server = Connection("server", authenticate=lambda name, key: (name, key) == ("name", "key"))
        self.serve = serve
        self.heard, self.served = [], []
        self.turn()

    def turn(self):
        """Pass on bytes until both are quiet; returns the events of the client, and those of the server."""
        heard, served = [], []
        while self.client.has_output or self.server.has_output:
            for event in self.server.receive(self.client.take_output()):
                served.append(event)
                if isinstance(event, e.LinkRequested):
                    self.serve(event.link)
            heard += self.client.receive(self.server.take_output())
        self.heard, self.served = heard, served
        return heard, served

    def link(self, **how):
        """A link both ends of which are open, the client's end and the server's; how: sends_to or receives_from."""
        session = self.client.begin()
        link = session.sender("l", how["to"]) if "to" in how else session.receiver("l", how["of"])
        heard, served = self.turn()
        assert heard[0] == e.LinkOpened(link)
        return link, served[0].link


def kinds(events):
    return [type(event) for event in events]


@pytest.mark.parametrize(
    "credentials",
    [ANONYMOUS, Credentials("MSSBCBS"), Credentials("EXTERNAL"), Credentials.plain("name", "key")],
    ids=lambda credentials: credentials.mechanism,
)
def test_each_mechanism_opens_a_connection(credentials):
    world = World(credentials)
    assert kinds(world.heard) == kinds(world.served) == [e.ConnectionOpened]
    assert (world.served[0].container_id, world.served[0].hostname) == ("client", "contoso")


@pytest.mark.parametrize("credentials", [Credentials.plain("name", "no"), Credentials("SCRAM")])
def test_a_client_that_is_not_let_in_gets_the_condition(credentials):
    (closed,) = World(credentials).heard
    assert closed.condition == "amqp:unauthorized-access"


def test_a_sender_learns_the_outcome_of_each_delivery():
    world = World()
    link, end = world.link(to="orders")
    assert (end.address, link.max_message_size, link.credit) == ("orders", 1000, 1000)
    for tag in (b"1", b"2"):
        link.deliver(b"x" * 900, tag, settled=False, message_format=0x80013700)
    _, served = world.turn()
    assert [(event.tag, event.message_format, len(event.payload)) for event in served] == [
        (tag, 0x80013700, 900) for tag in (b"1", b"2")
    ]
    end.session.accept(served[0].delivery_id)
    end.session.settle(served[1].delivery_id, encode(p.rejected(p.error("com.microsoft:server-busy", "later"))))
    heard, _ = world.turn()
    assert [(event.tag, event.outcome, event.settled) for event in heard] == [
        (b"1", p.ACCEPTED, True),
        (b"2", p.REJECTED, True),
    ]
    assert p.reason(heard[1].fields[0]) == ("com.microsoft:server-busy", "later")


def test_a_receiver_decides_and_the_server_confirms():
    world = World()
    link, end = world.link(of="orders")
    link.grant(2)
    world.turn()
    assert end.credit == 2
    for tag in (b"1", b"2"):
        end.deliver(b"x" * 700, tag, settled=False)
    heard, _ = world.turn()
    assert [(event.tag, event.payload) for event in heard] == [(tag, b"x" * 700) for tag in (b"1", b"2")]
    assert link.credit == 0
    link.session.decide(heard[0], ACCEPTED)
    _, (settled,) = world.turn()
    assert (settled.tag, settled.outcome, settled.settled) == (b"1", p.ACCEPTED, False)
    end.session.settle(settled.delivery_id, ACCEPTED, role=False)
    ((confirmed,), _) = world.turn()
    assert (confirmed.link, confirmed.tag, confirmed.settled) == (link, b"1", True)


def test_a_message_beyond_what_the_client_announced_ends_its_session():
    world = World()
    link, end = world.link(of="orders")
    link.grant(1)
    world.turn()
    end.deliver(b"x" * 1001, b"t", settled=True)
    heard, served = world.turn()
    assert [(event.link, event.condition) for event in (*heard, *served)] == [
        (each, "amqp:link:message-size-exceeded") for each in (link, end)
    ]


@pytest.mark.parametrize("how", [{"to": "orders"}, {"of": "orders"}])
def test_a_refused_link_is_not_opened_and_has_the_reason(how):
    world = World(serve=lambda link: link.refuse("amqp:not-found", "no such queue"))
    session = world.client.begin()
    link = session.sender("l", "orders") if "to" in how else session.receiver("l", "orders")
    heard, _ = world.turn()
    assert heard == [e.LinkDetached(link, "amqp:not-found", "no such queue")]
    assert session.sender("again", "orders").handle == link.handle


def test_a_link_given_up_before_its_answer_keeps_its_handle_until_the_server_has_detached_it():
    client, session = opened_by_another()
    given_up = session.receiver("a", "orders")
    given_up.detach()
    answer = sent(p.Attach("a", 5, False, 0, 0, source("orders"), target("a"), initial_delivery_count=0), channel=9)
    assert client.receive(answer) == []
    assert session.receiver("b", "orders").handle == 1
    assert client.receive(sent(p.Detach(5, True), channel=9)) == []
    assert session.receiver("c", "orders").handle == 0


def test_the_end_of_a_session_or_connection_reaches_its_links_with_the_reason():
    world = World()
    (one, one_end), (two, _) = world.link(to="orders"), world.link(of="orders")
    world.server.end(one_end.session, "amqp:internal-error", "why")
    heard, _ = world.turn()
    assert heard == [e.LinkDetached(one, "amqp:internal-error", "why")]
    asked = two.session.sender("never answered", "orders")
    world.server.close("amqp:connection:forced", "upgrade")
    heard = world.client.receive(world.server.take_output())
    assert [event.link for event in heard[:-1]] == [two, asked]
    assert heard[-1] == e.ConnectionClosed("amqp:connection:forced", "upgrade")
    assert world.client.is_closed


def opened_by_another(*answers):
    """A client that another server has let in, in a session that it answers on channel 9."""
    client = ClientConnection("client", "contoso")
    accepted = frame(0, p.encode_performative(p.SaslOutcome(0)), SASL_FRAME)
    opened = sent(p.Open("another", max_frame_size=65536, channel_max=1, idle_time_out=120_000), channel=0)
    (event,) = client.receive(greeting() + accepted + AMQP_HEADER + opened)
    assert event.heartbeat_s == 60
    session = client.begin()
    client.receive(sent(p.Begin(session.channel, 70, 10, 10, handle_max=1), channel=9))
    return client, session


def test_channels_and_handles_of_the_server_are_its_own():
    client, session = opened_by_another()
    link = session.receiver("r", "orders")
    answer = p.Attach("r", 44, False, 0, 0, source("orders"), target("r"), initial_delivery_count=5)
    (opened,) = client.receive(sent(answer, channel=9))
    assert (opened.link, link.delivery_count, link.answer.handle) == (link, 5, 44)
    (event,) = client.receive(sent(p.Transfer(44, 70, b"t", 0), b"x", channel=9))
    assert (event.link, event.tag) == (link, b"t")
    client.take_output()
    link.grant(3)
    assert client.take_output() == sent(p.Flow(71, 0x7FFFFFFE, 0, 0x7FFFFFFF, 0, 6, 3), channel=0)
    (detached,) = client.receive(sent(p.Detach(44, True, p.error("amqp:link:detach-forced", "idle")), channel=9))
    assert detached == e.LinkDetached(link, "amqp:link:detach-forced", "idle")
    assert client.take_output() == sent(p.Detach(0, True), channel=0)


def test_the_limits_of_a_server_are_kept():
    client, session = opened_by_another()
    for name in ("a", "b"):
        session.sender(name, "orders")
    with pytest.raises(p.AmqpError, match="2 links"):
        session.sender("c", "orders")
    client.begin()
    with pytest.raises(p.AmqpError, match="2 sessions"):
        client.begin()


def test_an_ended_session_may_still_be_begun_by_the_server():
    client, session = opened_by_another()
    late = client.begin()
    client.end(late)
    assert client.receive(sent(p.Begin(late.channel, 0, 1, 1), channel=3) + sent(p.End(), channel=3)) == []
    assert client.sessions == {9: session}


@pytest.mark.parametrize(
    ("data", "condition"),
    [
        (sent(p.Begin(None, 0, 1, 1), channel=4), "amqp:not-allowed"),
        (sent(p.Begin(0, 0, 1, 1), channel=9), "amqp:not-allowed"),
        (sent(p.Open("again"), channel=0), "amqp:illegal-state"),
    ],
)
def test_a_server_that_breaks_the_protocol_is_left(data, condition):
    client, _ = opened_by_another()
    assert client.receive(data)[-1].condition == condition
    assert client.is_closed


def test_a_link_that_nobody_asked_for_ends_the_session():
    client, session = opened_by_another()
    link = session.sender("s", "orders")
    heard = client.receive(sent(p.Attach("other", 3, True, source=source("x"), target=target("y")), channel=9))
    assert (heard[0].link, heard[0].condition) == (link, "amqp:not-allowed")
    assert not client.is_closed


@pytest.mark.parametrize(
    "data",
    [
        AMQP_HEADER,
        b"HTTP/1.1",
        SASL_HEADER + frame(0, p.encode_performative(p.SaslMechanisms(Array([Symbol("SCRAM")]))), SASL_FRAME),
    ],
)
def test_a_server_that_is_none_of_ours_is_left(data):
    client = ClientConnection("client", "contoso")
    assert kinds(client.receive(data)) == [e.ConnectionClosed]
    assert client.take_output() == SASL_HEADER
