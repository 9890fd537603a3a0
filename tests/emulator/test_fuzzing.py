"""Bytes that no client would send, the same in every run (tests/emulator/fuzzing.py)."""

import random

import pytest

from tests.emulator import fuzzing


def mutated(data, random_source):
    changed = bytearray(data)
    for _ in range(random_source.randint(1, 8)):
        position = random_source.randrange(len(changed))
        match random_source.randrange(4):
            case 0:
                changed[position] = random_source.randrange(256)
            case 1:
                del changed[position : position + random_source.randint(1, 4)]
            case 2:
                changed[position:position] = random_source.randbytes(random_source.randint(1, 4))
            case 3:
                changed[position:position] = changed[position : position + random_source.randint(1, 40)]
        if not changed:
            changed = bytearray(b"\x00")
    return bytes(changed)


@pytest.mark.slow
@pytest.mark.parametrize("target", fuzzing.TARGETS, ids=lambda target: target.__name__)
def test_no_bytes_make_anything_but_the_rooms_own_errors(target):
    random_source = random.Random(target.__name__)
    for _ in range(600):
        target(mutated(fuzzing.SEEDS[target], random_source))
        target(random_source.randbytes(random_source.randint(0, 60)))


def test_an_error_of_ours_would_be_seen(monkeypatch):
    monkeypatch.setattr("emulator.broker.queue.Queue.enqueue", None)
    with pytest.raises(TypeError):
        fuzzing.to_a_client(fuzzing.sent(fuzzing.p.Transfer(0, 1, b"t", 0), b"\x00\x53\x75\xa0\x01x"))
