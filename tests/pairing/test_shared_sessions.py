"""Barriers in Redis: what a send writes down before it is made, and when a barrier may be lifted
(docs/design/session-order.md)."""

import time

import pytest

from pairing.fleet.shared_state import SharedState
from pairing.sessions import shared as shared_sessions
from pairing.sessions.rulings import session_key
from pairing.sessions.shared import SharedSessions

KEY = session_key("Orders", "s")
Q0, Q1 = "contoso/x-servicebus-transfer/0", "contoso/x-servicebus-transfer/1"


@pytest.fixture
def sessions(redis_client, monkeypatch):
    monkeypatch.setattr(shared_sessions, "RAISING_S", 0.0)
    monkeypatch.setattr(shared_sessions, "_INTENT_MARGIN_S", 0.0)
    sessions = SharedSessions(SharedState(redis_client, "contoso"))
    sessions.sync("epoch", [])
    return sessions


def barred(sessions, token="a", queue=Q0, within_s=30.0):
    while not (ruling := sessions.enter(KEY, queue, token, within_s=within_s)).queue:
        assert ruling.wait_s < 1
    return ruling


def test_a_session_without_barrier_goes_where_it_likes(sessions):
    assert sessions.enter(KEY, None, "a", within_s=1).queue == ""
    assert sessions.sync("e", []).up == frozenset()


def test_a_redirected_session_has_one_queue_whoever_sends(sessions):
    assert barred(sessions, "a", Q0).is_new
    joined = sessions.enter(KEY, Q1, "b", within_s=1)
    assert (joined.queue, joined.is_new) == (Q0, False)
    assert sessions.enter(KEY, None, "c", within_s=1).queue == Q0
    assert sessions.sync("e", []).up == {"orders"}


def test_a_send_that_may_be_under_way_is_reported(sessions):
    barred(sessions, "host:1:x")
    assert sessions.enter(KEY, None, "host:2:y", within_s=1).others == "host:1:x"
    sessions.leave([(KEY, "host:1:x", True), (KEY, "host:2:y", True)])
    assert sessions.enter(KEY, None, "host:3:z", within_s=1).others == ""


def test_a_new_gate_lets_nobody_redirect_before_everybody_knows(redis_client):
    sessions = SharedSessions(SharedState(redis_client, "contoso"))
    ruling = sessions.enter(KEY, Q0, "a", within_s=1)
    assert ruling.queue == ""
    assert shared_sessions.FRESH_S < ruling.wait_s <= shared_sessions.RAISING_S
    assert sessions.sync("e", []).up == {"orders"}
    assert sessions.enter(KEY, None, "b", within_s=1).queue == ""


def test_a_barrier_is_lifted_once_nothing_is_under_way_and_nobody_sent_since(sessions):
    barred(sessions, "a")
    assert sessions.barred(Q0) == {KEY: 0}
    sessions.leave([(KEY, "a", True)])
    seen = sessions.barred(Q0)
    assert seen[KEY] > 0
    sessions.enter(KEY, None, "b", within_s=1)
    sessions.leave([(KEY, "b", True)])
    assert sessions.lift(Q0, seen) == 0
    assert sessions.lift(Q0, sessions.barred(Q0)) == 1
    assert sessions.enter(KEY, None, "c", within_s=1).queue == ""


def test_a_barrier_raised_anew_is_not_lifted_by_an_old_proof(sessions):
    barred(sessions, "a")
    sessions.leave([(KEY, "a", True)])
    old = sessions.barred(Q0)
    sessions.lift(Q0, old)
    barred(sessions, "b")
    sessions.leave([(KEY, "b", True)])
    assert sessions.lift(Q0, old) == 0


def test_the_send_of_a_dead_process_keeps_the_barrier_until_it_cannot_arrive_any_more(sessions):
    barred(sessions, "a", within_s=0.05)
    assert sessions.barred(Q0) == {KEY: 0}
    until = time.monotonic() + 60
    while sessions.barred(Q0)[KEY] == 0:
        assert time.monotonic() < until
    assert sessions.lift(Q0, sessions.barred(Q0)) == 1


def test_a_send_that_failed_for_sure_leaves_no_barrier_behind(sessions):
    barred(sessions, "a")
    sessions.leave([(KEY, "a", False)])
    assert sessions.enter(KEY, None, "b", within_s=1).queue == ""


def test_a_failed_send_behind_an_old_barrier_leaves_it_standing(sessions):
    barred(sessions, "a")
    sessions.enter(KEY, None, "b", within_s=1)
    sessions.leave([(KEY, "a", True), (KEY, "b", False)])
    assert sessions.enter(KEY, None, "c", within_s=1).queue == Q0


def test_only_a_barrier_that_nobody_else_is_behind_names_another_queue(sessions):
    barred(sessions, "a")
    assert sessions.move(KEY, "a", Q1, is_gone=False)
    assert sessions.enter(KEY, None, "b", within_s=1).queue == Q1
    assert not sessions.move(KEY, "a", Q0, is_gone=False)
    assert not sessions.move(KEY, "b", Q0, is_gone=False)
    assert sessions.move(KEY, "b", Q0, is_gone=True)
    assert sessions.barred(Q1) == {}
    assert list(sessions.barred(Q0)) == [KEY]


def test_a_gate_is_lowered_when_nobody_wants_it_and_no_session_is_barred(sessions, monkeypatch):
    barred(sessions, "a")
    monkeypatch.setattr(shared_sessions, "_LOWERED_AFTER_S", 0.001)
    assert sessions.sync("e", []).up == {"orders"}
    sessions.leave([(KEY, "a", True)])
    sessions.lift(Q0, sessions.barred(Q0))
    until = time.monotonic() + 60
    while sessions.sync("e", []).up:
        assert time.monotonic() < until


def test_a_redis_that_has_forgotten_says_so_and_is_informed_again(sessions, redis_client):
    first = sessions.sync("one", ["Orders"])
    assert (first.epoch, first.up) == ("epoch", {"orders"})
    redis_client.flushall()
    assert sessions.barred(Q0) is None
    assert sessions.sync("two", []).epoch == "two"
    sessions.bar(Q1, [KEY])
    sessions.bar(Q0, [KEY])
    assert sessions.enter(KEY, None, "a", within_s=1).queue == Q1
    assert sessions.sync("three", []).up == {"orders"}


def test_sends_wait_while_the_syphon_holds_their_session_back(sessions):
    barred(sessions, "a", Q0)
    sessions.hold(Q0, [KEY], for_s=30)
    held = sessions.enter(KEY, None, "b", within_s=90)
    assert (held.queue, held.others) == ("", "")
    assert 0 < held.wait_s < 1
    assert sessions.enter(KEY, Q1, "b", within_s=90).wait_s == held.wait_s
    sessions.hold(Q0, [KEY], for_s=0)
    assert sessions.enter(KEY, None, "b", within_s=90).queue == Q0


@pytest.mark.parametrize(
    ("token", "within_s"),
    [pytest.param("b", 50, id="one with little time"), pytest.param("a", 90, id="one that is under way")],
)
def test_some_sends_are_not_held_back(sessions, token, within_s):
    barred(sessions, "a", Q0)
    sessions.hold(Q0, [KEY], for_s=30)
    assert sessions.enter(KEY, None, token, within_s=within_s).queue == Q0


def test_a_session_without_barrier_is_not_held_back(sessions):
    sessions.hold(Q0, [KEY], for_s=30)
    ruling = sessions.enter(KEY, None, "a", within_s=90)
    assert (ruling.queue, ruling.wait_s) == ("", 0)
