"""Which queues a process may serve: leases, pauses, and Redis away (docs/design/leases-and-fencing.md)."""

from types import SimpleNamespace

import pytest
import redis

from pairing.drain.shared.lease_holder import LEASE_S, LeaseHolder
from pairing.drain.shared.pacing import Pacing
from pairing.fleet.coordination import SharedState

QUEUES = ("q0", "q1")


class Fleet:
    """Processes that share one Redis and one clock that is turned by hand."""

    def __init__(self, client) -> None:
        self.shared = SharedState(client, "contoso")
        self.now = 100.0
        self.reported = []

    def join(self, name: str, queues=QUEUES, pacing=None) -> LeaseHolder:
        def tell(queue, is_paused, reason):
            self.reported.append((name, queue, is_paused, reason))

        return LeaseHolder(SimpleNamespace(shared=self.shared), name, lambda: queues, tell, lambda: self.now, pacing)


@pytest.fixture
def fleet(redis_client):
    return Fleet(redis_client)


def serve(holder: LeaseHolder) -> list[str]:
    holder.look()
    begun = holder.vacant()
    for queue in begun:
        holder.begin(queue)
    return begun


@pytest.fixture
def held(fleet):
    """A process that serves a queue, and under which token."""
    one = fleet.join("one", ["q0"])
    one.look()
    return one, one.begin("q0")


def away(*arguments):
    raise redis.ConnectionError


def test_without_coordination_every_queue_may_be_served():
    found = []
    holder = LeaseHolder(None, "a", lambda: found, lambda *reported: None)
    assert serve(holder) == []
    found += QUEUES
    assert serve(holder) == list(QUEUES)
    assert serve(holder) == []
    holder.end("q1")
    assert serve(holder) == ["q1"]


def test_a_process_that_was_frozen_may_do_nothing_before_it_has_looked(fleet):
    one = fleet.join("one")
    serve(one)
    fleet.now += LEASE_S
    assert not one.may_serve("q0")
    one.look()
    assert one.may_serve("q0")


def test_who_leaves_keeps_the_lease_of_what_it_is_still_at_work_on_and_takes_no_other(fleet):
    one, two = fleet.join("one"), fleet.join("two")
    serve(one)
    token = one.begin("q0")
    one.end("q1", leaving=True)
    for _ in range(4):
        fleet.now += LEASE_S / 2
        one.look(leaving=True)
    assert one.holds("q0", token)
    assert serve(two) == ["q1"]
    one.end("q0", leaving=True)
    assert not one.holds("q0", token)
    assert serve(two) == ["q0"]


def test_a_pace_is_shared_among_the_processes_by_the_queues_they_serve(fleet):
    pacing = Pacing()
    one = fleet.join("one", ["q0"], pacing)
    others = fleet.join("others", ["q1", "q2", "q3"])
    fleet.shared.pace_syphon("orders", 80, "ada", "receivers cannot keep up")
    fleet.shared.pace_syphon("q0", 60, "ada", "")
    for process in (one, others, one):
        process.look()
    assert pacing.allowance("orders", "q9", 1000, 0).count == 20
    assert pacing.allowance("payments", "q0", 1000, 0).count == 60
    fleet.shared.pace_syphon("orders", None, "ada", "")
    one.look()
    assert pacing.allowance("orders", "q9", 1000, 0).count == 1000


def test_a_pause_stops_a_queue_and_gives_its_lease_up_once_nobody_serves_it(fleet):
    one = fleet.join("one")
    serve(one)
    fleet.shared.pause_syphon("q0", operator="ada", reason="looks odd")
    one.look()
    assert (one.may_serve("q0"), one.may_serve("q1")) == (False, True)
    one.end("q0")
    one.look()
    assert list(fleet.shared.leases()) == ["q1"]
    fleet.shared.resume_syphon("q0")
    assert serve(one) == ["q0"]
    assert fleet.reported == [("one", "q0", True, "looks odd (ada)"), ("one", "q0", False, "resumed")]


def test_a_lease_taken_by_a_call_whose_answer_was_lost_runs_out_while_the_queue_is_paused(fleet, monkeypatch):
    one, acquire, lease = fleet.join("one", ["q0"]), fleet.shared.acquire_lease, "pairing:{contoso}:lease:q0"

    def unheard(*arguments):
        acquire(*arguments)
        raise redis.ConnectionError

    with monkeypatch.context() as patch:
        patch.setattr(fleet.shared, "acquire_lease", unheard)
        one.look()
    fleet.shared.redis.pexpire(lease, 60_000)
    fleet.shared.pause_syphon("q0", operator="ada", reason="looks odd")
    for _ in range(3):
        left_ms = fleet.shared.redis.pttl(lease)
        fleet.now += LEASE_S / 2
        one.look()
        assert one.vacant() == []
        assert fleet.shared.redis.pttl(lease) <= left_ms, "nobody renews what nobody knows of"
    fleet.shared.resume_syphon("q0")
    assert serve(one) == ["q0"]


def test_a_pause_is_reported_by_the_process_whose_queue_it_was_and_by_no_other(fleet):
    one, two = fleet.join("one", ["q0"]), fleet.join("two", ["q0"])
    assert (serve(one), serve(two)) == (["q0"], [])
    fleet.shared.pause_syphon("q0", operator="ada", reason="looks odd")
    for process in (one, two):
        process.end("q0")
        process.look()
    fleet.shared.resume_syphon("q0")
    for process in (two, one):
        process.look()
    assert fleet.reported == [("one", "q0", True, "looks odd (ada)"), ("one", "q0", False, "resumed")]


def test_a_pause_of_the_pair_stops_every_queue(fleet):
    one = fleet.join("one")
    fleet.shared.pause_syphon(None, operator="ada", reason="maintenance")
    assert serve(one) == []
    fleet.shared.resume_syphon(None)
    assert serve(one) == list(QUEUES)


def test_with_redis_away_who_served_goes_on_and_others_begin_later(fleet, monkeypatch):
    one, two = fleet.join("one"), fleet.join("two")
    serve(one)
    token = one.begin("q0")
    with monkeypatch.context() as patch:
        patch.setattr(fleet.shared, "paused", away)
        for _ in range(20):
            fleet.now += LEASE_S / 2
            one.look()
        assert one.may_serve("q0")
        assert one.holds("q0", token)
        assert serve(two) == []
        for _ in range(3):
            fleet.now += LEASE_S / 2
            assert serve(two) == []
        fleet.now += LEASE_S / 2
        assert serve(two) == list(QUEUES)
    two.look()  # Redis is back, and the leases are another's
    assert not two.may_serve("q0")
    one.look()
    assert one.may_serve("q0")


def test_a_process_that_was_frozen_holds_nothing_even_if_redis_does_not_answer_when_it_wakes(fleet, held, monkeypatch):
    one, token = held
    assert one.holds("q0", token)
    monkeypatch.setattr(fleet.shared, "paused", away)
    fleet.now += LEASE_S
    assert not one.holds("q0", token)
    one.look()
    assert not one.holds("q0", token)
    assert not one.may_serve("q0", token)


def test_a_process_frozen_while_it_asked_redis_holds_nothing_when_it_wakes(fleet, held, monkeypatch):
    """Its look ends with a broken connection, which is not to be taken for a Redis that is away."""
    one, token = held
    fleet.now += LEASE_S / 4

    def frozen(*arguments):
        fleet.now += LEASE_S * 0.8
        raise redis.TimeoutError

    monkeypatch.setattr(fleet.shared, "paused", frozen)
    one.look()
    assert not one.holds("q0", token)
    assert not one.may_serve("q0", token)


def test_a_process_frozen_while_redis_is_away_begins_no_sooner_than_others_would(fleet, held, monkeypatch):
    one, token = held
    monkeypatch.setattr(fleet.shared, "paused", away)
    fleet.now += LEASE_S / 4
    one.look()
    assert one.may_serve("q0", token)
    fleet.now += 3 * LEASE_S
    assert not one.may_serve("q0", token)
    one.look()
    assert not one.may_serve("q0", token)
