"""What a process makes of a Redis that has forgotten, and of news that it has missed (docs/specification.md,
section 11; docs/design/coordination.md)."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
import redis

from pairing.fleet.coordination import SharedHealth, SharedState
from pairing.fleet.known_health import has_forgotten

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def health(state: str, version: int = 7, process: str = "other") -> SharedHealth:
    return SharedHealth("orders", state, NOON, "r", None, None, "organic", version, process)


@pytest.mark.parametrize(
    ("stands", "known", "expected"),
    [
        (None, health("healthy"), True),
        (None, health("failed_over"), True),
        (health("healthy", 6), health("failed_over"), True),
        (health("failed_over", 6), health("healthy"), True),
        (health("failed_over", 7), health("failed_over"), False),
        (health("healthy", 8), health("failed_over"), False),
        (health("failing", 8), health("failed_over"), True),
        (health("failing", 7), health("failed_over"), True),
        (health("failing", 6), health("healthy"), True),
        (health("failing", 8), health("healthy"), False),
        (health("failing", 7), health("healthy"), False),
        (health("failed_over", 8), health("healthy"), False),
    ],
)
def test_redis_has_forgotten_where_it_says_less_than_was_known(stands, known, expected):
    assert has_forgotten(None if stands is None else stands.to_json(), known) is expected


def test_failing_is_no_sign_of_loss_in_a_redis_that_was_not_emptied():
    """Its author may not know of the failover because it has ended."""
    assert not has_forgotten(health("failing", 8).to_json(), health("failed_over"), was_emptied=False)


def force(shared: SharedState) -> SharedHealth:
    return shared.fail_over("orders", "drill", operator="ada", process="web")


def test_a_failover_that_redis_has_forgotten_is_reported_again_though_failing_is_heard_first(one, shared, redis_client):
    forced = force(shared)
    one.reads()
    redis_client.flushall()
    _, failing = shared.publish(health("failing", 0))
    one.hears(failing)
    assert one.coordination._must_read
    one.reads()
    stands = shared.health()["orders"]
    assert (stands.state, stands.held_by) == ("failed_over", "ada")
    assert one.reported == [forced]
    one.hears(stands)
    assert one.reported == [forced, stands]


def test_who_has_missed_a_recovery_learns_it_from_the_failure_that_followed(one, shared):
    """Else it would hold for ever what an operator ended."""
    force(shared)
    one.reads()
    shared.mark_healthy("orders", operator="ada", process="web")
    _, failing = shared.publish(health("failing", 0))
    one.hears(failing)
    assert [reported.state for reported in one.reported] == ["failed_over", "healthy"]
    assert one.reported[-1].version == failing.version
    one.reads()
    assert shared.health()["orders"] == failing


def test_who_knows_only_of_a_failure_takes_an_older_failover_in(one, shared, redis_client):
    """Another process has reported a Redis that had forgotten, under the version of then."""
    forced = force(shared)
    redis_client.flushall()
    one.hears(shared.publish(replace(health("failing"), version=forced.version))[1])
    redis_client.flushall()
    assert shared.restore(forced)
    one.reads()
    assert one.reported == [forced]


def test_a_redis_that_was_new_when_a_process_came_has_forgotten_nothing(one, shared):
    """Else a failover that somebody has ended long ago would be reported again."""
    one.reads()
    force(shared)
    one.hears(shared.health()["orders"])
    shared.mark_healthy("orders", operator="ada", process="web")
    _, failing = shared.publish(health("failing", 0))
    one.reads()
    assert [reported.state for reported in one.reported] == ["failed_over", "healthy"]
    assert shared.health()["orders"] == failing


def test_what_was_held_back_for_a_word_of_its_own_is_taken_in_once_that_is_reported(one, shared, redis_client):
    """Twice Redis forgets: first the failover, then the failure that was reported in between."""
    forced = force(shared)
    one.coordination.publish(health("failing", 0))
    one.reads()
    assert one.reported == []  # what is about to be reported is decided in Redis first
    redis_client.flushall()
    one.coordination._report_all()
    redis_client.flushall()
    one.reads()
    one.reads()
    assert shared.health()["orders"] == forced
    assert one.reported == [forced]


def test_what_was_held_back_and_is_older_than_what_is_known_is_not_taken_in(one, shared):
    earlier = force(shared)
    one.coordination.publish(health("failing", 0))
    one.reads()
    later = shared.fail_over("orders", "again", operator="bob", process="web")
    one.hears(later)
    one.coordination._changes.clear()
    one.hears(earlier)
    assert one.reported == []
    one.hears(later)
    assert one.reported == [later]


@pytest.fixture
def earlier(redis_client, redis_url):
    """A Redis as it was before: a replica that was promoted without the last changes."""

    def promote() -> None:
        raw.flushall()
        for key, value in kept.items():
            raw.restore(key, 0, value)

    raw = redis.Redis.from_url(redis_url)
    kept: dict[bytes, bytes] = {}
    yield lambda: kept.update({key: raw.dump(key) for key in raw.scan_iter()}) or promote
    raw.close()


def test_a_failover_that_a_promoted_replica_lacks_is_reported_again_though_others_go_on_changing(one, shared, earlier):
    one.reads()
    promote = earlier()
    forced = force(shared)
    one.reads()
    promote()
    shared.fail_over("payments", "drill", operator="ada", process="web")  # its number is higher than the lost one
    one.coordination._cut_off(ConnectionError("the master is gone"))

    one.reads()

    restored = shared.health_of("orders")
    assert (restored.state, restored.version) == ("failed_over", forced.version)
    assert {change.path for change in one.reported} == {"orders", "payments"}


def test_a_reader_of_a_promoted_replica_that_lacks_the_last_change_reads_everything(shared, earlier):
    force(shared)
    promote = earlier()
    shared.release("orders", operator="ada", process="web")
    seen = shared.news(None).seen
    promote()

    news = shared.news(seen)

    assert (set(news.texts), news.is_everything, news.has_forgotten) == ({"orders"}, True, False)
