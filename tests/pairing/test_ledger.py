"""The ledger proves by the broker's numbers that nothing was lost (docs/specification.md, section 8)."""

import itertools
import json
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from pairing.drain.ledger import FATES, Ledger, Ranges


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 6))), st.integers(0, 60), st.integers(0, 60))
def test_ranges_hold_exactly_the_numbers_that_were_added(additions, first_asked, more_asked):
    ranges, numbers = Ranges(), set()
    for first, more in additions:
        ranges.add(first, first + more)
        numbers |= set(range(first, first + more + 1))
    pairs = list(ranges)
    assert {number for first, last in pairs for number in range(first, last + 1)} == numbers
    assert len(ranges) == len(numbers)
    asked = range(first_asked, first_asked + more_asked + 1)
    assert ranges.within(asked[0], asked[-1]) == len(numbers.intersection(asked))
    assert [number for number in range(70) if number in ranges] == sorted(numbers)
    assert all(last + 1 < first for (_, last), (first, _) in itertools.pairwise(pairs))


def test_the_ledgers_balance_where_every_message_is_accounted_for():
    ledger = Ledger("queue-0")
    for number in range(101, 201):
        ledger.see(number)
    for number in range(101, 191):
        ledger.close(number, FATES[number % len(FATES)])
    assert ledger.balance(still_there=10).missing == 0
    assert ledger.balance(still_there=9).missing == 1
    assert ledger.balance(still_there=10).enqueued == 100


def test_a_message_that_comes_twice_is_counted_once():
    ledger = Ledger("queue-0")
    ledger.close(1, "restored")
    ledger.close(1, "dead_lettered")
    assert (ledger.count("restored"), ledger.count("dead_lettered")) == (1, 0)


def test_each_partition_of_a_queue_counts_for_itself():
    ledger = Ledger("queue-0")
    for partition in (0, 5, 9):
        for number in (3, 4, 5):
            ledger.close((partition << 48) + number, "restored")
    assert ledger.balance(0).enqueued == 9
    assert ledger.balance(0).missing == 0


numbers = st.lists(st.tuples(st.integers(1, 40), st.sampled_from(FATES)), unique_by=lambda pair: pair[0])


@given(numbers, numbers)
def test_what_two_syphons_have_kept_is_known_together_and_nothing_twice(ours, theirs):
    own, others = Ledger("queue-0"), Ledger("queue-0")
    for ledger, closed in ((own, ours), (others, theirs)):
        for number, fate in closed:
            ledger.close(number, fate)
    own.absorb(others)
    known = dict(theirs) | dict(ours)
    assert {fate: own.count(fate) for fate in FATES} == {fate: list(known.values()).count(fate) for fate in FATES}
    assert own.balance(0).missing == len(set(range(min(known), max(known) + 1)) - set(known) if known else ())


def test_of_what_another_was_about_to_settle_only_the_open_is_taken_over():
    own, others = Ledger("queue-0"), Ledger("queue-0")
    own.close(1, "restored")
    others.pending[1] = "restored"
    others.pending[2] = "dead_lettered"
    own.absorb(others)
    assert own.pending == {2: "dead_lettered"}


def test_the_gaps_are_what_no_fate_explains():
    ledger = Ledger("queue-0")
    for number in (5, 6, 9, 11):
        ledger.close(number, "restored")
    ledger.see(12)
    assert ledger.gaps() == [7, 8, 10, 12]
    assert ledger.gaps(most=2) == [7, 8]


NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_each_incident_has_its_own_balance():
    ledger = Ledger("queue-0")
    for number in range(1, 11):
        ledger.see(number, NOON)
        ledger.close(number, "restored")
    assert ledger.drained(NOON + timedelta(minutes=5))
    assert not ledger.drained(NOON + timedelta(minutes=6))
    for number in range(11, 15):
        ledger.see(number, NOON + timedelta(hours=1))
    ledger.close(11, "restored")
    ledger.close(13, "dead_lettered")
    first, second = ledger.incidents
    assert (first.began_at, first.ended_at) == ("2026-11-21T12:00:00.000+00:00", "2026-11-21T12:05:00.000+00:00")
    assert (ledger.balance_of(first).enqueued, ledger.balance_of(first).missing) == (10, 0)
    balance = ledger.balance_of(second, still_there=2)
    assert (second.ended_at, balance.enqueued, balance.missing) == (None, 4, 0)
    assert {fate: count for fate, count in balance.fates.items() if count} == {"restored": 1, "dead_lettered": 1}


def test_a_message_that_comes_again_after_its_incident_begins_no_other():
    ledger = Ledger("queue-0")
    ledger.see(1, NOON)
    ledger.see(2, NOON)
    ledger.drained(NOON)
    ledger.see(2, NOON)
    assert len(ledger.incidents) == 1


def test_an_incident_that_seemed_over_while_others_had_its_messages_locked_is_over_when_they_are_gone():
    ledger = Ledger("q", "today")
    ledger.see(1, NOON)
    assert ledger.drained(NOON + timedelta(minutes=1))
    ledger.see(1, NOON)
    [incident] = ledger.incidents
    assert incident.ended_at is None
    ledger.close(1, "restored")
    assert ledger.drained(NOON + timedelta(minutes=2))
    assert incident.ended_at == "2026-11-21T12:02:00.000+00:00"


def test_an_incident_that_lost_a_message_says_so_for_good():
    ledger = Ledger("queue-0")
    for number in (1, 3):
        ledger.see(number, NOON)
        ledger.close(number, "restored")
    ledger.drained(NOON)
    [reported] = ledger.to_json()["incidents"]
    assert (reported["enqueued"], reported["fates"]["restored"], reported["missing"]) == (3, 2, 1)


def test_incidents_and_attempts_survive_a_restart_and_meet_in_one_ledger():
    kept = Ledger("queue-0", "today")
    kept.see(1, NOON)
    kept.close(1, "restored")
    kept.drained(NOON)
    kept.see(2, NOON + timedelta(hours=1))
    kept.attempts[2] = 7
    kept.pending[3] = "restored"
    copy = Ledger.from_json(json.loads(json.dumps(kept.to_json())))
    assert copy.to_json() == kept.to_json()
    assert copy.balance(0) == kept.balance(0)
    own = Ledger("queue-0")
    own.absorb(copy)
    assert (own.attempts, own.pending) == ({2: 7}, {3: "restored"})
    assert own.created_at == "today"
    assert [incident.ended_at is None for incident in own.incidents] == [False, True]
    own.close(2, "dead_lettered")
    assert own.attempts == {}


@given(st.sets(st.integers(0, 60)), st.lists(st.integers(0, 60)))
def test_what_is_taken_out_of_ranges_is_out_and_nothing_else(numbers, out):
    ranges = Ranges((number, number) for number in numbers)
    for number in out:
        if number in ranges:
            ranges.remove(number)
            numbers.discard(number)
    assert [number for first, last in ranges for number in range(first, last + 1)] == sorted(numbers)
