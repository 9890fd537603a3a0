"""Bytes that no client would send (tests/emulator/fuzzing.py, structured_input.py), and what was found by them."""

import itertools
import os
import random
import time

import pytest

from amqp10.codec import encode
from amqp10.types import DecodeError, ULong
from emulator.broker.message import parse
from tests.emulator import fuzzing
from tests.emulator.client import body
from tests.emulator.structured_input import GENERATORS
from tests.selection import depth


def test_an_error_of_ours_would_be_seen(monkeypatch):
    monkeypatch.setattr("emulator.broker.queues.queue.Queue.add", None)
    with pytest.raises(TypeError):
        fuzzing.to_a_client(fuzzing.sent(fuzzing.p.Transfer(0, 1, b"t", 0), b"\x00\x53\x75\xa0\x01x"))


def try_well_formed(target, seed, number):
    try:
        target(GENERATORS[target](random.Random(f"{seed}/{target.__name__}/{number}")))
    except Exception as error:
        error.add_note(f"This is input {number} of seed {seed}.")
        raise


@pytest.mark.slow
@pytest.mark.parametrize("target", GENERATORS, ids=lambda target: target.__name__)
def test_well_formed_input_makes_nothing_but_the_rooms_own_errors(target):
    for number in range(depth(600)):
        try_well_formed(target, 1, number)


@pytest.mark.nightly
@pytest.mark.parametrize("target", GENERATORS, ids=lambda target: target.__name__)
def test_well_formed_input_of_tonight_makes_nothing_but_the_rooms_own_errors(target):
    """The seed is the day unless FUZZ_SEED says another; FUZZ_MINUTES is how long all targets together are tried."""
    seed, minutes = os.environ.get("FUZZ_SEED", time.strftime("%Y%m%d")), float(os.environ.get("FUZZ_MINUTES", 5))
    end, numbers = time.monotonic() + minutes * 60 / len(GENERATORS), itertools.count()
    while time.monotonic() < end:
        try_well_formed(target, seed, next(numbers))


@pytest.mark.parametrize(
    "section",
    [
        b"\x00\x53\x72" + encode({"é": 1}),
        b"\x00\x53\x72\xc1\x04\x02\x45\x40\x40",
        b"\x00\x53\x70" + encode([None, None, ULong(2**32)]),
    ],
    ids=["annotation with a key beyond ASCII", "annotation with a list as its key", "time to live beyond 32 bits"],
)
def test_a_message_against_the_protocol_is_refused(section):
    with pytest.raises(DecodeError):
        parse(section + b"\x00\x53\x75" + encode(b"x"))


@pytest.mark.parametrize("value", [None, True, 0, ULong(0)])
def test_a_short_last_property_ends_a_message_that_has_the_byte_of_a_decimal_elsewhere(value):
    message = parse(b"\x00\x53\x74" + encode({"bytes": b"\x94", "last": value}))
    assert message.application_properties == {"bytes": b"\x94", "last": value}


@pytest.mark.parametrize("end", [b"\xd1\x00\x00\x00\x01\x00", b"\xd1\x00\x00\x00\x00", b"\xc1\x00"])
def test_properties_without_a_count_end_a_message_that_has_the_byte_of_a_decimal_elsewhere(end):
    head = b"\x00\x53\x73" + encode(["an id with the byte \u0014 \u0094"])
    assert parse(head + b"\x00\x53\x74" + end).bare == head + b"\x00\x53\x74" + end


def test_a_priority_beyond_its_type_is_ignored():
    assert parse(b"\x00\x53\x70" + encode([None, ULong(2**64 - 1)]) + body()).priority is None


def test_a_request_whose_properties_are_no_list_is_rejected(client):
    ask, _ = client.attach(sends_to="orders/$management")
    client.say(fuzzing.sent(fuzzing.p.Transfer(ask, 0, b"t", 0), b"\x00\x53\x73" + encode(5)))
    (answer,) = [found for found, _ in client.heard() if isinstance(found, fuzzing.p.Disposition)]
    assert fuzzing.p.outcome(answer.state)[0] == fuzzing.p.REJECTED
