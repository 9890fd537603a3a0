"""The schedule and what is sent are pure functions of the seed."""

from dataclasses import replace
from itertools import islice, pairwise

import pytest
from azure.servicebus import ServiceBusMessageBatch
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.faults import fault_from_json
from tests import forked
from tests.campaign import crowd, letters, schedule
from tests.campaign.actions import Actions
from tests.campaign.plan import ENTITIES, INBOXES, MOST, SMALL, Plan
from tests.selection import depth

SEEDS = st.integers(0, 2**32)


def first(plan: Plan, count: int = 200) -> list[schedule.Disturbance]:
    return list(islice(schedule.disturbances(plan), count))


@settings(max_examples=depth(100), deadline=None)
@given(SEEDS)
def test_the_same_seed_gives_the_same_schedule_in_the_order_of_time(seed: int) -> None:
    plan = replace(SMALL, seed=seed)
    found = first(plan, 50)
    assert found == first(plan, 50)
    assert [one.number for one in found] == list(range(50))
    assert all(before.at_s <= after.at_s for before, after in pairwise(found))


@pytest.mark.parametrize("has_control_plane", [True, False])
def test_every_kind_occurs_and_has_a_target_that_exists(has_control_plane: bool) -> None:
    plan = replace(SMALL, has_control_plane=has_control_plane)
    processes = {name for group in schedule.names(plan).values() for name in group}
    targets = {*processes, *schedule.routes(plan), *ENTITIES, *schedule.names(plan), *crowd.SHARES}
    found = first(plan, 1000)
    assert {one.kind for one in found} == set(schedule.KINDS)
    assert {one.target for one in found} <= targets
    assert processes <= {one.target for one in found if one.kind == "kill"}


def test_every_kind_can_be_begun_and_ended() -> None:
    assert all(hasattr(Actions, f"_begin_{kind}") for kind in schedule.KINDS)
    lasting = {one.kind for one in first(SMALL, 500) if one.lasts_s and one.kind != "kill"}
    assert all(hasattr(Actions, f"_end_{kind}") for kind in lasting)


@pytest.mark.parametrize("fault", schedule.FAULTS)
def test_every_fault_is_one_that_a_namespace_takes(fault: dict[str, object]) -> None:
    assert fault_from_json({**fault, "entity": None, "seconds": 3.0}, now=0.0).effect == fault["effect"]


def test_an_outage_takes_each_queue_once_and_nothing_else_begins_until_all_must_be_home() -> None:
    found = first(SMALL, 1000)
    for before, after in pairwise(found):
        if before.kind == "outage" and after.at_s > before.at_s:
            assert after.at_s >= before.at_s + crowd.LASTS_S + crowd.NOTICED_S + crowd.DRAINED_S
    for outage in range(3):
        taken = [name for of in crowd.SHARES for name in crowd.group(of, outage, SMALL.crowd)]
        assert sorted(taken) == list(crowd.names(SMALL.crowd))


@settings(max_examples=depth(100), deadline=None)
@given(SEEDS, st.integers(0, 1000))
def test_a_turn_can_be_made_again_with_the_same_content(seed: int, number: int) -> None:
    turn, again = (letters.turn(seed, "sender-1", number) for _ in range(2))
    assert turn == again
    assert [letter.digest for letter in turn.letters] == [letter.digest for letter in again.letters]
    assert turn.target in INBOXES
    assert all((letter.session_id is not None) is turn.is_ordered for letter in turn.letters)


@settings(max_examples=depth(100), deadline=None)
@given(SEEDS, st.integers(0, 1000))
def test_the_largest_batch_fits_into_one_of_the_sdk_with_room_for_the_backlog(seed: int, number: int) -> None:
    turn = letters.turn(seed, "sender-1", number, MOST)
    batch = ServiceBusMessageBatch(200_000)
    for letter in turn.letters:
        batch.add_message(letter.message())  # raises once it is full
    assert len(turn.letters) <= MOST


TYPES_ARRIVE = """
from dataclasses import replace
from azure.servicebus import ServiceBusReceivedMessage
from tests.campaign import letters
from tests.pairing.test_messages_round_trip import encoded

letters.keep_types()
[letter] = letters.turn(1, "sender-1", 0).letters[:1]
typed = [{"TYPE": name, "VALUE": 7} for name in letters.TYPES] + [{"TYPE": "FLOAT", "VALUE": 7.0}]
sent = [replace(letter, properties={"value": one}) for one in (*typed, 7, 7.0, "7", True, letters.MOMENT)]
arrived = [letters.digest_of(ServiceBusReceivedMessage.from_bytes(encoded(one.message()))) for one in sent]
assert arrived == [one.digest for one in sent], arrived
assert len(set(arrived)) == len(sent)
"""


def test_the_digest_of_what_arrives_has_the_type_of_each_property() -> None:
    forked.run(["-c", TYPES_ARRIVE], {}, check=True)


def test_each_byte_and_each_property_is_in_the_digest() -> None:
    letter = next(
        one
        for number in range(100)
        for one in letters.turn(1, "sender-1", number).letters
        if one.session_id and one.body
    )
    others = (
        replace(letter, body=bytes([letter.body[0] ^ 1]) + letter.body[1:]),
        replace(letter, properties={**letter.properties, "number": -1}),
        replace(letter, session_id="other"),
        replace(letter, subject="other"),
        replace(letter, identity="other"),
    )
    assert len({one.digest for one in (letter, *others)}) == 1 + len(others)
