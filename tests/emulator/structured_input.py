"""Input drawn from the grammar of what it is: well-formed for the most part, wrong in one place now and then.

Each generator gets a `random.Random` and returns bytes for one of the targets of `fuzzing.py`, so that a number names
an input. Bytes at random seldom get past the first check; these reach what stands behind it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random

from amqp10.codec import encode
from amqp10.frames import AMQP_FRAME, SASL_FRAME
from amqp10.types import Described, Raw
from tests.emulator import fuzzing
from tests.gateway import fuzzing as gateways

Generator = Callable[[Random], bytes]

WRONG = 0.03
"""How often a size, a type or a text is not what the grammar says."""
NAMES = (
    *("com.microsoft:session-filter", "x-opt-partition-key", "x-opt-scheduled-enqueue-time", "x-opt-lock-token"),
    *("DeadLetterReason", "operation", "message-count", "from-sequence-number", "session-id", "lock-tokens", "colour"),
    *("sequence-numbers", "messages", "message", "disposition-status", "properties-to-modify", "skip", "top"),
    *("rule-name", "rule-description", "sql-filter", "correlation-filter", "expression", "last-updated-time"),
    *("receiver-settle-mode", "session-state", "deadletter-reason", "name", "type", "com.microsoft:timeout"),
)
OPERATIONS = (
    *("peek-message", "renew-lock", "update-disposition", "schedule-message", "cancel-scheduled-message"),
    *("receive-by-sequence-number", "renew-session-lock", "get-session-state", "set-session-state"),
    *("get-message-sessions", "add-rule", "remove-rule", "enumerate-rules", "put-token"),
)
ADDRESSES = ("orders", "orders/$management", "$cbs", "orders/$deadletterqueue", "sb://host/orders", "", "other", "/")
TEXTS = (*NAMES, *OPERATIONS, *ADDRESSES, "", "é", "\x00", "active", "completed", "text/plain", "x" * 300)
NUMBERS = (0, 1, 2, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**64 - 1)


def is_wrong(random: Random) -> bool:
    return random.random() < WRONG


def value(random: Random, depth: int = 4) -> bytes:
    """Any value of AMQP, in any of its encodings."""
    if is_wrong(random):
        return random.randbytes(random.randint(0, 6))
    return random.choice(_SIMPLE if depth <= 0 else _ANY)(random, depth)


def _null(random: Random, depth: int) -> bytes:
    return b"\x40"


def _flag(random: Random, depth: int) -> bytes:
    return random.choice((b"\x41", b"\x42", b"\x56\x00", b"\x56\x01"))


def number(random: Random, depth: int = 0) -> bytes:
    """A number of any type and width, most often at an edge."""
    code, width = random.choice(
        (
            *((0x50, 1), (0x60, 2), (0x52, 1), (0x70, 4), (0x53, 1), (0x80, 8), (0x51, 1), (0x61, 2), (0x54, 1)),
            *((0x71, 4), (0x55, 1), (0x81, 8), (0x83, 8), (0x43, 0), (0x44, 0), (0x72, 4), (0x82, 8), (0x74, 4)),
        )
    )
    digits = random.choice(NUMBERS) if random.random() < 0.7 else random.getrandbits(64)
    return bytes([code]) + (digits & ((1 << 8 * width) - 1)).to_bytes(width, "big")


def text(random: Random, depth: int = 0) -> bytes:
    """A string, symbol or binary that means something somewhere."""
    data = random.choice(TEXTS).encode()
    return _sized(random, random.choice((0xA0, 0xA1, 0xA1, 0xA3)), data)


def _uuid(random: Random, depth: int) -> bytes:
    return b"\x98" + random.randbytes(16)


def _sized(random: Random, code: int, data: bytes) -> bytes:
    size = len(data) if not is_wrong(random) else random.choice((0, len(data) + 1, 2**32 - 1))
    if len(data) < 256 and size < 256 and random.random() < 0.8:
        return bytes([code, size]) + data
    return bytes([code + 0x10]) + struct.pack(">I", size) + data


def compound(random: Random, code: int, items: Sequence[bytes]) -> bytes:
    """A list (0xC0), map (0xC1) or array (0xE0) of encoded items, in its short or long form."""
    count = len(items) if not is_wrong(random) else random.choice((0, len(items) + 1, 2**31))
    body = b"".join(items)
    if len(body) < 250 and count < 256 and random.random() < 0.8:
        return _sized(random, code, bytes([count]) + body)
    return bytes([code + 0x10]) + struct.pack(">II", len(body) + 4, count) + body


def _list(random: Random, depth: int) -> bytes:
    return compound(random, 0xC0, [value(random, depth - 1) for _ in range(random.randint(0, 5))])


def mapping(random: Random, depth: int = 3) -> bytes:
    """A map, with keys that mean something somewhere."""
    items = [[text(random), value(random, depth - 1)] for _ in range(random.randint(0, 5))]
    return compound(random, 0xC1, [part for item in items for part in item])


def _array(random: Random, depth: int) -> bytes:
    code, width = random.choice(((0x98, 16), (0x81, 8), (0x40, 0), (0x56, 1), (0x71, 4)))
    count = random.randint(0, 4)
    data = bytes([code]) + random.randbytes(width * count)
    return _sized(random, 0xE0, bytes([count if not is_wrong(random) else 255]) + data)


def _described(random: Random, depth: int) -> bytes:
    descriptor = random.choice((b"\x53" + random.randbytes(1), number(random), text(random)))
    return b"\x00" + descriptor + value(random, depth - 1)


_SIMPLE = (_null, _flag, number, text, _uuid)
_ANY = (*_SIMPLE, _list, mapping, _array, _described)


def message(random: Random) -> bytes:
    """A message: sections in their order, unless something is wrong."""
    parts = [section(random, code) for code in range(0x70, 0x79) if random.random() < 0.5]
    if is_wrong(random):
        random.shuffle(parts)
    return b"".join(parts)


def section(random: Random, code: int) -> bytes:
    head = b"\x00\x53" if random.random() < 0.9 else b"\x00\x80" + bytes(7)
    if is_wrong(random):
        content = value(random)
    elif code == 0x70:
        content = compound(random, 0xC0, [_flag(random, 0), number(random), number(random)][: random.randint(0, 3)])
    elif code == 0x73:
        content = compound(random, 0xC0, [_property(random, index) for index in range(random.randint(0, 13))])
    elif code == 0x75:
        content = _sized(random, 0xA0, random.randbytes(random.randint(0, 200)))
    elif code in (0x76, 0x77):
        content = value(random)
    else:
        content = mapping(random)
    return head + bytes([code]) + content


def _property(random: Random, index: int) -> bytes:
    if random.random() < 0.3:
        return b"\x40"
    return number(random) if index in (8, 9, 11) else text(random)


def batch(random: Random) -> bytes:
    """Messages in the data sections of another."""
    return b"".join(b"\x00\x53\x75" + _sized(random, 0xA0, message(random)) for _ in range(random.randint(1, 8)))


def messages(random: Random) -> bytes:
    return random.choice((message, batch))(random)


def frame(random: Random, body: bytes) -> bytes:
    size = 8 + len(body) if not is_wrong(random) else random.choice(NUMBERS) & 0xFFFFFFFF
    offset = 2 if not is_wrong(random) else random.randrange(256)
    kind = AMQP_FRAME if not is_wrong(random) else random.choice((SASL_FRAME, 2, 255))
    channel = 1 if random.random() < 0.9 else random.choice((0, 2, 65535))
    return struct.pack(">IBBH", size, offset, kind, channel) + body


def performative(random: Random) -> bytes:
    """One performative with fields that are mostly of the right type, and what follows it."""
    kind = random.choice((*fuzzing.p._AMQP.values(), fuzzing.p.Transfer, fuzzing.p.Flow, fuzzing.p.Disposition))
    count = len(kind.KINDS) if random.random() < 0.8 else random.randint(0, len(kind.KINDS) + 1)
    fields = [_field(random, kind, index) for index in range(count)]
    body = b"\x00\x53" + bytes([kind.CODE]) + compound(random, 0xC0, fields)
    return frame(random, body + (payload(random) if kind is fuzzing.p.Transfer else b""))


def _field(random: Random, kind: type, index: int) -> bytes:
    name = list(kind.__dataclass_fields__)[index] if index < len(kind.KINDS) else ""
    if is_wrong(random):
        return value(random)
    if index not in kind.MANDATORY and random.random() < 0.3:
        return b"\x40"
    return _FIELDS.get(name, _other_field)(random)


def _other_field(random: Random) -> bytes:
    return random.choice((_flag(random, 0), number(random), text(random)))


def _small(random: Random) -> bytes:
    return encode(fuzzing.p.UInt(random.choice((0, 1, 2, 3, 4, 5, 6, 10, 2**32 - 1))))


def _terminus(random: Random) -> bytes:
    code = random.choice((fuzzing.p.SOURCE, fuzzing.p.TARGET, fuzzing.p.COORDINATOR))
    fields = [text(random), *(value(random, 2) for _ in range(random.randint(0, 10)))]
    return b"\x00" + encode(fuzzing.ULong(code)) + compound(random, 0xC0, fields)


def _state(random: Random) -> bytes:
    code = random.choice((0x23, 0x24, 0x25, 0x26, 0x27, fuzzing.p.TRANSACTIONAL))
    if code == fuzzing.p.TRANSACTIONAL and not is_wrong(random):
        return _in_transaction(random.choice((b"\x40", b"\x00\x53\x24\x45", _state(random))))
    fields = [random.choice((_flag, _described, mapping, text))(random, 2) for _ in range(random.randint(0, 3))]
    return b"\x00\x53" + bytes([code]) + compound(random, 0xC0, fields)


def _in_transaction(state: bytes) -> bytes:
    return encode(fuzzing.p.transactional(fuzzing.TRANSACTION, Raw(state)))


_FIELDS: dict[str, Generator] = {
    **dict.fromkeys(
        (
            *("handle", "delivery_id", "first", "last", "link_credit", "delivery_count", "next_incoming_id"),
            "remote_channel",
        ),
        _small,
    ),
    **dict.fromkeys(("next_outgoing_id", "incoming_window", "outgoing_window", "message_format"), number),
    **dict.fromkeys(
        ("role", "settled", "more", "drain", "echo", "closed", "batchable", "aborted", "resume"),
        lambda random: _flag(random, 0),
    ),
    **dict.fromkeys(("source", "target"), _terminus),
    **dict.fromkeys(("name", "container_id", "hostname"), text),
    **dict.fromkeys(("properties", "unsettled"), mapping),
    "state": _state,
    "delivery_tag": lambda random: b"\xa0\x10" + random.randbytes(16),
}


def payload(random: Random) -> bytes:
    return request(random) if random.random() < 0.5 else messages(random)


def request(random: Random) -> bytes:
    """A request to a node such as `$management`."""
    head = b"\x00\x53\x73" + compound(random, 0xC0, [text(random) for _ in range(random.randint(0, 5))])
    operation = encode("com.microsoft:" * (random.random() < 0.9) + random.choice(OPERATIONS))
    properties = compound(random, 0xC1, [encode("operation"), operation])
    return head + b"\x00\x53\x74" + properties + b"\x00\x53\x77" + mapping(random, 4)


def conversation(random: Random) -> bytes:
    """Frames of a client with open links: requests, messages, and any performative."""
    return b"".join(_said(random) for _ in range(random.randint(1, 40)))


def _said(random: Random) -> bytes:
    if random.random() < 0.4:
        return performative(random)
    if random.random() < 0.1:
        state = Raw(_in_transaction(_state(random)))
        disposition = fuzzing.p.Disposition(True, random.randrange(4), None, random.random() < 0.5, state)
        return frame(random, fuzzing.p.encode_performative(disposition))
    handle, settled = random.choice((0, 0, 2, 2, 2, 4, 6)), random.random() < 0.5
    if handle == 6:
        transfer = fuzzing.p.Transfer(handle, random.randrange(4), b"t", 0, is_wrong(random))
        return frame(random, fuzzing.p.encode_performative(transfer) + _control(random))
    more = None if random.random() < 0.9 else True
    state = Raw(_in_transaction(b"\x40")) if random.random() < 0.3 else None
    message_format = random.choice((0, 0x80013700))
    transfer = fuzzing.p.Transfer(handle, random.randrange(4), b"t", message_format, settled, more, state=state)
    return frame(random, fuzzing.p.encode_performative(transfer) + payload(random))


def _control(random: Random) -> bytes:
    """What is sent to a coordinator."""
    declare, fails = random.random() < 0.4, random.random() < 0.3
    fields = [None] if declare else [fuzzing.TRANSACTION, fails]
    code = fuzzing.p.DECLARE if declare else fuzzing.p.DISCHARGE
    value_of = value(random) if is_wrong(random) else encode(Described(fuzzing.ULong(code), fields))
    return b"\x00\x53\x77" + value_of


def stranger(random: Random) -> bytes:
    """A conversation from its first byte on."""
    cut = random.randrange(len(fuzzing.HANDSHAKE)) if random.random() < 0.3 else len(fuzzing.HANDSHAKE)
    return fuzzing.HANDSHAKE[:cut] + b"".join(performative(random) for _ in range(random.randint(1, 40)))


def server(random: Random) -> bytes:
    """What a client hears: answers to what it asked for, cut off now and then, and any frames."""
    cut = random.randrange(len(fuzzing.ANSWERS)) if random.random() < 0.1 else len(fuzzing.ANSWERS)
    return fuzzing.ANSWERS[:cut] + conversation(random)


def frame_body(random: Random) -> bytes:
    """A performative without its frame's head."""
    return performative(random)[8:]


def http(random: Random) -> bytes:
    """Requests one after another, and a WebSocket with frames behind it, cut off somewhere or wrong in one place."""
    data = bytearray(fuzzing.REQUEST * random.randint(0, 2) + fuzzing.UPGRADE)
    if random.random() < 0.7:
        data[random.randrange(len(data))] = random.randrange(256)
    return bytes(data[: random.randint(1, len(data))] if random.random() < 0.5 else data)


ELEMENTS = (
    *(
        "LockDuration",
        "MaxSizeInMegabytes",
        "RequiresSession",
        "MaxDeliveryCount",
        "Status",
        "ForwardTo",
        "UserMetadata",
    ),
    *("DefaultMessageTimeToLive", "DuplicateDetectionHistoryTimeWindow", "AutoDeleteOnIdle", "AuthorizationRules"),
    *("Filter", "Action", "Name", "SqlExpression", "Parameters", "Properties", "CorrelationId", "CreatedAt"),
)
CONTENTS = ("", "true", "1", "-1", "PT1M", "P10675199DT2H48M5.4775807S", "Active", "orders", "a = 1", "x" * 2000, "1e9")


def document(random: Random) -> bytes:
    """A request of the administration, as `fuzzing.to_the_administration` takes it."""
    kind = random.choice(("Queue", "Topic", "Subscription", "Rule"))
    inner = "".join(_element(random, 2) for _ in range(random.randint(0, 8)))
    namespaces = (
        'xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" '
        'xmlns:i="http://www.w3.org/2001/XMLSchema-instance"'
    )
    content = f'<content type="application/xml"><{kind}Description {namespaces}>{inner}</{kind}Description></content>'
    written = f'<entry xmlns="http://www.w3.org/2005/Atom">{content}</entry>'.encode()
    if is_wrong(random):
        written = written[: random.randrange(len(written))]
    return random.randbytes(2) + written


def _element(random: Random, depth: int) -> str:
    name = random.choice(ELEMENTS)
    kind = random.choice(("SqlFilter", "CorrelationFilter", "TrueFilter", "FalseFilter", "SqlRuleAction", "Other"))
    attribute = f' i:type="{kind}"' if name in ("Filter", "Action") else ""
    if depth and random.random() < 0.4:
        inner = "".join(_element(random, depth - 1) for _ in range(random.randint(0, 4)))
    else:
        inner = random.choice(CONTENTS)
    return f"<{name}{attribute}>{inner}</{name}>"


TOKENS = (
    *("sys.MessageId", "user.colour", "[a b]", '"q"', "'text'", "'it''s'", "1", "-2.5", "1e3", "0x1F", "NULL", "@p"),
    *("newid()", "property('a')", "p(b)", "TRUE", "FALSE", "colour", "größe", "sys.Nothing"),
)
OPERATORS = ("=", "<>", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "AND", "OR", "LIKE")


def sql(random: Random) -> bytes:
    """A condition or an action."""
    if random.random() < 0.3:
        parts = [
            f"{random.choice(('SET a =', 'SET sys.Label =', 'REMOVE'))} {_expression(random, 2)}" for _ in range(3)
        ]
        return ";".join(parts).encode()
    return _expression(random, random.randint(0, 7)).encode()


def _expression(random: Random, depth: int) -> str:
    if depth <= 0:
        return random.choice(TOKENS) if not is_wrong(random) else random.choice(("(", ")", "'", "[", ",", "§", "\x00"))
    left, right = _expression(random, depth - 1), _expression(random, depth - random.randint(1, depth))
    return random.choice(
        (
            f"{left} {random.choice(OPERATORS)} {right}",
            *(f"({left})", f"NOT {left}", f"-{left}", f"EXISTS({right})", f"{left} IS NOT NULL"),
            *(f"{left} IN ({right}, 1)", f"{left} LIKE 'a%' ESCAPE '\\'", f"{left} NOT IN ('x')"),
        )
    )


GENERATORS: dict[Callable[[bytes], None], Generator] = {
    fuzzing.to_http: http,
    fuzzing.to_messages: messages,
    fuzzing.to_a_stranger: stranger,
    fuzzing.to_a_client: conversation,
    fuzzing.to_our_client: server,
    fuzzing.to_frame_fields: frame_body,
    fuzzing.to_the_administration: document,
    fuzzing.to_sql: sql,
    gateways.to_a_gateway: conversation,
    gateways.to_a_gateway_from_its_primary: conversation,
    gateways.to_a_stand_in: conversation,
}
