"""What a gateway keeps, waits for and accepts of a client that has proved nothing yet."""

import asyncio
import ssl
import time
from types import SimpleNamespace
from unittest.mock import AsyncMock, Mock

import pytest

from amqp10 import performatives as p
from amqp10 import sas
from amqp10.codec import decode, encode
from amqp10.frame_fields import FrameFields
from amqp10.requests import Request, request, response
from amqp10.types import AmqpError, Int, ULong
from gateway import command, memory, server
from gateway.access import Access
from gateway.guard import link
from gateway.guard.guard import Guard
from gateway.memory import Grant, Memory, Proofs
from gateway.metrics import Metrics, by_sdk, sdk_of
from gateway.namespace import Namespace
from gateway.relay import MOST_HELD, Relay
from gateway.server import Gateway
from gateway.side import Phase
from gateway.standin import StandIn
from gateway.tokens import MAX_REQUEST, TokenRequests
from gateway.web import WebConversation
from pairing.ends import Endpoint
from pairing.fleet.presence import GatewayTraffic
from pairing.health.availability import FAILING, HEALTHY
from tests.amqp10.peer import OPENING, target
from tests.gateway.running import PAIRS, WITHOUT_KEY

ENDPOINT = Endpoint.from_connection_string("primary", "Endpoint=sb://h;SharedAccessKeyName=n;SharedAccessKey=k", {})


@pytest.mark.parametrize(("count", "tag"), [(200, b""), (100, bytes(MAX_REQUEST // 90))], ids=["parts", "size"])
def test_a_request_to_cbs_that_does_not_end_is_refused(count, tag):
    requests = TokenRequests(Mock(), Mock(), Mock())
    part = FrameFields(p.encode_performative(p.Transfer(0, 0, tag, more=True)))
    with pytest.raises(AmqpError, match="too large"):
        assert not [list(requests.transfer(part, 65536)) for _ in range(count)]


async def test_a_client_is_read_again_once_nothing_stands_against_it():
    connection, primary = Mock(), Namespace("h", "h", "127.0.0.1", 1, None)
    relay = Relay(Mock(primary=primary, client=None, read_buffer=bytearray(1)), connection)
    relay.upstream.send(0, bytes(MOST_HELD))
    relay.flush()
    relay.upstream.phase = Phase.FRAMES
    relay.upstream.pause_writing()
    relay.flush()
    relay.front.phase = Phase.OUTCOME  # the primary has not judged its key
    relay.upstream.resume_writing()
    assert [call[0] for call in connection.method_calls] == ["pause_reading"]
    relay.front.phase = Phase.AMQP_HEADER
    relay.flush()
    assert [call[0] for call in connection.method_calls] == ["pause_reading", "resume_reading"]
    relay.upstream.end()


async def test_a_client_that_is_greeting_while_the_primary_is_lost_learns_to_connect_again():
    """The SDK for JavaScript tries again after an error of the connection, and not after one that never opened."""
    primary = Namespace("h", "h", "127.0.0.1", 1, None)
    gateway = Mock(primary=primary, client=None, read_buffer=bytearray(1), metrics=Metrics())
    relay = Relay(gateway, connection := Mock())
    stand_in = StandIn(Mock(kept=0), Mock(), Access({}, Namespace.of(ENDPOINT)), other := Mock(), Mock())
    relay.primary_lost("it is away")
    stand_in.leave("it is back")
    for served, socket in ((relay.front, connection), (stand_in, other)):
        socket.close.assert_not_called()
        served.receive(OPENING)
        assert b"amqp:connection:forced" in b"".join(call.args[0] for call in socket.write.call_args_list)
        socket.close.assert_called()


async def test_a_client_goes_back_to_the_primary_between_two_sends(monkeypatch):
    """The SDK for JavaScript fails what it sends as it reads a `close`."""
    monkeypatch.setattr(server, "_PAUSE_S", 0)
    monkeypatch.setattr(server, "reaches", AsyncMock(return_value=True))
    sending, restless = (Mock(is_primary_there=False, retained=0, busy_until=9e9, sdk=n) for n in ("MSJSClient", "x"))
    waiting = Mock(is_primary_there=False, busy_until=0.0, retained=1, sdk="MSJSClient/7.9.5")
    served = [sending, waiting, restless]
    gateway = Mock(_relays=set(served), _looks=0)
    looking = asyncio.ensure_future(Gateway._look(gateway, Mock()))
    for gateway._looks, left in ((0, [False, False, False]), (60, [False, False, True])):
        for _ in range(5):
            await asyncio.sleep(0)
        assert [each.leave.called for each in served] == left
    sending.busy_until, waiting.retained, gateway._relays = 0.0, 0, {sending, waiting}
    await looking
    assert [each.leave.called for each in served] == [True, True, True]


async def test_the_link_for_tokens_is_detached_before_the_connection_is_closed():
    primary = Namespace("h", "h", "127.0.0.1", 1, None)
    relay = Relay(Mock(primary=primary, client=None, read_buffer=bytearray(1)), Mock())
    relay.front.phase, relay.front.is_open, relay.token_link = Phase.FRAMES, True, (3, 4)
    relay.front.write = written = Mock()
    for relay.tokens in ({}, {3: {}}, {3: {0: Mock()}}):
        relay.close("amqp:connection:forced", "it is back")
        relay.front.phase = Phase.FRAMES
    assert [call.args[0].count(b"forced") for call in written.call_args_list] == [1, 1, 2]


def test_a_port_of_clients_keeps_no_place_for_http():
    assert [WebConversation(Mock(), pages, Mock()).is_open for pages in ({}, {"/healthz": Mock()})] == [False, True]


def test_clients_without_tls_are_accepted_on_this_machine_only(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PRIMARY", "Endpoint=sb://127.0.0.1;SharedAccessKeyName=a;SharedAccessKey=b")
    (tmp_path / "pairs.toml").write_text(PAIRS.replace("SECONDARY_END", WITHOUT_KEY))
    options = ["--pair", "contoso", "--pairs-file", str(tmp_path / "pairs.toml"), "--listen", "0.0.0.0:0"]
    assert command.main(options) == 2
    assert "beyond this machine" in capsys.readouterr().err


async def test_a_side_is_silent_only_while_it_is_read_and_hears_twice_in_the_time_it_announced():
    front = Relay(Mock(primary=Namespace("h", "h", "127.0.0.1", 1, None), client=None), connection := Mock()).front
    front.silent = Mock()
    for connection.is_reading in (False, True):
        front.silent.assert_not_called()
        front._beat(None, 2.0, 2.0)
    front.silent.assert_called_once()
    front.keep_alive(40_000, None)
    assert front._pulse.when() - asyncio.get_running_loop().time() <= 10
    front.relay.end()


@pytest.mark.parametrize(("path", "is_own"), [("orders", True), ("orders/../other", False), ("orders/%2E%5Cx", False)])
def test_a_token_is_replaced_for_what_its_resource_covers_only(path, is_own):
    access = Access({"gateway": "key"}, Namespace.of(ENDPOINT))
    token = sas.sign("gateway", "key", "sb://here/orders", int(time.time()) + 60)
    assert (access.token(token, f"sb://h/{path}") is not None) is is_own


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (b"HEAD /healthz HTTP/1.1\r\nHost: h\r\n\r\n", b"HTTP/1.1 200 OK"),
        (b"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\r\n", b"HTTP/1.1 403 Forbidden"),
    ],
)
def test_a_request_has_its_answer(request_, answer):
    connection = Mock()
    WebConversation(connection, {"/healthz": lambda: (200, "ok\n")}, lambda headers: "no").receive(request_)
    assert connection.write.call_args[0][0].startswith(answer)


def test_an_address_that_is_no_url_is_the_primarys_to_refuse():
    assert Namespace.of(ENDPOINT).address_here("amqps://[broken/orders") == "amqps://[broken/orders"


def test_the_sdk_finds_the_primary_at_its_address_and_checks_its_name():
    keywords = Namespace.of(ENDPOINT, "10.0.0.4").keywords
    assert keywords["custom_endpoint_address"] == "sb://10.0.0.4:5671"
    assert Namespace.of(ENDPOINT, "[::1]:5671").keywords["custom_endpoint_address"] == "sb://[::1]:5671"
    buffers = ssl.MemoryBIO(), ssl.MemoryBIO()
    assert keywords["ssl_context"].wrap_bio(*buffers, server_hostname="10.0.0.4").server_hostname == "h"


def test_what_clients_say_of_themselves_is_cut_and_many_names_are_counted_together():
    assert sdk_of({"product": "QpidJMS", "version": "\n" + "1" * 999}) == "QpidJMS/" + "1" * 52
    strangers = (None, [], {"version": 0}, {"product": "QpidJMS 2"}, {"product": ["QpidJMS"]})
    assert [sdk_of(given) for given in strangers] == ["other"] * 5
    clients = by_sdk(["x", *map(str, range(100)), "x"])
    assert clients == {"x": 2, **{str(each): 1 for each in range(19)}, "other": 81}


def test_the_label_of_clients_is_the_product_of_a_known_sdk():
    metrics = Metrics()
    metrics.pair = "p"
    metrics.traffic = lambda: GatewayTraffic({"QpidJMS/1": 2, "QpidJMS/2": 1}, 0, 0, 0, 0)
    family = next(iter(metrics.collect()))
    counts = {each.labels["sdk"]: each.value for each in family.samples}
    assert (len(counts), counts["QpidJMS"], counts["other"]) == (7, 3, 0)


class Guarded:
    """A guard between a client and a primary by hand; whatever goes by the rules waits for `ends`."""

    def __init__(self, is_healthy=True):
        self.ends, self.failures = asyncio.get_running_loop().create_future(), []
        self.state, self.delivery = HEALTHY if is_healthy else FAILING, Mock()
        self.to_primary, self.to_client = [], []
        self.relay = SimpleNamespace(max_body=1000, is_primary_there=True, proofs=Mock(asked={}), tokens={})
        self.relay.partial = self.relay.kept = 0
        self.relay.flush = self.relay.primary_overdue = Mock()
        self.relay.to_primary = lambda _, body: self.to_primary.append(p.decode_performative(body)[0])
        self.relay.to_client = lambda _, body: self.to_client.append(p.decode_performative(body)[0])
        self.client = Mock(kept=0, is_full=False, sends=self)
        self.guard = Guard(self.relay, self.client)
        self.begin()

    def deliver(self, delivery, failure, began_at):
        self.failures.append(failure)
        return (yield lambda: self.ends)

    def begin(self):
        self.say(p.Begin(None, 0, 5000, 5000))
        self.answer(p.Begin(1, 0, 5000, 5000))
        self.say(self.attach())
        self.answer(self.attach(role=True))
        self.answer(p.Flow(0, 5000, 0, 5000, 0, 0, 100))

    @staticmethod
    def attach(address="orders", handle=0, **fields):
        return p.Attach(address, handle, fields.pop("role", False), 0, 1, None, target(address), **fields)

    def say(self, said, payload=b"x"):
        body = p.encode_performative(said) + (payload if isinstance(said, p.Transfer) else b"")
        fields = FrameFields(body)
        self.guard.from_client(fields.code, 1, fields, [body])

    def answer(self, said):
        fields = FrameFields(p.encode_performative(said))
        if not self.guard.from_primary(fields.code, 2, fields):
            self.to_client.append(said)

    def passed(self, kind):
        return [each for each in self.to_primary if isinstance(each, kind)]

    def heard(self, kind):
        return [each for each in self.to_client if isinstance(each, kind)]


@pytest.fixture(autouse=True)
def _by_hand(monkeypatch):
    monkeypatch.setattr(link, "GuardedSends", lambda client, path, guarded: client.sends)


async def test_an_outcome_that_comes_after_its_link_is_lost_is_nobodys():
    guarded = Guarded()
    guarded.say(p.Transfer(0, 0, b"t", 0))
    guarded.answer(p.Detach(0, closed=True))
    guarded.answer(p.Disposition(True, 0, 1, True, decode(encode(p.accepted()))[0]))
    assert not guarded.heard(p.Disposition)


async def test_a_delivery_whose_session_has_ended_is_not_settled_in_the_next_one():
    guarded = Guarded(is_healthy=False)
    guarded.say(p.Transfer(0, 0, b"t", 0))
    (task,) = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.sleep(0)
    guarded.say(p.End())
    if not guarded.ends.done():
        guarded.ends.set_result(None)
    guarded.begin()
    await asyncio.gather(task, return_exceptions=True)
    assert not guarded.heard(p.Disposition)


async def test_a_delivery_in_several_frames_keeps_its_number():
    guarded = Guarded()
    guarded.say(guarded.attach("orders/$management", 1))
    guarded.answer(guarded.attach("orders/$management", 1, role=True))
    for more in (True, False):
        guarded.say(p.Transfer(1, 7, b"t", 0, more=more))
    assert [each.delivery_id for each in guarded.passed(p.Transfer)] == [7, 7]


async def test_a_link_is_attached_again_once_until_the_primary_answers():
    guarded = Guarded()
    guarded.say(p.Transfer(0, 0, b"t", 0))
    guarded.guard._links()[0]._overdue()
    for number in (1, 2):
        guarded.say(p.Transfer(0, number, b"t", 0))
    assert len(guarded.passed(p.Attach)) == 2


async def test_what_comes_before_the_primary_answers_is_bounded_over_all_links():
    guarded = Guarded()
    for handle in range(1, 4):
        guarded.say(guarded.attach(f"q{handle}", handle))
        guarded.say(p.Transfer(handle, handle, b"t", 0, more=True), bytes(300_000))
    with pytest.raises(AmqpError, match="before credit"):
        guarded.say(p.Transfer(3, 3, b"t", 0, more=True), bytes(300_000))
    assert guarded.client.kept > 900_000
    guarded.guard.end()
    assert (guarded.relay.partial, guarded.client.kept) == (0, 0)


@pytest.mark.parametrize("asks", ["token", "link", "session", "request"])
async def test_a_client_that_waits_for_an_answer_leaves_with_the_primary(asks):
    guarded = Guarded()
    assert guarded.guard.is_all
    guarded.relay.proofs.asked = {"1": None} if asks == "token" else {}
    if asks in ("link", "request"):
        guarded.say(guarded.attach("orders/$management", 1))
    if asks == "request":
        guarded.answer(guarded.attach("orders/$management", 1, role=True))
        assert guarded.guard.is_all
        guarded.say(p.Transfer(1, 0, b"t", 0))
    elif asks == "session":
        guarded.guard.from_client(p.Begin.CODE, 3, FrameFields(p.encode_performative(p.Begin(None, 0, 9, 9))), [])
    assert not guarded.guard.is_all


def test_two_tokens_with_one_number_prove_nothing():
    proofs = Proofs(Memory())
    asked = [request(ULong(1), {"name": "sb://h/orders"}, f"a.{claims}.c", "r") for claims in ("b", "forged")]
    for each in asked:
        proofs.ask(each)
    proofs.answered(response(Request(asked[0]), {"status-code": Int(202)}))
    assert not proofs.grants


async def test_a_client_that_does_not_read_is_no_evidence_about_the_primary():
    guarded = Guarded()
    guarded.relay.primary_overdue.return_value = False
    guarded.say(p.Transfer(0, 0, b"t", 0))
    guarded.guard._links()[0]._overdue()
    await asyncio.sleep(0)
    assert guarded.failures[0].is_crowded


async def test_a_link_that_the_primary_refuses_keeps_nothing_and_has_no_right_any_more():
    guarded = Guarded()
    guarded.say(guarded.attach("other", 1))
    guarded.say(p.Transfer(1, 0, b"t", 0))
    guarded.answer(p.Attach("other", 1, True, 0, 0))
    guarded.answer(p.Detach(1, closed=True, error=p.error("amqp:unauthorized-access", "no")))
    assert guarded.relay.partial == 0
    guarded.relay.proofs.refused.assert_called_once_with("other")
    guarded.answer(p.Detach(0, closed=True))  # the other link's
    guarded.guard._links()[0]._attach_again()
    guarded.answer(p.Attach("orders", 0, True, 0, 0))
    guarded.answer(p.Detach(0, closed=True, error=p.error("amqp:internal-error", "no")))
    assert isinstance(guarded.to_primary[-1], p.Detach)


@pytest.mark.parametrize(("size", "name"), [(900, "size-exceeded"), (90, "not-allowed")], ids=["torn", "reserved"])
async def test_what_is_not_kept_does_not_reach_the_primary_in_part_either(monkeypatch, size, name):
    monkeypatch.setattr(link, "MOST_KEPT", 2000)
    guarded = Guarded()
    guarded.guard._links()[0]._max_size, guarded.refused = 1000, Mock()
    guarded.delivery = Mock(side_effect=ValueError("x-ms-path is reserved"))
    for more in (True, True, True, True, False):
        guarded.say(p.Transfer(0, 0, b"t", 0, more=more), bytes(size))
        assert guarded.client.kept < 4500  # three frames
    assert not guarded.passed(p.Transfer)
    assert name in str(guarded.heard(p.Disposition)[0].state)


def test_who_is_refused_forgets_the_right_to_send_there():
    proofs = Proofs(Memory())
    proofs.accepted(Grant("token", "orders", time.time() + 60))
    proofs.attached("Orders", FrameFields(p.encode_performative(Guarded.attach(role=True))))
    assert proofs.may_send("orders")
    proofs.refused("Orders")
    proofs.renew()
    assert not proofs.may_send("orders")


async def test_a_client_that_leaves_is_answered_once_whatever_the_primary_answers_later():
    guarded = Guarded()
    guarded.guard._links()[0]._overdue()
    guarded.say(p.Transfer(0, 0, b"t", 0))  # attached again, without an answer
    guarded.to_client.clear()
    guarded.say(p.Detach(0, closed=True))
    guarded.answer(p.Detach(0, closed=True))
    guarded.answer(guarded.attach(handle=4, role=True))
    guarded.answer(p.Flow(0, 5000, 0, 5000, 4, 0, 100))
    guarded.answer(p.Detach(4, closed=True))
    assert guarded.to_client == [p.Detach(0, closed=True)]
    guarded.say(guarded.attach())
    guarded.answer(guarded.attach(role=True))
    guarded.answer(p.Detach(0, closed=True))
    guarded.say(p.Transfer(0, 1, b"t", 0))
    guarded.answer(guarded.attach(handle=5, role=True))
    guarded.say(p.Detach(0, closed=True))
    guarded.answer(p.Detach(5, closed=True))
    assert guarded.heard(p.Detach) == [p.Detach(0, closed=True)] * 2


async def test_a_handle_that_the_client_knows_is_not_given_to_another_link():
    guarded = Guarded()
    guarded.answer(p.Detach(0, closed=True))  # hidden
    guarded.say(guarded.attach("other/$management", 1))
    guarded.answer(guarded.attach("other/$management", 0, role=True))
    guarded.answer(p.Flow(0, 5000, 0, 5000, 0, 0, 9))
    guarded.answer(p.Transfer(0, 0, b"t", 0))
    guarded.answer(p.Detach(0, closed=True))
    known = [each.handle for each in guarded.to_client if not isinstance(each, p.Begin)]
    assert known == [0, 0, 1, 1, 1, 1]  # the first two are an attach and its credit


async def test_a_settled_delivery_above_the_credit_of_the_primary_goes_by_the_rules_and_who_is_refused_is_busy():
    guarded = Guarded()
    guarded.answer(p.Flow(0, 5000, 0, 5000, 0, 0, 1))
    for number in (0, 1):
        guarded.say(p.Transfer(0, number, b"t", 0, settled=True))
    await asyncio.sleep(0)
    assert (len(guarded.passed(p.Transfer)), guarded.failures) == (1, [None])
    guarded.client.clock.now.return_value = 100.0
    guarded.ends.set_exception(OSError())
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))
    assert guarded.relay.busy_until == 135.0


async def test_a_delivery_in_a_transaction_has_an_outcome_if_its_link_is_lost():
    guarded = Guarded()
    guarded.say(p.Transfer(0, 7, b"t", 0, state=p.accepted()))
    guarded.answer(p.Detach(0, closed=True, error=p.error("com.microsoft:server-busy", "later")))
    (outcome,) = guarded.heard(p.Disposition)
    assert (outcome.first, "server-busy" in str(outcome.state)) == (7, True)


async def test_who_has_no_right_any_more_does_not_send_with_that_of_the_gateway():
    guarded = Guarded()
    (behind,) = guarded.guard._links()
    guarded.answer(p.Detach(0, closed=True, error=p.error("amqp:unauthorized-access", "no")))
    guarded.relay.proofs.may_send.return_value = False
    assert (await behind.send(Mock(), 1.0)).error
    guarded.client.direct.send.assert_not_called()


def test_the_many_tokens_of_one_key_do_not_displace_those_of_others(monkeypatch):
    monkeypatch.setattr(memory, "_MOST", 100)
    known, until = Memory(), time.time() + 60
    others = [
        Grant("a.b.c", "orders", until),
        Grant("app\0key"),
        Grant("SharedAccessSignature sr=s&skn=own", "", until),
    ]
    flood = [Grant(f"SharedAccessSignature skn={'Fl%6Fod'}&sr={number}", "", until) for number in range(500)]
    for grant in (*others, *flood):
        known.learn(grant)
    assert all(map(known.knows, (*others, flood[-1])))
    assert sum(map(known.knows, flood)) == 100
    known.forget(others[0])
    assert not known.knows(others[0])
