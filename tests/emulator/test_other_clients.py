"""What SDKs other than the current one for Python send, as raw frames: settlement, rules, SASL PLAIN, credit."""

import time
import uuid

import pytest

from amqp10 import performatives as p
from amqp10.codec import decode, encode
from amqp10.frames import AMQP_HEADER, SASL_FRAME, SASL_HEADER, frame
from amqp10.sections import DELIVERY_ANNOTATIONS, HEADER, MESSAGE_ANNOTATIONS, PROPERTIES, split
from amqp10.types import Array, Described, Int, Long, Raw, Symbol, UInt, ULong
from emulator.broker.descriptions import AuthorizationRule, QueueDescription, SubscriptionDescription, TopicDescription
from emulator.broker.message import MessageState, parse
from emulator.endpoints.receiver import SETTLED_BY_SENDER
from emulator.endpoints.requests import RENEWAL_DELAYS_S
from tests.amqp10.peer import SESSION, sent, source, target
from tests.emulator.client import KEY, Client, body, filtered, request

DEAD_LETTER = Symbol("com.microsoft:dead-letter")


def modified(*fields):
    return Described(ULong(p.MODIFIED), list(fields))


def rejected(info):
    return Described(ULong(p.REJECTED), [Described(ULong(0x1D), [DEAD_LETTER, None, info])])


def received(client, credit=1, queue="orders", payload=None):
    """Send a message and receive it; returns its transfer and what it holds."""
    client.put(payload or body(), queue)
    handle, _ = client.attach(receives_from=queue)
    client.say(sent(p.Flow(0, 5000, 0, 5000, handle, 0, credit)))
    ((transfer, data),) = client.heard()
    return transfer, data


def settle(client, transfer, state):
    client.say(sent(p.Disposition(True, transfer.delivery_id, None, False, state)))
    return [p.outcome(answer.state) for answer, _ in client.heard() if isinstance(answer, p.Disposition)]


def sections_of(data):
    return {part.code: decode(data, part.value)[0] for part in split(data)}


@pytest.mark.parametrize(
    ("state", "count", "where"),
    [
        (modified(True, False, {}), 1, MessageState.ACTIVE),  # Python: abandon
        (modified(None, False), 1, MessageState.ACTIVE),  # JavaScript: abandon
        (modified(), 1, MessageState.ACTIVE),  # .NET and Java: abandon
        (modified(False, False, {}), 1, MessageState.ACTIVE),  # Go: abandon
        (modified(True, True, {}), 1, MessageState.DEFERRED),  # Python: defer
        (modified(None, True), 1, MessageState.DEFERRED),  # JavaScript, .NET and Java: defer
        (modified(False, True, {}), 1, MessageState.DEFERRED),  # Go: defer
        (Described(ULong(p.RELEASED), []), 0, MessageState.ACTIVE),  # all: release on close
    ],
)
def test_every_way_to_abandon_counts_a_delivery(client, namespace, state, count, where):
    transfer, _ = received(client)
    ((code, _),) = settle(client, transfer, state)
    assert code == (p.RELEASED if count == 0 else p.MODIFIED)
    (stored,) = namespace.queue("orders").contents.messages()
    assert (stored.delivery_count, stored.state) == (count, where)


@pytest.mark.parametrize("undeliverable", [False, True])
def test_properties_to_modify_are_merged_into_the_application_properties(client, namespace, undeliverable):
    payload = b"\x00\x53\x74" + encode({"kept": 1, "changed": "old"}) + b"\x00\x53\x77" + encode("x")
    transfer, _ = received(client, payload=payload)
    settle(client, transfer, modified(None, undeliverable, {Symbol("changed"): "new", Symbol("added"): True}))
    queue = namespace.queue("orders")
    (stored,) = queue.contents.messages()
    assert stored.message.application_properties == {"kept": 1, "changed": "new", "added": True}
    assert queue.contents.size_bytes == stored.message.size > len(payload)


@pytest.mark.parametrize(
    ("state", "properties"),
    [
        (rejected({"DeadLetterReason": "r", "DeadLetterErrorDescription": None}), {"DeadLetterReason": "r"}),  # Python
        (rejected({"DeadLetterReason": "r", "mine": 1}), {"DeadLetterReason": "r", "mine": 1}),  # JavaScript, .NET
        (Described(ULong(p.REJECTED), []), {}),  # .NET: without any reason
        (rejected({}), {}),  # Java: without any reason
        (
            rejected({"DeadLetterReason": "", "DeadLetterErrorDescription": ""}),  # Go: without any reason
            {"DeadLetterReason": "", "DeadLetterErrorDescription": ""},
        ),
    ],
)
def test_every_way_to_dead_letter_moves_the_message(client, namespace, state, properties):
    transfer, _ = received(client)
    assert settle(client, transfer, state) == [(p.REJECTED, [])]
    queue = namespace.queue("orders")
    (dead,) = queue.dead_letters.contents.messages()
    assert (len(queue), dead.message.application_properties or {}) == (0, properties)


@pytest.mark.parametrize(("status", "where"), [("abandoned", "active"), ("defered", "active"), ("suspended", "dead")])
def test_properties_to_modify_are_merged_over_management_too(client, namespace, status, where):
    transfer, _ = received(client)
    token = Array([uuid.UUID(bytes_le=transfer.delivery_tag)])
    asked = {"disposition-status": status, "lock-tokens": token, "properties-to-modify": {"colour": "red"}}
    assert client.manage("orders")("update-disposition", asked)[0] == 200
    queue = namespace.queue("orders")
    (stored,) = (queue.dead_letters if where == "dead" else queue).contents.messages()
    assert stored.message.application_properties["colour"] == "red"


@pytest.mark.parametrize("properties", [{"list": [1]}, {"big": "x" * 70_000}], ids=["list", "too large"])
def test_a_property_that_cannot_be_set_fails_the_settlement_and_keeps_the_lock(client, namespace, properties):
    transfer, _ = received(client)
    ((code, (error,)),) = settle(client, transfer, modified(None, False, properties))
    assert (code, p.error_parts(error)[0]) == (p.REJECTED, "com.microsoft:argument-error")
    (stored,) = namespace.queue("orders").contents.messages()
    assert (stored.lock_token, stored.delivery_count) == (transfer.delivery_tag, 0)


def test_the_state_received_is_no_outcome(client, namespace):
    transfer, _ = received(client)
    assert settle(client, transfer, Described(ULong(p.RECEIVED), [0, 0])) == []
    assert settle(client, transfer, Described(ULong(p.ACCEPTED), [])) == [(p.ACCEPTED, [])]


def test_a_delivery_has_its_lock_token_as_an_annotation(client):
    transfer, data = received(client)
    assert sections_of(data)[DELIVERY_ANNOTATIONS] == {"x-opt-lock-token": uuid.UUID(bytes_le=transfer.delivery_tag)}


def test_a_deferred_message_has_its_lock_token_as_an_annotation(client):
    transfer, _ = received(client)
    settle(client, transfer, modified(True, True))
    asked = {"sequence-numbers": Array([Long(1)]), "receiver-settle-mode": 1}
    _, _, answer = client.manage("orders")("receive-by-sequence-number", asked)
    (message,) = answer["messages"]
    assert sections_of(message["message"])[DELIVERY_ANNOTATIONS] == {"x-opt-lock-token": message["lock-token"]}


def test_a_delivery_without_a_lock_has_an_empty_tag_and_no_token(client):
    client.put(body())
    handle, _ = client.attach(receives_from="orders", snd_settle_mode=SETTLED_BY_SENDER)
    client.say(sent(p.Flow(0, 5000, 0, 5000, handle, 0, 1)))
    ((transfer, data),) = client.heard()
    assert (transfer.delivery_tag, sections_of(data)[DELIVERY_ANNOTATIONS]) == (b"", {})


@pytest.mark.parametrize("durable", [None, True, False])
def test_durable_is_delivered_as_it_was_sent(client, durable):
    _, data = received(client, payload=b"\x00\x53\x70" + encode([durable]) + body())
    assert sections_of(data)[HEADER][0] is durable


@pytest.mark.parametrize(
    ("given", "delivered"),
    [
        ("3038", "0c38"),  # 12345 with 4 digits behind the point
        ("b038", "8c38"),  # the same below zero
        ("3040", "0c40"),  # no digit behind the point
        ("3008", "0c08"),  # 28 digits behind the point
        ("3006", "3006"),  # 29, which .NET has not
        ("3042", "3042"),  # a multiple of ten
        ("0c38", "0c38"),  # as a client of .NET sends it
        ("7c00", "7c00"),  # not a number
    ],
)
def test_decimals_of_properties_are_delivered_with_the_exponent_as_the_service_writes_it(client, given, delivered):
    def properties(exponent):
        return b"\x00\x53\x74" + encode({"before": 1, "n": Raw(b"\x94" + bytes.fromhex(exponent) + number), "x": "y"})

    number, data = (12345).to_bytes(14, "big"), b"\x00\x53\x75" + encode(b"\x94\x30\x38")
    _, got = received(client, payload=properties(given) + data)
    assert got.endswith(properties(delivered) + data)


@pytest.mark.parametrize(
    "payload",
    [
        b"\x00\x53\x75" + encode(b"x"),
        b"\x00\x53\x73\x45\x00\x53\x75" + encode(b"x"),
        b"\x00\x53\x73" + encode([None, None, "me", "subject"]) + b"\x00\x53\x75" + encode(b"x"),
        b"\x00\x53\x73" + encode([None, None, "m" * 220, "subject"]) + b"\x00\x53\x75" + encode(b"x"),
        b"\x00\x53\x73" + encode([None, None, "m" * 400, "subject"]) + b"\x00\x53\x75" + encode(b"x"),
    ],
    ids=["no properties", "empty list", "short list", "list that grows beyond 255 bytes", "long list"],
)
def test_a_message_without_an_id_is_given_one(client, payload):
    before = parse(payload)
    _, data = received(client, payload=payload)
    after = parse(data)
    assert len(bytes.fromhex(after.message_id)) == 16
    assert after.properties._replace(message_id=None) == before.properties
    assert data.endswith(b"\x00\x53\x75" + encode(b"x"))


def test_each_message_of_a_batch_is_given_an_id(client, namespace):
    handle, _ = client.attach(sends_to="orders")
    batch = b"".join(b"\x00\x53\x75" + encode(message) for message in (body(b"a"), body(b"b")))
    client.say(sent(p.Transfer(handle, 0, b"t", 0x80013700, settled=True), batch))
    ids = {stored.message.properties.message_id for stored in namespace.queue("orders").contents.messages()}
    assert len(ids) == 2
    assert None not in ids


def test_an_id_of_the_sender_keeps_its_bytes(client):
    payload = b"\x00\x53\x73" + encode([7, None, "me"]) + b"\x00\x53\x75" + encode(b"x")
    _, data = received(client, payload=payload)
    assert data.endswith(payload)
    assert sections_of(data)[PROPERTIES] == [7, None, "me"]


def test_a_lapsed_session_is_detached_after_a_grace_in_which_settling_shows_why(client, passing):
    client.put_token("sb://host/", life_s=600)
    client.put(body(session="s"), "sessions")
    client.say(filtered(60, "s") + sent(p.Flow(0, 99, 0, 99, 60, 0, 1)))
    (transfer,) = [performative for performative, _ in client.heard() if isinstance(performative, p.Transfer)]
    passing(61)
    assert client.heard() == []
    client.conversation.receive(sent(p.Disposition(True, transfer.delivery_id, None, False, p.accepted())))
    ((answer, _),) = client.heard()
    code, (error,) = p.outcome(answer.state)
    assert (code, p.error_parts(error)[0]) == (p.REJECTED, "com.microsoft:session-lock-lost")
    client.say(b"")
    assert client.condition([performative for performative, _ in client.heard()]) == ["com.microsoft:session-lock-lost"]


def test_a_locked_session_is_refused_with_an_attach_and_a_detach_later(client):
    """SDKs for JavaScript before 7.6 report an internal error if they read both at once."""
    client.say(filtered(60, "s"))
    client.heard()
    client.conversation.receive(filtered(61, "s"))
    client.conversation.flush()
    ((attach, _),) = client.heard()
    assert (attach.handle, attach.source) == (61, None)
    client.say(b"")
    assert client.condition([each for each, _ in client.heard()]) == ["com.microsoft:session-cannot-be-locked"]


def test_a_message_of_a_session_names_the_end_of_the_session_lock(client, namespace):
    """SDKs for .NET take a deferred message for lost after that time, and do not settle it."""
    queue = namespace.queue("sessions")
    stored = queue.enqueue(parse(body(session="s")), time.time())
    client.say(filtered(60, "s"))
    client.say(sent(p.Flow(0, 5000, 0, 5000, 60, 0, 1)))
    _, (transfer, payload) = client.heard()
    client.say(sent(p.Disposition(True, transfer.delivery_id, None, True, p.modified(True, True))))
    numbers = Array([Long(stored.sequence_number)])
    asked = {"sequence-numbers": numbers, "receiver-settle-mode": UInt(1), "session-id": "s"}
    _, _, answer = client.manage("sessions")("receive-by-sequence-number", asked)
    end = int(queue.contents.sessions.of("s").locked_until * 1000)
    for delivered in (payload, answer["messages"][0]["message"]):
        (part,) = [part for part in split(delivered) if part.code == MESSAGE_ANNOTATIONS]
        assert decode(delivered, part.value)[0]["x-opt-locked-until"] == end


def test_a_described_session_filter_is_answered_with_its_descriptor_and_an_empty_state_is_none(client):
    """As SDKs for Go send both; they end a connection on which the filter is answered without its descriptor."""
    asked = Described(ULong(0x13700000C), "s")
    client.say(filtered(60, asked))
    ((attach, _),) = client.heard()
    assert p.terminus(attach.source).filters == {"com.microsoft:session-filter": asked}
    manage = client.manage("sessions")
    for state, kept in ((b"step", b"step"), (b"", None)):
        assert manage("set-session-state", {"session-id": "s", "session-state": state})[0] == 200
        assert manage("get-session-state", {"session-id": "s"})[2] == {"session-state": kept}


@pytest.fixture
def rules(client, namespace):
    """Asks the `$management` node of a subscription."""
    namespace.create_topic("news", TopicDescription("news"), time.time())
    namespace.create_subscription("news", SubscriptionDescription("news", "audit"), time.time())
    return client.manage("news/Subscriptions/audit")


def listed(rules, **page):
    _, _, answer = rules("enumerate-rules", {"skip": Int(0), "top": Int(100), **page})
    return [item["rule-description"] for item in answer["rules"]] if answer else []


def test_rules_are_added_listed_and_removed_over_amqp(rules, namespace):
    sql = {"sql-filter": {"expression": "a = 1"}, "sql-rule-action": {"expression": "SET b = 2"}}
    assert rules("add-rule", {"rule-name": "red", "rule-description": sql})[0] == 200
    correlation = {"correlation-filter": {"label": "x", "correlation-id": None, "properties": {"n": 5}}}
    assert rules("add-rule", {"rule-name": "blue", "rule-description": correlation})[0] == 200
    default, blue, red = listed(rules)
    assert [value.descriptor for value in (default, blue, red)] == [0x13700000004] * 3
    assert [value.value[2] for value in (default, blue, red)] == ["$Default", "blue", "red"]
    assert (red.value[0].descriptor, red.value[0].value[0]) == (0x1370000006, "a = 1")
    assert (red.value[1].descriptor, red.value[1].value[0]) == (0x13700000006, "SET b = 2")
    assert blue.value[0] == Described(ULong(0x1370000009), [None, None, None, None, "x", None, None, None, {"n": 5}])
    assert (default.value[0].descriptor, default.value[1].descriptor) == (0x1370000007, 0x13700000005)
    assert [value.value[2] for value in listed(rules, skip=Int(1), top=Int(1))] == ["blue"]
    without = {"correlation-filter": {"label": "x", "properties": None}}
    rules("add-rule", {"rule-name": "a", "rule-description": without})
    assert listed(rules)[1].value[0].value[8] == {}, "SDKs for .NET read this field as a map"
    rules("remove-rule", {"rule-name": "a"})
    assert rules("remove-rule", {"rule-name": "red"})[0] == 200
    assert [rule.name for rule in namespace.subscription("news/Subscriptions/audit").rules()] == ["$Default", "blue"]


@pytest.mark.parametrize(
    ("operation", "asked", "condition"),
    [
        ("add-rule", {"rule-name": "$Default", "rule-description": {"sql-filter": {"expression": "1=1"}}}, "exists"),
        ("add-rule", {"rule-name": "x", "rule-description": {"sql-filter": {"expression": "1="}}}, "argument"),
        ("add-rule", {"rule-name": "x", "rule-description": {"sql-filter": {"expression": "a = @x"}}}, "argument"),
        ("add-rule", {"rule-name": "x", "rule-description": {}}, "argument"),
        ("add-rule", {"rule-description": {}}, "argument"),
        ("remove-rule", {"rule-name": "nobody"}, "not-found"),
        ("enumerate-rules", {}, "argument"),
    ],
)
def test_a_rule_that_cannot_be_changed_is_refused_with_its_condition(rules, operation, asked, condition):
    status, answered, _ = rules(operation, asked)
    assert status >= 400
    assert condition in answered


def test_a_queue_has_no_rules(client):
    assert client.manage("orders")("enumerate-rules", {"skip": 0, "top": 5})[1] == "amqp:not-allowed"


def test_no_rules_are_no_content(rules):
    rules("remove-rule", {"rule-name": "$Default"})
    assert rules("enumerate-rules", {"skip": 0, "top": 5})[0] == 204


class PlainClient(Client):
    """A client that gives name and key over SASL PLAIN."""

    def __init__(self, host, calls, name, key):
        self.plain = SASL_HEADER + frame(
            0, p.encode_performative(p.SaslInit("PLAIN", f"\0{name}\0{key}".encode(), "host")), SASL_FRAME
        )
        super().__init__(host, calls)

    def say(self, data):
        if self.plain and data.startswith(SASL_HEADER):
            data, self.plain = self.plain + AMQP_HEADER + sent(p.Open("client"), channel=0) + SESSION, b""
        super().say(data)


@pytest.mark.parametrize(("name", "key"), [("RootManageSharedAccessKey", "wrong"), ("nobody", KEY), ("", "")])
def test_a_wrong_key_fails_sasl_plain(host, calls, name, key):
    client = PlainClient(host, calls, name, key)
    assert client.conversation.connection.is_closed
    assert client.is_closed


def test_a_key_of_one_entity_gives_its_rights_over_sasl_plain(host, calls, namespace):
    rule = AuthorizationRule("sender", ("Send",), primary_key="entity-key")
    namespace.create_queue("own", QueueDescription("own", authorization_rules=(rule,)), time.time())
    client = PlainClient(host, calls, "sender", "entity-key")
    assert client.attach(sends_to="own")[1][0].target is not None
    assert client.condition(client.attach(receives_from="own")[1]) == ["amqp:unauthorized-access"]
    assert client.condition(client.attach(sends_to="orders")[1]) == ["amqp:unauthorized-access"]


def peek(client, handle, reply_to=None):
    client.say(request(handle, reply_to=reply_to))
    return [performative.handle for performative, _ in client.heard() if isinstance(performative, p.Transfer)]


def responses(client, handle, address, credit):
    client.say(sent(p.Attach(f"l{handle}", handle, True, 0, 0, source("orders/$management"), target(address))))
    if credit:
        client.say(sent(p.Flow(0, 5000, 0, 5000, handle, 0, credit)))
    return [performative.handle for performative, _ in client.heard() if isinstance(performative, p.Transfer)]


def test_a_response_goes_to_the_reply_to_address(client):
    responses(client, 70, "first", 10)
    responses(client, 71, "second", 10)
    handle, _ = client.attach(sends_to="orders/$management")
    assert peek(client, handle, "second") == [71]
    assert peek(client, handle, "first") == [70]
    assert peek(client, handle) == [70]


@pytest.mark.parametrize("message_id", [ULong(0), ULong(7), ULong(2**60), UInt(7), Int(7), "text", b"id", uuid.uuid4()])
def test_a_response_names_its_request_in_the_same_type(client, message_id):
    """uamqp numbers its requests with ulongs, and takes a response with an int for another request's."""
    responses(client, 70, "me", 10)
    handle, _ = client.attach(sends_to="orders/$management")
    client.say(sent(p.Transfer(handle, 1, b"t", 0), b"\x00\x53\x73" + encode([message_id])))
    (payload,) = [payload for performative, payload in client.heard() if isinstance(performative, p.Transfer)]
    assert payload.startswith(b"\x00\x53\x73" + encode([None] * 5 + [message_id]))


def test_a_response_waits_for_credit(client):
    responses(client, 70, "me", 0)
    handle, _ = client.attach(sends_to="orders/$management")
    assert peek(client, handle) == []
    client.say(sent(p.Flow(0, 5000, 0, 5000, 70, 0, 1)))
    assert len(client.heard()) == 1
    assert peek(client, handle) == []
    client.say(sent(p.Flow(1, 5000, 0, 5000, 70, 1, 5)))
    assert len(client.heard()) == 1
    assert peek(client, handle) == [70]


def test_a_credit_that_the_python_sdk_grants_once_never_ends(client):
    responses(client, 70, "me", 10_000)
    link = client.conversation.connection.sessions[1].links[70]
    link.credit = 0
    handle, _ = client.attach(sends_to="orders/$management")
    assert peek(client, handle) == [70]


def test_each_response_of_management_is_followed_by_credit_unless_the_link_ended(client, host, calls):
    """Threads of the SDK for Python that share a connection wait for a frame each; see `renew_credit_later`."""
    responses(client, 70, "me", 10)
    handle, _ = client.attach(sends_to="orders/$management")
    delays = []
    host.later = lambda delay, call: (delays.append(delay), calls.append(call))
    client.say(request(handle) * 2)
    heard = [performative for performative, _ in client.heard()]
    assert [type(each) for each in heard] == [p.Disposition, p.Transfer] * 2 + [p.Flow] * 4
    assert {(each.handle, each.delivery_count, each.link_credit) for each in heard[-4:]} == {(handle, 2, 1000)}
    assert [delay for delay in delays if delay] == [*RENEWAL_DELAYS_S] * 2
    client.say(request(handle) + sent(p.Detach(handle, True)))
    assert [type(each) for each, _ in client.heard()] == [p.Detach, p.Disposition, p.Transfer]


def test_a_filter_that_is_not_supported_is_not_echoed(client):
    client.say(filtered(60, "red", "orders", "example:colour"))
    ((attach, _),) = client.heard()
    assert p.terminus(attach.source).filters == {}
    assert p.terminus(attach.source).address == "orders"


def test_a_session_announces_its_maximum_handle(client):
    client.say(sent(p.Begin(None, 0, 5000, 5000), channel=2))
    ((begin, _),) = client.heard()
    assert begin.handle_max == 0xFFFFFFFF
