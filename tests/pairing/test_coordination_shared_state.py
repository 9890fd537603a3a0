"""The rules of precedence, claims and leases that processes share through Redis (docs/specification.md, section 11)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import redis

from pairing.events import Event
from pairing.fleet.coordination import EVENTS, USAGE, SharedHealth, SharedState
from pairing.telemetry.metering import UsageRecord

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def saw(state: str, *, by: str = "p1", after_s: float = 0, knew: int = 0, **fields) -> SharedHealth:
    """What a process saw of ``orders``, some seconds after noon."""
    since = NOON + timedelta(seconds=after_s)
    return (
        SharedHealth("orders", state, since, f"{state} at {by}", None, None, "organic", knew, by)
        if not fields
        else (replace(saw(state, by=by, after_s=after_s, knew=knew), **fields))
    )


def force(shared: SharedState, **arguments) -> SharedHealth:
    return shared.fail_over("orders", "drill", operator="ada", process="web", **arguments)


def test_a_change_is_stored_announced_and_given_a_version(shared, redis_client):
    pubsub = redis_client.pubsub(ignore_subscribe_messages=True)
    pubsub.subscribe("pairing:{contoso}:health")
    while pubsub.get_message(timeout=1):
        pass
    _, stored = shared.publish(saw("failed_over"))
    assert stored == replace(saw("failed_over"), version=stored.version)
    assert shared.health() == {"orders": stored}
    assert SharedHealth.from_json(pubsub.get_message(timeout=60)["data"]) == stored
    pubsub.close()


class CutOff(redis.Connection):
    """Loses its connection in the middle of a transaction that it sends."""

    def send_packed_command(self, command, check_health=True):
        sent = b"".join([command] if isinstance(command, bytes) else command)
        if b"MULTI" not in sent:
            return super().send_packed_command(command, check_health)
        super().send_packed_command([sent[: sent.rindex(b"EXEC") - 10]], check_health)
        self.disconnect()
        raise redis.ConnectionError("cut off")


def test_of_a_change_of_several_that_is_cut_off_nothing_is_done_and_nothing_reported(shared, redis_client, redis_url):
    paths = [f"orders/{n}" for n in range(100)]
    reported = {
        path: Event("e" * 31 + path[-1], NOON, "contoso", path, "forced", "drill", "p1", "ada") for path in paths
    }
    several = {"operator": "ada", "process": "p1", "events": reported}
    torn = redis.Redis(connection_pool=redis.ConnectionPool.from_url(redis_url, connection_class=CutOff))
    with pytest.raises(redis.ConnectionError):
        SharedState(torn, "contoso").of_several("fail_over", paths, **several)
    assert (shared.health(), redis_client.xlen(EVENTS)) == ({}, 0)
    torn.close()

    assert [each.state for each in shared.of_several("fail_over", paths, **several)] == ["failed_over"] * 100
    assert (len(shared.health()), redis_client.xlen(EVENTS)) == (100, 100)


RULES = [  # what stands, what comes, what is true then; what is refused is in test_precedence
    ("a send's success clears failing", [saw("failing")], saw("healthy", by="p2"), "healthy"),
    ("its own ping brings it back", [saw("failed_over")], saw("healthy", after_s=60), "healthy"),
    ("a later recovery by another counts", [saw("failed_over")], saw("healthy", by="p2", after_s=60), "healthy"),
    (
        "a later failover undoes a recovery",
        [saw("failed_over", after_s=-9), saw("healthy")],
        saw("failed_over", by="p2", after_s=5),
        "failed_over",
    ),
    (
        "another's failing does not stand in the way",
        [saw("failing", after_s=9)],
        saw("failed_over", by="p2"),
        "failed_over",
    ),
]


@pytest.mark.parametrize(
    ("before", "change", "expected"), [rule[1:] for rule in RULES], ids=[rule[0] for rule in RULES]
)
def test_of_two_words_the_one_of_higher_rank_stands(shared, before, change, expected):
    for word in before:
        assert shared.publish(word)[0]
    applied, now = shared.publish(change)
    assert expected in (now.state, now.process)
    assert shared.health()["orders"] == now
    assert applied == (now.process == change.process and now.since == change.since)


def test_a_hold_lasts_until_the_end_that_was_given_last(shared):
    soon, later = (datetime.now(UTC) + timedelta(minutes=minutes) for minutes in (15, 240))
    forced = force(shared, expires=soon)
    held = shared.hold("orders", operator="ada", process="web", expires=later)
    assert (held.expires, held.version > forced.version) == (later, True)
    assert shared.hold("orders", operator="ada", process="web", expires=later) == held
    assert shared.hold("orders", operator="ada", process="web").expires is None


def test_what_an_operator_does_twice_is_done_once(shared):
    shared.publish(saw("failed_over"))
    first = shared.hold("orders", operator="ada", process="web")
    assert shared.hold("orders", operator="ada", process="web") == first
    healthy = shared.mark_healthy("orders", operator="ada", process="web")
    assert shared.mark_healthy("orders", operator="ada", process="web") == healthy
    assert shared.release("orders", operator="ada", process="web") == healthy


def test_a_reader_gets_only_what_changed_since_it_looked(shared):
    for number in range(20):
        shared.publish(saw("failed_over", path=f"orders/{number}"))
    first = shared.news(None)
    assert (len(first.texts), first.is_everything) == (20, True)
    assert shared.news(first.seen).texts == {}
    force(shared)
    second = shared.news(first.seen)
    assert (set(second.texts), second.is_everything) == ({"orders"}, False)
    assert shared.news(second.seen).texts == {}


def test_a_reader_gets_everything_from_a_redis_that_has_forgotten(shared, redis_client):
    force(shared)
    known = shared.news(None).seen
    redis_client.flushall()
    assert shared.news(known).is_everything
    shared.publish(saw("failed_over", path="payments"))
    after = shared.news(known)
    assert (set(after.texts), after.is_everything) == ({"payments"}, True)


def test_what_is_restored_under_an_old_version_is_news_to_those_who_have_seen_newer_ones(shared, redis_client):
    _, old = shared.publish(saw("failed_over", path="payments"))
    redis_client.flushall()
    force(shared)
    known = shared.news(None).seen
    shared.restore(old)
    assert set(shared.news(known).texts) == {"payments"}


def test_of_a_fleet_one_process_pings_once_per_interval(shared):
    assert [shared.claim_ping("orders", 60) for _ in range(50)] == [True] + [False] * 49
    assert shared.claim_ping("payments", 60)


def test_a_ping_is_due_again_after_its_interval(shared, redis_client):
    assert shared.claim_ping("orders", 60)
    due = int(redis_client.hget("pairing:{contoso}:ping-due", "orders"))
    redis_client.hset("pairing:{contoso}:ping-due", "orders", due - 60_001)
    assert shared.claim_ping("orders", 60)
    assert not shared.claim_ping("orders", 60)


def test_applications_leave_a_due_ping_to_the_workers_for_a_while(shared, redis_client):
    assert not shared.claim_ping("orders", 60, grace_s=5)
    assert shared.claim_ping("orders", 60)
    due = int(redis_client.hget("pairing:{contoso}:ping-due", "orders"))
    redis_client.hset("pairing:{contoso}:ping-due", "orders", due - 65_001)
    assert shared.claim_ping("orders", 60, grace_s=5)


def test_a_released_entity_can_be_pinged_at_once(shared):
    force(shared)
    assert shared.claim_ping("orders", 60)
    shared.release("orders", operator="ada", process="web")
    assert shared.claim_ping("orders", 60)


def test_pings_are_counted_from_the_failover_on(shared):
    for _ in range(2):
        shared.publish(saw("failed_over", after_s=10**9))
        for accepted in (False, True):
            shared.record_ping("orders", accepted=accepted, reason="r", next_due=NOON)
        assert [(ping.count, ping.accepted, ping.next_due) for ping in shared.pings().values()] == [(2, True, NOON)]
        shared.publish(saw("healthy", after_s=10**9))


def test_a_pace_stands_until_it_is_lifted(shared):
    shared.pace_syphon("orders", 50, "ada", "receivers cannot keep up")
    shared.pace_syphon(None, 200.5, operator="grace", reason="night shift")
    paces = shared.paces()
    assert [(target, pace.rate, pace.by, pace.reason) for target, pace in sorted(paces.items())] == [
        ("*", 200.5, "grace", "night shift"),
        ("orders", 50, "ada", "receivers cannot keep up"),
    ]
    shared.pace_syphon(None, None, operator="grace", reason="morning")
    assert list(shared.paces()) == ["orders"]


def test_a_lease_has_one_owner_and_a_token_that_only_rises(shared, redis_client):
    first = shared.acquire_lease("queue-0", "a", 60)
    assert shared.acquire_lease("queue-0", "b", 60) is None
    assert shared.acquire_lease("queue-0", "a", 60) == first
    assert shared.leases() == {"queue-0": "a"}
    assert shared.renew_lease("queue-0", "a", 60)
    assert not shared.renew_lease("queue-0", "b", 60)
    assert not shared.release_lease("queue-0", "b")
    assert shared.release_lease("queue-0", "a")
    assert shared.leases() == {}
    second = shared.acquire_lease("queue-0", "b", 60)
    while datetime.now(UTC).timestamp() * 1000 < second:
        pass  # tokens of one millisecond are ahead of the clock; no Redis loses its data and is back within one
    redis_client.flushall()
    assert not shared.renew_lease("queue-0", "b", 60)
    assert first < second <= shared.acquire_lease("queue-0", "c", 60)


def test_a_lease_ends_by_itself(shared, redis_client):
    shared.acquire_lease("queue-0", "a", 0.001)
    while redis_client.exists("pairing:{contoso}:lease:queue-0"):
        pass
    assert shared.acquire_lease("queue-0", "b", 60)


def test_events_and_usage_go_into_the_streams_of_all_pairs(shared, redis_client):
    event = Event("e" * 32, NOON, "contoso", "orders", "failed_over", "r", "p1")
    record = UsageRecord("id", NOON, "contoso", "contoso", "contoso", "orders", "send", "p1", 1, 2, 3, 4, 5)
    shared.report(event)
    shared.record_usage([record, record])
    assert [Event.from_json(fields["event"]) for _, fields in redis_client.xrange(EVENTS)] == [event]
    assert [UsageRecord.from_json(fields["record"]) for _, fields in redis_client.xrange(USAGE)] == [record, record]


def test_pairs_know_nothing_of_each_other(shared, redis_client):
    force(shared)
    other = SharedState(redis_client, "fabrikam")
    assert other.health() == {}
    assert other.claim_ping("orders", 60)
    assert shared.claim_ping("orders", 60)


def test_a_hold_that_has_ended_leaves_the_failover_an_operators(shared):
    held = shared.fail_over("orders", "drill", operator="ann", process="web", expires=NOON)
    _, over = shared.publish(replace(held, held_by=None, expires=None, origin="organic", process="one"))
    assert (over.held_by, over.origin) == (None, "forced")


def test_what_one_who_knows_nothing_says_comes_after_what_stood(shared):
    """So whoever missed the recovery between a failover and `failing` knows that there was one."""
    healthy = shared.mark_healthy("orders", operator="ann", process="web")
    assert healthy.version < shared.fail_over("orders", "drill", operator="ann", process="web").version
    healthy = shared.mark_healthy("orders", operator="ann", process="web")
    assert shared.publish(saw("failing", by="one"))[1].knew == healthy.version
    assert shared.publish(saw("failing", by="two"))[1].knew == healthy.version
