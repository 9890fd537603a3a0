"""The ledger of a queue in Redis outlives processes, and a replaced process does not overwrite it
(docs/design/leases-and-fencing.md)."""

from types import SimpleNamespace

import pytest
import redis

from pairing.drain.ledger import Ledger
from pairing.drain.shared.dead_letter_results import SharedDecisions
from pairing.drain.shared.stored_ledger import StoredLedger
from pairing.fleet.coordination import SharedState


def ledger_of(
    shared, token, *, created_at="today", process="host:1:a", is_connected=True, holds=lambda: True
) -> StoredLedger:
    coordination = SimpleNamespace(shared=shared, is_connected=is_connected)
    return StoredLedger(coordination, process, "queue-0", created_at, token, holds)


def restored(*numbers: int) -> Ledger:
    ledger = Ledger("queue-0", "today")
    for number in numbers:
        ledger.close(number, "restored")
    return ledger


def test_what_was_done_while_redis_was_away_is_left_to_the_process_that_has_the_lease_now(shared, redis_client):
    one = ledger_of(shared, shared.acquire_lease("queue-0", "one", 60))
    assert one.keep(restored(1)) == "stored"
    shared.release_lease("queue-0", "one")  # in Redis it has expired
    two = ledger_of(shared, shared.acquire_lease("queue-0", "two", 60))
    ledger = two.read()
    for number in (4, 5):
        ledger.close(number, "restored")
    assert one.keep(restored(1, 2, 3)) == "refused"
    assert two.keep(ledger) == "stored"
    assert (two.read().count("restored"), two.read().balance(still_there=0).missing) == (5, 0)
    assert not redis_client.keys("*left-ledgers*")


def test_a_ledger_that_another_process_left_after_the_last_look_is_not_removed(shared, redis_client):
    two = ledger_of(shared, shared.acquire_lease("queue-0", "two", 60))
    assert two.keep(restored(4)) == "stored"
    assert ledger_of(shared, 0).keep(restored(1, 2, 3)) == "refused"
    assert two.keep(restored(4)) == "stored"  # less than five seconds later
    assert two.read().count("restored") == 1
    assert redis_client.llen("pairing:{contoso}:left-ledgers:queue-0") == 1


def test_a_ledger_of_a_deleted_queue_is_not_merged_into_that_of_its_namesake(shared):
    late = restored(7, 8)
    late.created_at = "yesterday"
    token = shared.acquire_lease("queue-0", "two", 60)
    assert ledger_of(shared, 0, created_at="yesterday").keep(late) == "refused"
    two = ledger_of(shared, token)
    assert two.keep(restored(1)) == "stored"
    assert two.read().count("restored") == 1


@pytest.mark.parametrize(("then", "now", "expected"), [("today", "", 2), ("", "today", 2), ("today", "later", 0)])
def test_ledgers_are_given_up_only_for_a_queue_known_to_be_another(shared, then, now, expected):
    ledger = restored(1, 2)
    ledger.created_at = then
    token = shared.acquire_lease("queue-0", "one", 60)
    ledger_of(shared, token, created_at=then).keep(ledger)
    found = ledger_of(shared, token, created_at=now).read()
    assert found.count("restored") == expected
    assert found.created_at == (now or then)


def test_ledgers_that_could_not_be_read_at_the_start_are_added_to_and_not_written_over(shared):
    token = shared.acquire_lease("queue-0", "one", 60)
    ledger_of(shared, token).keep(restored(1, 2))
    late = ledger_of(shared, token)
    assert late.keep(restored(3)) == "stored"  # it never read: Redis was away
    assert ledger_of(shared, token).read().count("restored") == 3


@pytest.mark.parametrize("holds", [True, False])
def test_while_redis_is_away_the_process_decides_by_what_it_knows_of_its_lease(shared, holds):
    away = ledger_of(shared, 1, is_connected=False, holds=lambda: holds)
    assert away.keep(restored(1)) == ("in memory" if holds else "refused")
    assert shared.ledgers() == {}


def dead_lettered(*numbers: int) -> Ledger:
    ledger = restored(1)
    for number in numbers:
        ledger.close(number, "dead_lettered")
    return ledger


def test_what_a_drain_did_that_ended_while_redis_was_away_is_left_once_redis_answers(server):
    shared = SharedState(redis.Redis.from_url(server.url, decode_responses=True), "contoso")
    ended = ledger_of(shared, shared.acquire_lease("queue-0", "one", 60))
    server.kill()
    assert ended.keep(restored(1, 2)) == "in memory"
    assert not ended.leave()
    server.start()
    assert ended.leave()
    next_ = ledger_of(shared, shared.acquire_lease("queue-0", "two", 60))
    assert next_.keep(restored(3)) == "stored"
    assert next_.read().balance(still_there=0) == restored(1, 2, 3).balance(still_there=0)


def test_a_ledger_that_was_stored_in_the_end_is_not_left(server):
    client = redis.Redis.from_url(server.url, decode_responses=True, socket_timeout=0.2)
    shared = SharedState(client, "contoso")
    stored = ledger_of(shared, shared.acquire_lease("queue-0", "one", 60))
    server.freeze()
    assert stored.keep(restored(1, 2)) == "in memory"
    assert stored.unstored is not None
    server.thaw()
    client.connection_pool.connection_kwargs["socket_timeout"] = 10.0
    client.connection_pool.disconnect()
    assert stored.keep(restored(1, 2)) == "stored"
    assert stored.unstored is None
    assert stored.leave()
    assert not shared.redis.keys("*left-ledgers*")


def test_what_operators_made_of_dead_letters_is_entered_once_and_then_let_go(shared):
    decisions = SharedDecisions(shared, "queue-0")
    decisions.report("discarded", [2, 3])
    decisions.report("restored", [5, 99])  # the last was never dead-lettered here
    ledger = dead_lettered(2, 3, 4, 5)
    stored = ledger_of(shared, shared.acquire_lease("queue-0", "one", 60))
    assert stored.keep(ledger) == "stored"
    fates = {"restored": 2, "dead_lettered": 1, "expired": 0, "discarded": 2, "set_aside": 0}
    balance = stored.read().balance(still_there=0)
    assert (balance.fates, balance.missing) == (fates, 0)
    assert decisions.apply(Ledger("queue-0")) == 0


def test_who_was_replaced_lets_go_of_no_decision(shared):
    SharedDecisions(shared, "queue-0").report("discarded", [2])
    late = ledger_of(shared, shared.acquire_lease("queue-0", "one", 60))
    shared.release_lease("queue-0", "one")
    next_ = ledger_of(shared, shared.acquire_lease("queue-0", "two", 60))
    assert late.keep(dead_lettered(2)) == "refused"
    assert next_.keep(dead_lettered(2)) == "stored"
    assert next_.read().count("discarded") == 1


def test_a_process_that_served_the_queue_before_learns_of_the_decision_from_the_ledgers(shared):
    before, kept = dead_lettered(2, 3), dead_lettered(2, 3)
    kept.amend(2, "discarded")
    before.absorb(Ledger.from_json(kept.to_json()))
    assert (before.count("discarded"), before.count("dead_lettered"), before.count("restored")) == (1, 1, 1)
