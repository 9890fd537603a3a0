"""Fields of a frame replaced on its bytes: everything else stays as it was encoded."""

import pytest

from amqp10 import performatives as p
from amqp10.codec import encode
from amqp10.frame_fields import FrameFields
from amqp10.types import AmqpError, DecodeError, Raw, Symbol, UInt

OPEN = p.Open("client", "contoso.servicebus.windows.net", 65536, 4999, 60000, properties={Symbol("product"): "x"})
ATTACH = p.Attach("l", 3, True, 0, 1, p.accepted(), None, properties={Symbol("com.microsoft:timeout"): UInt(5)})
PERFORMATIVES = [
    (OPEN, {"hostname": "other", "idle_time_out": 120_000}),
    (p.Begin(None, 0, 5000, 5000), {"remote_channel": 7}),
    (ATTACH, {"handle": 300, "name": "n"}),
    (p.Flow(1, 2, 3, 4, 5, 6, 7), {"next_incoming_id": 2**31, "handle": None}),
    (p.Transfer(1, 255, b"tag", 0, False), {"delivery_id": 256, "handle": 0}),
    (p.Disposition(True, 5, 9, True, p.accepted()), {"first": 1000, "last": None}),
    (p.Detach(5, True, p.error("amqp:link:detach-forced", "idle")), {"handle": 6}),
]


@pytest.mark.parametrize(("performative", "changes"), PERFORMATIVES)
def test_replaced_fields_have_their_type_and_all_others_their_value(performative, changes):
    fields = FrameFields(p.encode_performative(performative) + b"payload")
    body = fields.replaced(**changes)
    expected = type(performative)(**{name: getattr(performative, name) for name in performative.__slots__} | changes)
    assert body == p.encode_performative(expected) + b"payload"
    assert {name: FrameFields(body).value(name) for name in changes} == changes
    assert fields.replaced() == fields.body


def test_what_is_not_replaced_keeps_its_bytes_and_a_field_that_is_missing_is_added():
    name, state = b"\xb1\x00\x00\x00\x01l", b"\x00\x80" + b"\x00" * 7 + b"\x34\x45"
    body = b"\x00\xa3\x10amqp:attach:list\xc0\x0c\x02" + name + b"\x70\x00\x00\x00\x05"
    fields = FrameFields(body)
    assert (fields.code, fields.value("handle"), fields.value("snd_settle_mode")) == (p.Attach.CODE, 5, None)
    with pytest.raises(DecodeError, match="role has another type or is missing"):
        fields.value("role")
    assert fields.replaced(handle=6, snd_settle_mode=Raw(state)) == (
        b"\x00\x53\x12\xc0" + bytes((len(name) + len(state) + 4, 4)) + name + b"\x52\x06\x40" + state
    )


@pytest.mark.parametrize("more", [None, True])
@pytest.mark.parametrize("size", [60, 64, 1000])
def test_a_transfer_that_became_too_large_is_split(more, size):
    body = p.encode_performative(p.Transfer(1, 2, b"tag", 0, False, more)) + bytes(range(200))
    parts = [FrameFields(part) for part in FrameFields(body).split(size)]
    assert [len(part.body) <= size for part in parts] == [True] * len(parts)
    assert b"".join(part.body[part.payload :] for part in parts) == bytes(range(200))
    assert [part.value("more") for part in parts] == [True] * (len(parts) - 1) + [more]
    assert {part.value("delivery_id") for part in parts} == {2}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00\x53",
        b"\x40\x53\x14\x45",
        b"\x00\x53\x99\x45",
        b"\x00\xa3\x03abc\x45",
        b"\x00\x53\x14\xc0\x05\x01\x43\x40\x40\x40",
        b"\x00\x53\x14\xc0\x02\x02\x43",
        b"\x00\x53\x14" + encode({1: 2})[:-1],
    ],
    ids=lambda body: body.hex() or "nothing",
)
def test_what_is_no_performative_is_refused(body):
    with pytest.raises(AmqpError):
        FrameFields(body)


def test_a_field_of_another_type_is_refused():
    fields = FrameFields(b"\x00\x53\x16" + encode([[1]]))
    with pytest.raises(AmqpError):
        fields.value("handle")


@pytest.mark.parametrize(("performative", "size"), [(p.Transfer(1, 2, b"t" * 30), 20), (OPEN, 20)])
def test_a_performative_that_is_larger_than_its_frame_is_refused(performative, size):
    with pytest.raises(AmqpError):
        list(FrameFields(p.encode_performative(performative) + b"x").split(size))
