"""Where the syphon may send, and how fast (docs/specification.md, section 8)."""

import pytest

from pairing.drain.destinations import BUSY_PAUSE_S, LONGEST_PAUSE_S, Destinations


@pytest.fixture
def failed_over():
    return set()


@pytest.fixture
def destinations(failed_over):
    return Destinations(failed_over.__contains__, first_pause_s=1.0)


def test_nothing_is_sent_to_what_is_failed_over(destinations, failed_over):
    assert not destinations.is_blocked("orders", 0)
    failed_over.add("orders")
    assert destinations.is_blocked("orders", 0)
    assert not destinations.is_blocked("payments", 0)


def test_nothing_is_sent_to_what_an_operator_keeps_back_until_he_lets_it_go(destinations):
    destinations.failed("orders", 0, "no answer")
    destinations.keep_back(["Orders"])
    assert destinations.is_blocked("orders", 100)
    assert destinations.is_shut("orders")
    assert not destinations.is_blocked("payments", 100)
    destinations.keep_back([])
    assert not destinations.is_blocked("orders", 0.1)


def test_the_pause_after_a_failure_doubles_up_to_two_minutes(destinations):
    now, pauses = 0.0, []
    for _ in range(10):
        destinations.failed("orders", now, "no answer")
        waited = now
        while destinations.is_blocked("orders", waited):
            waited += 0.5
        pauses.append(waited - now)
        now = waited
    assert pauses == [1, 2, 4, 8, 16, 32, 64, LONGEST_PAUSE_S, LONGEST_PAUSE_S, LONGEST_PAUSE_S]


def test_an_accepted_send_forgets_the_pauses(destinations):
    for _ in range(5):
        destinations.failed("orders", 0, "no answer")
    destinations.sent("orders")
    assert not destinations.is_blocked("orders", 0)
    assert destinations.reason("orders") == ""
    destinations.failed("orders", 0, "no answer")
    assert not destinations.is_blocked("orders", 1)


def test_a_busy_destination_is_left_alone_for_ten_seconds(destinations):
    destinations.failed("orders", 0, "server busy", busy=True)
    assert destinations.is_blocked("orders", BUSY_PAUSE_S - 0.1)
    assert not destinations.is_blocked("orders", BUSY_PAUSE_S)


def test_a_recovery_ends_the_pause(destinations, failed_over):
    for _ in range(8):
        destinations.failed("orders", 0, "no answer")
    failed_over.add("orders")
    assert destinations.is_blocked("orders", 1)
    failed_over.clear()
    assert not destinations.is_blocked("orders", 2)


def test_case_does_not_distinguish_entities(destinations):
    destinations.failed("Orders", 0, "no answer")
    assert destinations.is_blocked("orders", 0)
