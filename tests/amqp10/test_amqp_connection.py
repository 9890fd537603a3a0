"""The engine: bytes in, events out, and the right error for whoever breaks the protocol."""

import weakref

import pytest

from amqp10 import events as e
from amqp10 import performatives as p
from amqp10.connection import Connection
from amqp10.frames import AMQP_HEADER, SASL_FRAME, SASL_HEADER, frame
from amqp10.link import SENDER_CREDIT
from amqp10.types import Described, ULong
from tests.amqp10.peer import OPENING, RECEIVER, SASL, SENDER, SESSION, Peer, sent, source, target


@pytest.fixture
def peer():
    return Peer(OPENING, SESSION)


def attached(peer, attach):
    (event,) = peer.say(attach)
    event.link.accept(max_message_size=1000)
    peer.heard()
    return event.link


def test_the_handshake_is_answered_frame_by_frame():
    connection = Connection("server")
    assert connection.receive(SASL) == []
    assert connection.take_output().startswith(SASL_HEADER)
    (opened,) = connection.receive(OPENING[len(SASL) :])
    assert (opened.container_id, connection.take_output()[:8]) == ("client", AMQP_HEADER)


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_bytes_may_come_in_pieces_of_any_size(size):
    data = OPENING + SESSION + SENDER
    connection = Connection("server")
    events = [event for i in range(0, len(data), size) for event in connection.receive(data[i : i + size])]
    assert [type(event) for event in events] == [e.ConnectionOpened, e.LinkRequested]


def test_a_lost_connection_gives_up_what_it_received_in_part(peer):
    class Received(bytearray):
        """Bytes that can be referred to weakly."""

    part = Received(1000)
    peer.connection.receive((10_000).to_bytes(4, "big") + b"\x02\x00\x00\x00")
    peer.connection.receive(part)
    received = weakref.ref(part)
    del part
    assert received() is not None
    peer.connection.abort()
    assert received() is None


@pytest.mark.parametrize("header", [b"AMQP\x00\x00\x09\x01", b"AMQP\x02\x01\x00\x00", b"AMQPAMQP"])
def test_another_protocol_is_answered_with_ours_and_nothing_else(header):
    connection = Connection("server")
    (closed,) = connection.receive(header)
    assert closed.condition == "amqp:connection:framing-error"
    assert connection.take_output() == AMQP_HEADER
    assert connection.is_closed


def test_an_unknown_sasl_mechanism_is_refused():
    connection = Connection("server")
    init = frame(0, p.encode_performative(p.SaslInit("PLAIN", b"secret", "host")), SASL_FRAME)
    (closed,) = connection.receive(SASL_HEADER + init)
    assert closed.condition == "amqp:unauthorized-access"
    assert connection.is_closed


def test_a_client_may_leave_sasl_out():
    connection = Connection("server")
    (opened,) = connection.receive(AMQP_HEADER + sent(p.Open("client"), channel=0))
    assert isinstance(opened, e.ConnectionOpened)


@pytest.mark.parametrize(
    ("data", "condition"),
    [
        (b"\x00\x00\x00\x04\x02\x00\x00\x01", "amqp:connection:framing-error"),
        (b"\xff\xff\xff\xff\x02\x00\x00\x01", "amqp:connection:framing-error"),
        (b"\x00\x00\x00\x0c\x01\x00\x00\x01\x40\x40\x40\x40", "amqp:connection:framing-error"),
        (b"\x00\x00\x00\x0c\x09\x00\x00\x01\x40\x40\x40\x40", "amqp:connection:framing-error"),
        (frame(1, b"\x40", kind=7), "amqp:connection:framing-error"),
        (frame(1, b"\x3f\x3f"), "amqp:decode-error"),
        (frame(1, b"\x00\x53\x14\xff"), "amqp:decode-error"),
        (frame(1, b"\x00\x53\x99\x45"), "amqp:not-implemented"),
        (frame(1, b"\x00\x53\x12\xc0\x07\x03\xa1\x01x\x54\xff\x41"), "amqp:invalid-field"),
        (frame(1, b"\x00\x53\x12\x45"), "amqp:invalid-field"),
        (frame(1, b"\x00\x53\x15\xc0\x04\x02\x41\xa1\x00"), "amqp:invalid-field"),
        (sent(p.Open("again"), channel=0), "amqp:illegal-state"),
        (SESSION, "amqp:not-allowed"),
    ],
)
def test_a_broken_frame_closes_the_connection_with_its_error(peer, data, condition):
    assert peer.say(data)[-1].condition == condition
    (*_, (_, close, _)) = peer.heard()
    assert isinstance(close, p.Close)
    assert p.error_parts(close.error)[0] == condition
    assert peer.say(SESSION) == []


@pytest.mark.parametrize(
    ("data", "condition"),
    [
        (sent(p.Transfer(5, 1, b"t"), b"x"), "amqp:session:unattached-handle"),
        (sent(p.Flow(0, 1, 0, 1, handle=5)), "amqp:session:unattached-handle"),
        (SENDER, "amqp:session:handle-in-use"),
        (sent(p.Transfer(0), b"x"), "amqp:invalid-field"),
        (sent(p.Attach("x", 9, False, source=5)), "amqp:invalid-field"),
        (sent(p.Attach("x", 9, False, source=Described(ULong(0x99), []))), "amqp:invalid-field"),
    ],
)
def test_a_mistake_inside_a_session_ends_only_the_session(peer, data, condition):
    attached(peer, SENDER)
    peer.say(data)
    (channel, end, _) = peer.heard()[-1]
    assert (channel, type(end)) == (1, p.End)
    assert p.error_parts(end.error)[0] == condition
    assert not peer.connection.is_closed
    peer.say(sent(p.Detach(0)) + sent(p.End()))
    assert peer.heard() == []
    peer.say(sent(p.Begin(None, 0, 1, 1), channel=2))
    assert isinstance(peer.heard_only(), p.Begin)


def test_open_answers_must_come_first():
    peer = Peer(SASL, AMQP_HEADER)
    assert peer.say(SESSION)[-1].condition == "amqp:illegal-state"


def test_an_accepted_sender_gets_its_own_termini_and_credit(peer):
    (event,) = peer.say(SENDER)
    event.link.accept(max_message_size=1000)
    (_, attach, _), (_, flow, _) = peer.heard()
    assert (attach.name, attach.handle, attach.role, attach.max_message_size) == ("s", 0, True, 1000)
    assert (attach.source, attach.target) == (source("me"), target("orders"))
    assert (flow.handle, flow.link_credit) == (0, SENDER_CREDIT)


@pytest.mark.parametrize("size", [1000, None])
def test_a_sender_never_runs_out_of_credit(peer, size):
    """Requests to a management node are messages without a limit of size."""
    (event,) = peer.say(SENDER)
    event.link.accept(max_message_size=size)
    for number in range(2 * SENDER_CREDIT):
        peer.say(sent(p.Transfer(0, number, b"t", 0, settled=True), b"x"))
    granted = [flow.link_credit for _, flow, _ in peer.heard() if isinstance(flow, p.Flow) and flow.handle == 0]
    assert len(granted) == 1 + 2 * 2
    assert event.link.credit > SENDER_CREDIT // 2


def test_a_refused_link_shows_no_terminus_of_ours_and_detaches_with_the_reason(peer):
    for attach, missing in ((SENDER, "target"), (RECEIVER, "source")):
        (event,) = peer.say(attach)
        event.link.refuse("amqp:not-found", "no such queue")
        (_, answer, _), (_, detach, _) = peer.heard()
        assert getattr(answer, missing) is None
        assert p.error_parts(detach.error) == ("amqp:not-found", "no such queue", {})
        assert detach.closed
        assert len(detach.error.value) == 3


def test_a_message_in_parts_is_one_message(peer):
    attached(peer, SENDER)
    assert peer.say(sent(p.Transfer(0, 7, b"t", 0, more=True), b"ab")) == []
    assert peer.say(sent(p.Transfer(0, 7, b"t", 0, more=True), b"cd")) == []
    (event,) = peer.say(sent(p.Transfer(0), b"ef"))
    assert (event.delivery_id, event.payload) == (7, b"abcdef")


def test_an_aborted_message_is_none(peer):
    attached(peer, SENDER)
    peer.say(sent(p.Transfer(0, 1, b"t", 0, more=True), b"ab"))
    assert peer.say(sent(p.Transfer(0, aborted=True))) == []
    (event,) = peer.say(sent(p.Transfer(0, 2, b"u", 0), b"x"))
    assert event.payload == b"x"


def test_an_endless_message_is_not_kept_beyond_its_limit(peer):
    link = attached(peer, SENDER)
    for _ in range(100):
        peer.say(sent(p.Transfer(0, 1, b"t", 0, more=True), b"x" * 500))
    assert sum(len(part) for part in link._incoming_parts) <= 1001
    (event,) = peer.say(sent(p.Transfer(0), b"end"))
    assert len(event.payload) == 1001


def test_credit_is_set_and_not_added(peer):
    link = attached(peer, RECEIVER)
    for seen, credit, expected in ((0, 10, 10), (0, 10, 10), (0, 5, 5), (0, 0, 0)):
        peer.say(sent(p.Flow(0, 5000, 0, 5000, 1, seen, credit)))
        assert link.credit == expected
    peer.say(sent(p.Flow(0, 5000, 0, 5000, 1, 0, 3)))
    link.deliver(b"x", b"t", settled=True)
    assert link.credit == 2
    peer.say(sent(p.Flow(1, 5000, 0, 5000, 1, 0, 3)))
    assert link.credit == 2


def test_a_large_message_leaves_in_frames_the_client_can_take(peer):
    link = attached(peer, RECEIVER)
    link.deliver(b"x" * 200_000, b"tag", settled=False)
    frames = peer.heard()
    assert [transfer.more or False for _, transfer, _ in frames] == [True, True, True, False]
    assert {transfer.delivery_id for _, transfer, _ in frames} == {0}


def test_a_closed_window_holds_frames_back_until_it_opens():
    peer = Peer(OPENING, sent(p.Begin(None, 0, 2, 2)))
    link = attached(peer, RECEIVER)
    for number in range(5):
        link.deliver(b"x", bytes([number]), settled=True)
    assert len(peer.heard()) == 2
    assert not link.session.has_room
    peer.say(sent(p.Flow(2, 10, 0, 10)))
    assert len(peer.heard()) == 3
    assert link.session.has_room


@pytest.mark.parametrize(
    ("seen", "window", "has_room"),
    [(3, 2**32 - 1, True), (0, 2**32 - 1, True), (0, 4, True), (0, 3, False), (0, 2, False), (3, 0, False)],
)
def test_the_window_of_a_client_is_less_what_is_on_its_way(seen, window, has_room):
    """SDKs for .NET begin, and go on, with a window of 2**32 - 1."""
    peer = Peer(OPENING, sent(p.Begin(None, 0, 2**32 - 1, 5000)))
    link = attached(peer, RECEIVER)
    for _ in range(3):
        link.deliver(b"x", b"t", settled=True)
    assert len(peer.heard()) == 3
    peer.say(sent(p.Flow(seen, window, 0, 5000)))
    assert link.session.has_room is has_room


def test_a_connection_has_as_many_sessions_as_in_the_service(peer):
    """SDKs for .NET begin one for each link."""
    for channel in range(2, 5000):
        peer.say(sent(p.Begin(None, 0, 1, 1), channel=channel))
    assert {type(begin) for _, begin, _ in peer.heard()} == {p.Begin}
    assert peer.say(sent(p.Begin(None, 0, 1, 1), channel=5000))[-1].condition == "amqp:resource-limit-exceeded"


@pytest.mark.parametrize(
    ("first", "last", "settled"), [(0, 2, [0, 1, 2]), (1, None, [1]), (0, 2**32 - 1, [0, 1, 2, 3])]
)
def test_a_disposition_settles_its_whole_range(peer, first, last, settled):
    link = attached(peer, RECEIVER)
    for number in range(4):
        link.deliver(b"x", bytes([number]), settled=False)
    events = peer.say(sent(p.Disposition(True, first, last, True, p.accepted())))
    assert [event.delivery_id for event in events] == settled
    assert peer.say(sent(p.Disposition(True, first, last, True, p.accepted()))) == []


def test_deliveries_of_a_detached_link_cannot_be_settled_any_more(peer):
    link = attached(peer, RECEIVER)
    link.deliver(b"x", b"t", settled=False)
    assert [type(event) for event in peer.say(sent(p.Detach(1, closed=True)))] == [e.LinkDetached]
    assert peer.say(sent(p.Disposition(True, 0, None, False, p.accepted()))) == []


def test_frames_in_flight_for_a_link_we_detached_are_ignored(peer):
    link = attached(peer, SENDER)
    link.detach("amqp:internal-error", "why")
    peer.heard()
    assert peer.say(sent(p.Transfer(0, 1, b"t"), b"x") + sent(p.Detach(0, closed=True))) == []
    assert peer.heard() == []
    assert len(peer.say(SENDER)) == 1


def test_closing_ends_every_link(peer):
    attached(peer, SENDER)
    attached(peer, RECEIVER)
    events = peer.say(sent(p.Close(), channel=0))
    assert [type(event) for event in events] == [e.LinkDetached, e.LinkDetached, e.ConnectionClosed]
    assert isinstance(peer.heard_only(), p.Close)


def test_idle_frames_say_nothing(peer):
    assert peer.say(frame(0, b"")) == []
    peer.connection.send_empty_frame()
    assert peer.heard() == []


def test_incomplete_messages_are_bounded_over_all_links_of_a_connection(peer, monkeypatch):
    monkeypatch.setattr("amqp10.connection.MAX_PARTIAL_BYTES", 2500)
    for handle in range(4):
        attach = p.Attach(f"s{handle}", handle, False, 0, 1, source("me"), target("orders"), initial_delivery_count=0)
        attached(peer, sent(attach))
    for handle in range(2):
        assert peer.say(sent(p.Transfer(handle, handle, b"t", 0, more=True), b"x" * 1000)) == []
    peer.say(sent(p.Detach(0, closed=True)))
    assert peer.say(sent(p.Transfer(2, 5, b"t", 0, more=True), b"x" * 1000)) == []
    peer.heard()
    peer.say(sent(p.Transfer(3, 6, b"t", 0, more=True), b"x" * 1000))
    assert p.error_parts(peer.heard_only().error)[0] == "amqp:resource-limit-exceeded"
    assert peer.connection.partial_bytes == 0


def test_a_frame_that_comes_byte_by_byte_is_joined_once(peer):
    attached(peer, SENDER)
    data = sent(p.Transfer(0, 1, b"t", 0), b"x" * 900)
    assert [peer.say(bytes([byte])) for byte in data[:-1]] == [[]] * (len(data) - 1)
    assert len(peer.connection._buffer._pieces) > 800
    (event,) = peer.say(data[-1:])
    assert event.payload == b"x" * 900
