"""What the namespace answers to clients that do what the SDK does not: raw frames against a namespace in memory."""

import time
import uuid

import pytest

from amqp10 import performatives as p
from amqp10 import sas
from amqp10.codec import encode
from amqp10.frames import AMQP_HEADER, FrameBuffer
from amqp10.types import Array, Long
from emulator.broker.descriptions import AuthorizationRule, QueueDescription
from emulator.broker.message import parse
from emulator.conversation import MAX_OUTPUT, Conversation
from emulator.faults import fault_from_json
from emulator.host import KEY_NAME
from tests.amqp10.peer import SASL, sent, source, target
from tests.emulator.client import KEY, Client, body, filtered


@pytest.mark.parametrize(
    ("audience", "more", "status"),
    [
        ("sb://host/orders", {}, 202),
        ("amqps://host:5672/orders/$DeadLetterQueue", {}, 202),
        ("sb://host/nowhere", {}, 404),
        ("sb://host/orders", {"key": "wrong"}, 401),
        ("sb://host/orders", {"name": "nobody"}, 401),
        ("sb://host/orders", {"life_s": -1}, 401),
    ],
)
def test_a_token_is_checked(stranger, audience, more, status):
    assert stranger.put_token(audience, **more) == status


def test_a_token_for_one_entity_opens_no_other(stranger):
    assert stranger.put_token("sb://host/orders/eu") == 202
    assert stranger.attach(sends_to="amqps://host/orders/eu")[1][0].target is not None
    for address in ("orders", "sessions", "orders/$management", "$management"):
        _, answers = stranger.attach(sends_to=address)
        assert answers[0].target is None
        assert stranger.condition(answers) == ["amqp:unauthorized-access"]


def test_a_token_for_the_management_node_gives_its_rights_to_the_entity(stranger):
    assert stranger.put_token("amqp://host/orders/$management") == 202
    assert stranger.manage("orders")("peek-message", {"from-sequence-number": 0, "message-count": 1})[0] == 204
    assert stranger.attach(sends_to="orders")[1][0].target is not None
    assert stranger.condition(stranger.attach(sends_to="sessions")[1]) == ["amqp:unauthorized-access"]


def test_a_management_operation_asks_for_the_right_it_uses(stranger, namespace):
    rule = AuthorizationRule("writer", ("Send",), primary_key="k")
    namespace.create_queue("mine", QueueDescription("mine", authorization_rules=(rule,)), time.time())
    assert stranger.put_token("sb://h:1/mine", key="k", name="writer") == 202
    ask = stranger.manage("mine")
    scheduled = {"messages": [{"message": body()}]}
    assert ask("schedule-message", scheduled)[0] == 200
    status, condition, _ = ask("peek-message", {"from-sequence-number": Long(1), "message-count": 1})
    assert (status, condition) == (401, "amqp:unauthorized-access")


def test_a_link_ends_with_its_token_as_in_the_service(stranger, passing):
    stranger.put_token("sb://h:1/orders", life_s=60)
    stranger.put_token("sb://h:1/sessions", life_s=600)
    stranger.attach(sends_to="orders")
    stranger.node("orders/$management")
    stranger.attach(sends_to="sessions")
    passing(58)
    assert stranger.heard() == []
    passing(61)
    assert stranger.condition([each for each, _ in stranger.heard()]) == ["amqp:unauthorized-access"] * 3
    passing(601)
    assert stranger.condition([each for each, _ in stranger.heard()]) == ["amqp:unauthorized-access"]


def test_a_renewed_token_keeps_its_links(stranger, host, passing):
    stranger.put_token("sb://h:1/orders", life_s=60)
    stranger.attach(sends_to="orders")
    stranger.put_token("sb://h:1/orders", life_s=600)
    stranger.heard()
    passing(61)
    assert stranger.heard() == []
    assert host.next_due() > time.time() + 500


def test_a_connection_that_is_gone_is_not_watched_for_its_token(stranger, host):
    stranger.put_token("sb://h:1/orders", life_s=60)
    assert host.next_due() < time.time() + 60.5
    stranger.conversation.lost()
    assert host.next_due() == float("inf")


def test_a_token_signed_for_another_entity_is_refused(stranger):
    cbs = stranger.node("$cbs")
    token = sas.sign(KEY_NAME, KEY, "sb://host/orders/eu", int(time.time()) + 60)
    answer, _ = cbs({"operation": "put-token", "type": "jwt", "name": "sb://host/sessions"}, token)
    assert answer["status-code"] == 401
    assert token not in answer["status-description"]


def test_a_link_without_an_address_is_refused(client):
    _, answers = client.attach(sends_to="")
    assert client.condition(answers) == ["com.microsoft:argument-error"]


@pytest.mark.parametrize("value", [5, b"\xff", [1]])
def test_a_session_id_that_is_no_text_is_refused(client, value):
    client.say(filtered(60, value))
    answers = [performative for performative, _ in client.heard()]
    assert client.condition(answers) == ["com.microsoft:argument-error"]


def test_a_session_filter_may_be_binary_and_is_answered_as_text(client):
    client.say(filtered(60, b"s-1"))
    ((attach, _),) = client.heard()
    assert p.terminus(attach.source).filters == {"com.microsoft:session-filter": "s-1"}
    assert p.terminus(attach.source).address == "sessions"


@pytest.mark.parametrize(
    ("operation", "asked", "condition"),
    [
        ("fly", {}, "amqp:not-implemented"),
        ("peek-message", {}, "com.microsoft:argument-error"),
        ("peek-message", {"from-sequence-number": -1, "message-count": 1}, "com.microsoft:argument-error"),
        ("renew-lock", {"lock-tokens": ["x"]}, "com.microsoft:argument-error"),
        ("renew-lock", {"lock-tokens": [uuid.uuid4()]}, "com.microsoft:message-lock-lost"),
        ("update-disposition", {"lock-tokens": [uuid.uuid4()]}, "com.microsoft:argument-error"),
        (
            "update-disposition",
            {"lock-tokens": [uuid.uuid4()], "disposition-status": "completed"},
            "com.microsoft:message-lock-lost",
        ),
        ("schedule-message", {"messages": [{"message": b"noise"}]}, "amqp:decode-error"),
        ("schedule-message", {"messages": [{"message": b"x" * 300_000}]}, "amqp:link:message-size-exceeded"),
        ("cancel-scheduled-message", {"sequence-numbers": Array([Long(7)])}, "com.microsoft:message-not-found"),
        ("receive-by-sequence-number", {"sequence-numbers": Array([Long(7)])}, "com.microsoft:message-not-found"),
        ("renew-session-lock", {"session-id": "s"}, "com.microsoft:session-lock-lost"),
        ("get-session-state", {}, "com.microsoft:argument-error"),
        ("get-message-sessions", {}, "amqp:not-allowed"),
        ("peek-message", "no map", "com.microsoft:argument-error"),
    ],
)
def test_a_request_that_cannot_be_done_is_answered_with_its_condition(client, operation, asked, condition):
    status, answered, _ = client.manage("orders")(operation, asked)
    assert (status >= 400, answered) == (True, condition)


@pytest.mark.parametrize(
    ("payload", "condition"),
    [(b"\x00\x53\x99noise", "amqp:decode-error"), (body(b"x" * 300_000), "amqp:link:message-size-exceeded")],
    ids=["noise", "too large"],
)
def test_a_message_that_cannot_be_read_is_rejected_and_the_link_stays(client, namespace, payload, condition):
    handle, _ = client.attach(sends_to="orders")
    client.say(sent(p.Transfer(handle, 9, b"t", 0), payload))
    ((disposition, _),) = client.heard()
    code, (error,) = p.outcome(disposition.state)
    assert (code, p.error_parts(error)[0], len(error.value)) == (p.REJECTED, condition, 3)
    client.say(sent(p.Transfer(handle, 10, b"u", 0), body()))
    assert p.outcome(client.heard()[0][0].state) == (p.ACCEPTED, [])
    assert len(namespace.queue("orders")) == 1


def test_a_batch_is_stored_as_a_whole_or_not_at_all(client, namespace):
    handle, _ = client.attach(sends_to="orders")
    envelope = b"\x00\x53\x75" + encode(body(b"good")) + b"\x00\x53\x75" + encode(b"noise")
    client.say(sent(p.Transfer(handle, 9, b"t", 0x80013700), envelope))
    assert p.outcome(client.heard()[0][0].state)[0] == p.REJECTED
    assert len(namespace.queue("orders")) == 0


def test_a_presettled_message_is_stored_without_an_answer(client, namespace):
    handle, _ = client.attach(sends_to="orders")
    client.say(sent(p.Transfer(handle, 9, b"t", 0, settled=True), body()))
    assert client.heard() == []
    assert len(namespace.queue("orders")) == 1


def receiving(client, namespace, count, credit=10):
    """So many messages sent and delivered on a new link; returns its handle and the transfers."""
    sender, _ = client.attach(sends_to="orders")
    for number in range(count):
        client.say(sent(p.Transfer(sender, number, bytes([number]), 0, settled=True), body()))
    handle, _ = client.attach(receives_from="orders")
    client.say(sent(p.Flow(0, 5000, 0, 5000, handle, 0, credit)))
    return handle, [performative for performative, _ in client.heard()]


def test_credit_bounds_what_is_delivered_and_draining_uses_it_up(client, namespace):
    handle, transfers = receiving(client, namespace, 5, credit=3)
    assert len(transfers) == 3
    client.say(sent(p.Flow(3, 5000, 0, 5000, handle, 3, 10, drain=True)))
    *more, flow = [performative for performative, _ in client.heard()]
    assert (len(more), flow.link_credit, flow.delivery_count, flow.drain) == (2, 0, 13, True)


def test_a_rejection_without_our_info_still_shows_its_reason(client, namespace):
    _, (transfer,) = receiving(client, namespace, 1)
    state = p.rejected(p.error("mine:reason", "my description"))
    client.say(sent(p.Disposition(True, transfer.delivery_id, None, False, state)))
    assert p.outcome(client.heard()[0][0].state) == (p.REJECTED, [])
    (dead,) = namespace.queue("orders").dead_letters.contents.messages()
    assert dead.message.application_properties == {
        "DeadLetterReason": "mine:reason",
        "DeadLetterErrorDescription": "my description",
    }


def test_a_settlement_whose_answer_was_lost_may_be_repeated_over_management(client, namespace, host):
    host.faults.add(fault_from_json({"operation": "settle", "effect": "lose_ack"}, time.time()))
    _, (transfer,) = receiving(client, namespace, 1)
    client.say(sent(p.Disposition(True, transfer.delivery_id, None, False, p.accepted())))
    assert client.heard() == []
    asked = {"disposition-status": "completed", "lock-tokens": Array([uuid.UUID(bytes_le=transfer.delivery_tag)])}
    manage = client.manage("orders")
    assert manage("update-disposition", asked)[0] == 200
    other = {**asked, "lock-tokens": Array([uuid.uuid4()])}
    assert manage("update-disposition", other)[1] == "com.microsoft:message-lock-lost"


def test_dispositions_of_a_detached_link_are_void_and_its_locks_are_not(client, namespace):
    handle, (transfer,) = receiving(client, namespace, 1)
    client.say(sent(p.Detach(handle, closed=True)) + sent(p.Disposition(True, 0, None, False, p.accepted())))
    (stored,) = namespace.queue("orders").contents.messages()
    assert stored.lock_token == transfer.delivery_tag
    token = Array([uuid.UUID(bytes_le=transfer.delivery_tag)])
    settle = {"disposition-status": "completed", "lock-tokens": token}
    assert client.manage("orders")("update-disposition", settle)[0] == 200
    assert len(namespace.queue("orders")) == 0


def test_a_client_that_reads_slowly_is_given_no_more_after_a_full_turn(client, namespace):
    queue = namespace.queue("orders")
    for _ in range(500):
        queue.enqueue(parse(body(b"x" * 10_000)), time.time())
    write = client.write
    client.write = lambda data: (write(data), len(data) > MAX_OUTPUT and client.conversation.pause())
    handle, _ = client.attach(receives_from="orders")
    client.say(sent(p.Flow(0, 5000, 0, 5000, handle, 0, 1000)))
    assert 50 < len(client.heard()) < 150
    client.write = write
    client.conversation.resume()
    while client.calls:
        client.calls.pop(0)()
    assert len(client.heard()) > 300


def test_a_fault_may_detach_a_link_between_two_turns(client, namespace, host):
    for _ in range(500):
        namespace.queue("orders").enqueue(parse(body(b"x" * 10_000)), time.time())
    handle, _ = client.attach(receives_from="orders")
    client.attach(receives_from="orders/eu")
    client.conversation.receive(sent(p.Flow(0, 5000, 0, 5000, handle, 0, 1000)))
    host.add_fault(fault_from_json({"operation": "receive", "effect": "detach", "count": 1}, time.time()))
    client.say(b"")
    answers = [performative for performative, _ in client.heard()]
    assert client.condition(answers) == ["amqp:internal-error"]
    assert client.attach(receives_from="orders")[1][0].source is not None


def test_an_empty_receive_is_credit_that_ends_without_a_delivery(client, namespace, host):
    handle, _ = receiving(client, namespace, 0)
    for _ in range(2):
        client.say(sent(p.Flow(0, 5000, 0, 5000, handle, 0, 10)))  # replaced
    client.say(sent(p.Flow(0, 5000, 0, 5000)))  # a window only
    client.say(sent(p.Detach(handle, closed=True)))
    assert host.meter.billed("orders")["receive_empty"] == 3


def test_an_error_of_our_own_ends_one_connection_with_an_answer(client, namespace, monkeypatch):
    handle, _ = client.attach(sends_to="orders")
    monkeypatch.setattr(namespace.queue("orders"), "add", None)
    client.say(sent(p.Transfer(handle, 9, b"t", 0), body()))
    (close, _) = client.heard()[-1]
    assert isinstance(close, p.Close)
    assert p.error_parts(close.error)[0] == "amqp:internal-error"
    assert client.is_closed


def opened_with_an_idle_time_out(host, milliseconds):
    """A client that asks for signs of life, and the delays of the calls that are scheduled for it, with these calls."""
    delays, calls = [], []
    host.later = lambda delay, call: (delays.append(delay), calls.append(call))
    client = Client.__new__(Client)
    client.calls, client.buffer, client.is_closed = calls, FrameBuffer(1 << 24), False
    client.conversation = Conversation(host, client)
    client.conversation.receive(SASL + AMQP_HEADER + sent(p.Open("client", idle_time_out=milliseconds), channel=0))
    return client, delays, calls


def test_a_client_that_asks_for_signs_of_life_gets_them(host):
    client, delays, calls = opened_with_an_idle_time_out(host, 4000)
    assert delays.count(2.0) == 1
    beats = [call for delay, call in zip(delays, calls, strict=True) if delay == 2.0]
    beats[0]()
    assert delays.count(2.0) == 2
    client.conversation.close()
    beats[0]()
    assert delays.count(2.0) == 2


def test_a_planned_heartbeat_keeps_no_lost_connection_in_memory_for_longer_than_a_minute(host):
    _, delays, _ = opened_with_an_idle_time_out(host, 2**32 - 1)
    assert max(delays) == 60.0


def test_a_message_may_follow_its_links_attach_in_the_same_breath(client, namespace):
    attach = p.Attach("eager", 70, False, 0, 1, source("me"), target("orders"), initial_delivery_count=0)
    client.say(sent(attach) + sent(p.Transfer(70, 9, b"t", 0), body()))
    assert p.outcome(client.heard()[-1][0].state) == (p.ACCEPTED, [])
    assert len(namespace.queue("orders")) == 1


def test_a_session_that_ends_together_with_a_message_gets_nothing_after_its_end(client, namespace):
    handle, _ = client.attach(sends_to="orders")
    client.say(sent(p.Transfer(handle, 9, b"t", 0), body()) + sent(p.End()))
    assert [type(each) for each, _ in client.heard()] == [p.End]
    assert len(namespace.queue("orders")) == 1
