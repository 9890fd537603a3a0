"""Where the syphon may send, and how fast (docs/specification.md, section 8)."""

from types import SimpleNamespace

import pytest

from pairing.drain import destinations as drain_destinations
from pairing.drain.destinations import BUSY_PAUSE_S, Connections, Destinations


@pytest.fixture
def failed_over():
    return set()


@pytest.fixture
def destinations(failed_over):
    return Destinations(
        failed_over.__contains__, Connections(lambda path: SimpleNamespace(sender=path)), first_pause_s=1.0
    )


def test_nothing_is_sent_to_what_is_failed_over(destinations, failed_over):
    assert not destinations.is_blocked("orders", 0)
    failed_over.add("orders")
    assert destinations.is_blocked("orders", 0)
    assert not destinations.is_blocked("payments", 0)


def test_nothing_is_sent_to_what_an_operator_keeps_back_until_he_lets_it_go(destinations):
    destinations.failed("orders", 0)
    destinations.keep_back(["Orders"])
    assert destinations.is_blocked("orders", 100)
    assert destinations.is_shut("orders")
    assert not destinations.is_blocked("payments", 100)
    destinations.keep_back([])
    assert not destinations.is_blocked("orders", 0.1)


@pytest.mark.parametrize(("is_final", "longest"), [(False, 3 * [30]), (True, [32, 64, 120])])
def test_the_pause_after_a_failure_doubles_up_to_half_a_minute_or_two_minutes(destinations, is_final, longest):
    now, pauses = 0.0, []
    for _ in range(8):
        destinations.failed("orders", now, is_final=is_final)
        waited = now
        while destinations.is_blocked("orders", waited):
            waited += 0.5
        pauses.append(waited - now)
        now = waited
    assert pauses == [1, 2, 4, 8, 16, *longest]


def test_an_accepted_send_forgets_the_pauses(destinations):
    for _ in range(5):
        destinations.failed("orders", 0)
    destinations.sent("orders")
    assert not destinations.is_blocked("orders", 0)
    destinations.failed("orders", 0)
    assert not destinations.is_blocked("orders", 1)


def test_a_busy_destination_is_left_alone_for_ten_seconds(destinations):
    destinations.failed("orders", 0, is_busy=True)
    assert destinations.is_blocked("orders", BUSY_PAUSE_S - 0.1)
    assert not destinations.is_blocked("orders", BUSY_PAUSE_S)


def test_a_recovery_ends_the_pause(destinations, failed_over):
    for _ in range(8):
        destinations.failed("orders", 0)
    failed_over.add("orders")
    assert destinations.is_blocked("orders", 1)
    failed_over.clear()
    assert not destinations.is_blocked("orders", 2)


def test_case_does_not_distinguish_entities(destinations):
    destinations.failed("Orders", 0)
    assert destinations.is_blocked("orders", 0)


@pytest.fixture
def connections(monkeypatch):
    monkeypatch.setattr(drain_destinations, "PLACES", 3)
    return Connections(lambda path: SimpleNamespace(sender=path, path=path))


def test_links_are_bounded_and_an_idle_one_makes_room(connections):
    assert [connections.take(path, 3) for path in "abcd"] == [True, True, True, False]
    for at, path in enumerate("bca"):
        connections.give_back(path, at)
    assert connections.take("d", 3)
    assert [link.path for link in connections.idle(3)] == ["b"]
    assert sorted(link.path for link in connections.all()) == ["a", "c", "d"]


def test_links_are_closed_when_idle(connections):
    connections.take("a", 3)
    connections.take("b", 3)
    connections.give_back("a", 1.0)
    assert connections.idle(60.9) == []
    assert [link.path for link in connections.idle(61.0)] == ["a"]
    assert [link.path for link in connections.all()] == ["b"]


def test_one_send_opens_a_link_and_those_that_failed_last_time_get_half_of_the_places(destinations):
    link = SimpleNamespace(sender=None)
    destinations.connections = Connections(lambda path: link)
    assert [destinations.take("orders") for _ in range(2)] == [True, False]
    link.sender = object()
    assert destinations.take("orders")
    for number in range(drain_destinations.PLACES // 2):
        assert destinations.take(f"other-{number}")
    destinations.failed("payments", 0)
    assert not destinations.take("payments")
    assert destinations.take("invoices")
