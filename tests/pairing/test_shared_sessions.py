"""Barriers in Redis: what a send writes down before it is made, and when a barrier may be lifted
(docs/design/session-order.md)."""

import pytest

from pairing.sessions.rulings import session_key
from pairing.sessions.shared import RAISING_S, SharedSessions
from tests.pairing.model_redis import Clock

KEY = session_key("Orders", "s")
Q0, Q1 = "contoso/x-servicebus-transfer/0", "contoso/x-servicebus-transfer/1"


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def sessions(shared, clock):
    sessions = clock.clocked(SharedSessions(shared), shared.redis)
    sessions.sync("epoch", [])
    return sessions


@pytest.fixture
def barred(sessions, clock):
    """Raises a barrier by a send, once the gate has been up for long enough."""

    def bar(token="a", queue=Q0, within_s=30.0):
        if not (ruling := sessions.enter(KEY, queue, token, within_s=within_s)).queue:
            clock.advance(ruling.wait_s)
            ruling = sessions.enter(KEY, queue, token, within_s=within_s)
        assert ruling.queue == queue
        return ruling

    return bar


def enters(sessions, token, candidate=None, within_s=1.0):
    return sessions.enter(KEY, candidate, token, within_s=within_s)


def test_a_session_without_barrier_goes_where_it_likes(sessions):
    sessions.hold(Q0, [KEY], for_s=30)
    ruling = enters(sessions, "a", within_s=90)
    assert (ruling.queue, ruling.wait_s) == ("", 0)
    assert sessions.sync("e", []).up == frozenset()


def test_a_redirected_session_has_one_queue_whoever_sends(sessions, barred):
    assert barred("a", Q0).is_new
    joined = enters(sessions, "b", Q1)
    assert (joined.queue, joined.is_new) == (Q0, False)
    assert enters(sessions, "c").queue == Q0
    assert sessions.sync("e", []).up == {"orders"}


def test_a_send_that_may_be_under_way_is_reported(sessions, barred):
    barred("host:1:x")
    assert enters(sessions, "host:2:y").others == "host:1:x"
    sessions.leave([(KEY, "host:1:x", True), (KEY, "host:2:y", True)])
    assert enters(sessions, "host:3:z").others == ""


def test_a_new_gate_lets_nobody_redirect_before_everybody_knows(sessions, clock):
    ruling = enters(sessions, "a", Q0)
    assert (ruling.queue, ruling.wait_s) == ("", RAISING_S)
    assert sessions.sync("e", []).up == {"orders"}
    assert enters(sessions, "b").queue == ""
    clock.advance(RAISING_S - 0.01)
    assert enters(sessions, "a", Q0).queue == ""
    clock.advance(0.01)
    assert enters(sessions, "a", Q0).queue == Q0


def test_a_barrier_is_lifted_once_nothing_is_under_way_and_nobody_sent_since(sessions, barred):
    barred("a")
    assert sessions.barred(Q0) == {KEY: 0}
    sessions.leave([(KEY, "a", True)])
    seen = sessions.barred(Q0)
    assert seen[KEY] > 0
    enters(sessions, "b")
    sessions.leave([(KEY, "b", True)])
    assert sessions.lift(Q0, seen) == 0
    assert sessions.lift(Q0, sessions.barred(Q0)) == 1
    assert enters(sessions, "c").queue == ""


def test_a_barrier_raised_anew_is_not_lifted_by_an_old_proof(sessions, barred):
    barred("a")
    sessions.leave([(KEY, "a", True)])
    old = sessions.barred(Q0)
    sessions.lift(Q0, old)
    barred("b")
    sessions.leave([(KEY, "b", True)])
    assert sessions.lift(Q0, old) == 0


def test_the_send_of_a_dead_process_keeps_the_barrier_until_it_cannot_arrive_any_more(sessions, barred, clock):
    barred("a", within_s=10)
    clock.advance(10 + 29)
    assert sessions.barred(Q0) == {KEY: 0}
    clock.advance(1.1)
    assert sessions.lift(Q0, sessions.barred(Q0)) == 1


def test_a_send_that_failed_for_sure_leaves_no_barrier_behind_but_an_old_one_standing(sessions, barred):
    barred("a")
    sessions.leave([(KEY, "a", False)])
    assert enters(sessions, "b").queue == ""
    barred("a")
    enters(sessions, "b")
    sessions.leave([(KEY, "a", True), (KEY, "b", False)])
    assert enters(sessions, "c").queue == Q0


def test_only_a_barrier_that_nobody_else_is_behind_names_another_queue(sessions, barred):
    barred("a")
    assert sessions.move(KEY, "a", Q1, is_gone=False)
    assert enters(sessions, "b").queue == Q1
    assert not sessions.move(KEY, "a", Q0, is_gone=False)
    assert not sessions.move(KEY, "b", Q0, is_gone=False)
    assert sessions.move(KEY, "b", Q0, is_gone=True)
    assert sessions.barred(Q1) == {}
    assert list(sessions.barred(Q0)) == [KEY]


def test_a_gate_is_lowered_when_nobody_wants_it_and_no_session_is_barred(sessions, barred, clock):
    barred("a")
    clock.advance(60)
    assert sessions.sync("e", []).up == {"orders"}
    sessions.leave([(KEY, "a", True)])
    sessions.lift(Q0, sessions.barred(Q0))
    assert sessions.sync("e", []).up == {"orders"}
    clock.advance(10.1)
    assert sessions.sync("e", []).up == frozenset()


def test_a_redis_that_has_forgotten_says_so_and_is_informed_again(sessions, shared):
    first = sessions.sync("one", ["Orders"])
    assert (first.epoch, first.up) == ("epoch", {"orders"})
    shared.redis.flushall()
    assert sessions.barred(Q0) is None
    assert sessions.sync("two", []).epoch == "two"
    sessions.bar(Q1, [KEY])
    sessions.bar(Q0, [KEY])
    assert enters(sessions, "a").queue == Q1
    assert sessions.sync("three", []).up == {"orders"}


def test_sends_wait_while_the_syphon_holds_their_session_back(sessions, barred):
    barred("a", Q0)
    sessions.hold(Q0, [KEY], for_s=30)
    for candidate in (None, Q1):
        held = enters(sessions, "b", candidate, within_s=90)
        assert (held.queue, held.others, held.wait_s) == ("", "", 0.1)
    assert enters(sessions, "b", within_s=50).queue == Q0, "it has little time"
    assert enters(sessions, "a", within_s=90).queue == Q0, "it is under way"
    sessions.hold(Q0, [KEY], for_s=0)
    assert enters(sessions, "b", within_s=90).queue == Q0
