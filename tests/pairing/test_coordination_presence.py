"""Who disputes a failover, and how many there are: what "failed over in 1 of N" is counted from; and which backlog
queues a fleet uses: what any process reports is no orphan (docs/specification.md, sections 11 and 12)."""

import json

import pytest

from pairing import SendAvailabilityOptions
from pairing.fleet.presence import Heard, Presence, Presences, ReportedStates, reported_states
from pairing.membership import Fleet
from pairing.pair import GuardedEntity, Pair
from pairing.testing import ManualClock
from tests.pace import eventually

ME = "host:1:aaaa"
QUEUES = ("contoso/x-servicebus-transfer/0", "contoso/x-servicebus-transfer/1")


@pytest.fixture
def presences(shared):
    return Presences(shared)


def test_a_failover_that_all_but_one_dispute_holds_in_one_of_them():
    lonely, other = Presence(sends=True), Presence(sends=True, disputed=("orders",))
    agreed = reported_states([lonely, other, other, Presence(sends=False)])
    assert (agreed.failed_over_in("orders"), agreed.processes) == (1, 3)
    assert agreed.failed_over_in("payments") == 3
    assert reported_states([Presence(sends=False)]) == ReportedStates(0, {})


def test_a_process_that_has_fallen_silent_is_not_counted_and_after_an_hour_forgotten(shared, presences):
    hash_ = "pairing:{contoso}:processes"
    dead = {"sends": True, "disputed": [], "rotation": [], "clock": 1, "heard": [], "gateway": None}
    shared.redis.hset(hash_, "host:0:dead", json.dumps({"at": 1000, "report": dead}))
    presences.report(ME, Presence(sends=True))
    assert shared.redis.hlen(hash_) == 2, "who reports looks at nobody else's: the costs would grow with the square"
    assert presences.living(within_s=-1) == {}
    assert list(presences.living()) == shared.redis.hkeys(hash_) == [ME]


def test_a_client_reports_whether_it_sends_what_it_disputes_and_its_queues_until_it_is_closed(
    shared, presences, redis_url
):
    pair = Pair(SendAvailabilityOptions(), "contoso", ME, ManualClock())
    pair.rotation.replace(QUEUES)
    fleet = Fleet(pair, redis_url)
    assert fleet.coordination.presence() == Presence(sends=False, rotation=QUEUES)
    GuardedEntity(pair, "orders")
    pair.availability("orders").disputed = True
    fleet.start()
    eventually(lambda: presences.living() == {ME: Presence(sends=True, disputed=("orders",), rotation=QUEUES)})
    eventually(lambda: fleet.answers)
    fleet.close()
    assert presences.living() == {}


def test_a_reader_learns_how_far_the_clock_of_a_process_is_ahead(presences, monkeypatch):
    now_s, _ = presences._redis.time()
    monkeypatch.setattr("pairing.fleet.presence.time.time", lambda: now_s + 90)
    presences.report(ME, Presence(sends=True))
    assert presences.living()[ME].ahead_s == pytest.approx(90, abs=2)


def test_a_process_reports_how_soon_a_forced_failover_reached_it(shared, presences, one):
    one.reads()
    forced = shared.fail_over("orders", "a drill", operator="ada", process="host:2:bbbb")
    one.hears(forced)
    one.reads()
    [heard] = presences.living()["one"].heard
    assert heard == Heard("orders", forced.version, pytest.approx(30, abs=30))
