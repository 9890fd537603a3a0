"""AMQP values: every type there and back, and no bytes that can hurt."""

import math
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.codec import MAX_DEPTH, decode, encode, encode_map, map_items, skip
from amqp10.types import (
    Array,
    Byte,
    Char,
    DecodeError,
    Described,
    Float32,
    Int,
    Long,
    Raw,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)


def ints(low, high, kind):
    return st.integers(low, high).map(kind)


def array_of(elements):
    return st.lists(elements, max_size=5).map(Array)


NUMBERS = (
    ints(0, 2**8 - 1, UByte),
    ints(0, 2**16 - 1, UShort),
    ints(0, 2**32 - 1, UInt),
    ints(0, 2**64 - 1, ULong),
    ints(-(2**7), 2**7 - 1, Byte),
    ints(-(2**15), 2**15 - 1, Short),
    ints(-(2**31), 2**31 - 1, Int),
    ints(-(2**63), 2**63 - 1, Long),
    ints(-(2**63), 2**63 - 1, Timestamp),
    st.booleans(),
    st.floats(allow_nan=False),
    st.floats(allow_nan=False, width=32).map(Float32),
    st.characters(exclude_categories=("Cs",)).map(Char),
)
SCALARS = st.one_of(
    st.none(),
    *NUMBERS,
    st.integers(-(2**63), 2**63 - 1),
    st.text(max_size=300),
    st.text(st.characters(max_codepoint=127), max_size=300).map(Symbol),
    st.binary(max_size=300),
    st.uuids(),
)
KEYS = st.one_of(st.text(max_size=20), ints(0, 2**64 - 1, ULong), st.text("abc", max_size=5).map(Symbol))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=6),
        st.dictionaries(KEYS, inner, max_size=6),
        st.builds(Described, ints(0, 2**64 - 1, ULong), inner),
        st.sampled_from(NUMBERS).flatmap(array_of),
        array_of(st.text(max_size=10)),
        array_of(st.uuids()),
    ),
    max_leaves=20,
)


@given(VALUES)
def test_every_value_comes_back_and_is_skipped_in_one_step(value):
    encoded = encode(value)
    decoded, end = decode(encoded)
    assert (decoded, end, encode(decoded)) == (value, len(encoded), encoded)
    assert skip(encoded) == len(encoded)
    assert decode(b"\x00" * 3 + encoded, 3) == (value, len(encoded) + 3)


@given(st.binary(max_size=200))
def test_any_bytes_at_all_are_a_value_or_a_decode_error(data):
    for read in (decode, skip, map_items):
        with suppress(DecodeError):
            read(data)


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        ("40", None),
        ("41", True),
        ("5601", True),
        ("42", False),
        ("43", 0),
        ("5203", 3),
        ("70ffffffff", 2**32 - 1),
        ("44", 0),
        ("80ffffffffffffffff", 2**64 - 1),
        ("54ff", -1),
        ("71fffffffe", -2),
        ("55fe", -2),
        ("81fffffffffffffffd", -3),
        ("51f0", -16),
        ("61fff0", -16),
        ("723f800000", 1.0),
        ("823ff0000000000000", 1.0),
        ("730001f600", "\U0001f600"),
        ("83000000000000000a", 10),
        ("a003616263", b"abc"),
        ("b000000003616263", b"abc"),
        ("a103616263", "abc"),
        ("b100000003616263", "abc"),
        ("a303616263", "abc"),
        ("45", []),
        ("c0050252015202", [1, 2]),
        ("c10602a101615201", {"a": 1}),
        ("e00802a0026869026a6b", [b"hi", b"jk"]),
        ("f00000000d00000002710000000100000002", [1, 2]),
    ],
)
def test_the_encodings_of_the_standard_are_read(encoded, value):
    assert decode(bytes.fromhex(encoded))[0] == value


def test_decimals_are_carried_and_not_computed_with():
    encoded = b"\x94" + bytes(range(16))
    value, end = decode(encoded)
    assert (value, end) == (Raw(encoded), 17)
    assert encode(value) == encoded


def test_not_a_number_stays_one():
    assert math.isnan(decode(encode(math.nan))[0])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"\x3f",
        b"\xff\x00",
        b"\xa0\x05abc",
        b"\xb0\xff\xff\xff\xffabc",
        b"\xa1\x02\xff\xfe",
        b"\xa3\x01\xff",
        b"\x56\x02",
        b"\x73\x00\x11\x00\x00",
        b"\xc0\x01",
        b"\xc0\x03\x05\x40\x40",
        b"\xc0\x05\x01\x40\x40\x40\x40",
        b"\xc1\x04\x01\xa1\x01a",
        b"\xc1\x07\x02\xc0\x02\x01\x40\x40\x40",
        b"\xd0\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x40",
        b"\xf0\x00\x00\x00\x06\xff\xff\xff\xff\x50\x01",
        b"\xe0\x02\x01\x3f",
        b"\xe0\x02\x11\x40",
        b"\xe0\x02\x01\x45",
        b"\xe0\x04\x01\x00\x43\x40",
    ],
    ids=lambda data: data.hex() or "nothing",
)
def test_what_cannot_be_is_a_decode_error(data):
    with pytest.raises(DecodeError):
        decode(data)


@pytest.mark.parametrize(
    "opening", [b"\x00", b"\xc0\xff\x01", b"\xd0\x00\x00\xff\xff\x00\x00\x00\x01", b"\xe0\xff\x01"]
)
def test_depth_is_bounded(opening):
    with pytest.raises(DecodeError):
        decode(opening * 100_000)
    with pytest.raises(DecodeError):
        skip(b"\x00" * 100_000)


def test_reasonable_depth_is_read():
    value = 1
    for _ in range(MAX_DEPTH - 1):
        value = [value]
    assert decode(encode(value))[0] == value


def test_a_small_frame_cannot_claim_a_thousand_million_values():
    nulls = b"\xf0" + struct.pack(">II", 5, 2**30) + b"\x40"
    with pytest.raises(DecodeError):
        decode(nulls)


def test_the_values_of_a_map_keep_their_bytes():
    encoded = encode_map([(encode(Symbol("a")), b"\x54\x07"), (encode("b"), b"\x71\x00\x00\x00\x07")])
    assert map_items(encoded)[0] == [("a", b"\x54\x07"), ("b", b"\x71\x00\x00\x00\x07")]


def test_what_amqp_has_no_type_for_is_refused():
    with pytest.raises(TypeError):
        encode(object())
    with pytest.raises(OverflowError):
        encode(2**63)
