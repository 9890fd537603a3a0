"""What the fleet reports, stored late, twice, or by two collectors at once (docs/specification.md, section 11)."""

from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from dashboard.fleet.state import message_counts, projection
from dashboard.models import BacklogQueue, DepthSample, EntityHealth, Heartbeat, Pair, PairDepth, WaitingSample
from pairing.events import Event
from pairing.fleet.shared_health import PingRecord
from tests.dashboard.conftest import NOW, health

pytestmark = pytest.mark.postgres


@dataclass
class Queue:
    path: str = "contoso/x-servicebus-transfer/0"
    index: int | None = 0
    active: int = 0
    scheduled: int = 0
    dead_lettered: int = 0
    transfer: int = 0
    transfer_dead_lettered: int = 0
    size_bytes: int = 0
    max_size_bytes: int = 5 << 30
    status: str = "Active"
    created_at: object = None
    accessed_at: object = None
    deviations: dict = field(default_factory=dict)


def event(identity="a" * 32, kind="failed_over", **changes):
    known = {"time": NOW, "pair": "contoso", "entity": "orders", "reason": "no answer", "process": "host:1:aaaa"}
    return Event(id=identity, kind=kind, **{**known, **changes})


def test_health_is_taken_over_once(pair, orders):
    assert projection.apply_all_health("contoso", [health(version=7)])
    assert not projection.apply_all_health("contoso", [health(version=7)])

    orders.refresh_from_db()
    assert (orders.state, orders.since, orders.reason, orders.version) == ("failed_over", NOW, "no answer", 7)


def test_an_entity_nobody_configured_appears_when_it_is_heard_of_and_a_pair_is_refused(pair):
    projection.apply_all_health("contoso", [health("letters")])

    assert EntityHealth.objects.get(path="letters").is_configured is False
    with pytest.raises(Pair.DoesNotExist):
        projection.apply_all_health("unheard-of", [health()])


def test_depths_are_kept_by_queue_and_for_the_pair(pair):
    queues = [Queue(active=3, size_bytes=900), Queue("contoso/x-servicebus-transfer/1", 1, active=4, scheduled=2)]

    message_counts.record_depths("contoso", queues, NOW)
    message_counts.record_depths("contoso", queues, NOW)

    assert DepthSample.objects.count() == 2
    assert PairDepth.objects.get().messages == 9
    assert [queue.messages for queue in BacklogQueue.objects.order_by("index")] == [3, 6]


def test_an_older_look_overwrites_no_newer_one_and_a_queue_that_is_no_longer_there_is_gone_and_empty(pair):
    message_counts.record_depths("contoso", [Queue(active=3)], NOW)
    message_counts.record_depths("contoso", [Queue(active=99)], NOW - timedelta(seconds=5))
    assert BacklogQueue.objects.get().active == 3

    message_counts.record_depths("contoso", [], NOW + timedelta(seconds=5))

    queue = BacklogQueue.objects.get()
    assert (queue.is_gone, queue.active) == (True, 0)


@pytest.mark.parametrize(("index", "is_orphan"), [(0, False), (9, False), (10, True), (None, True)])
def test_a_queue_beyond_the_pair_s_count_is_an_orphan(pair, index, is_orphan):
    message_counts.record_depths("contoso", [Queue(index=index)], NOW)

    assert BacklogQueue.objects.get().is_orphan is is_orphan


def test_deviations_are_kept_as_text(pair):
    message_counts.record_depths("contoso", [Queue(deviations={"LockDuration": (timedelta(minutes=1), None)})], NOW)

    assert BacklogQueue.objects.get().deviations == {"LockDuration": ["0:01:00", "None"]}


def test_entities_left_out_of_a_complete_count_have_nothing_waiting(pair, orders):
    message_counts.record_waiting("contoso", {"orders": 12}, NOW, oldest={"orders": NOW})
    message_counts.record_waiting("contoso", {}, NOW + timedelta(seconds=5))

    orders.refresh_from_db()
    assert (orders.waiting, orders.oldest_waiting_at) == (0, None)
    assert list(WaitingSample.objects.filter(entity=orders).order_by("at").values_list("waiting", flat=True)) == [12, 0]


def test_an_estimate_says_so(pair, orders):
    message_counts.record_waiting("contoso", {"orders": 500}, NOW, complete=False)

    orders.refresh_from_db()
    assert (orders.waiting, orders.waiting_is_complete) == (500, False)


@pytest.mark.parametrize(("all_seen", "left"), [(True, 0), (False, 7)])
def test_entities_left_out_keep_what_they_had_only_until_all_was_seen(pair, orders, all_seen, left):
    message_counts.record_waiting("contoso", {"orders": 7}, NOW, oldest={"orders": NOW})
    later = NOW + timedelta(seconds=5)
    message_counts.record_waiting("contoso", {"payments": 9}, later, complete=False, all_seen=all_seen)

    orders.refresh_from_db()
    assert (orders.waiting, orders.oldest_waiting_at) == (left, None if all_seen else NOW)


def test_the_latest_ping_and_the_latest_count_of_dead_letters_stay(pair, orders):
    message_counts.record_dead_letters("contoso", {"orders": 3}, NOW)
    message_counts.record_dead_letters("contoso", {"orders": 7}, NOW - timedelta(seconds=1))
    due = NOW + timedelta(seconds=60)
    earlier = PingRecord(NOW - timedelta(seconds=1), accepted=True, reason="", count=2, next_due=NOW)
    assert projection.record_pings("contoso", {"orders": PingRecord(NOW, False, "silent", 3, due)}) == 1
    assert projection.record_pings("contoso", {"orders": earlier}) == 0

    orders.refresh_from_db()
    assert (orders.last_ping_at, orders.last_ping_accepted, orders.last_ping_reason) == (NOW, False, "silent")
    assert (orders.ping_count, orders.next_ping_at, orders.dead_lettered) == (3, due, 3)


def test_of_two_that_store_pings_at_once_the_later_ping_stays(pair, orders):
    """Both have read the row before either writes."""
    later, earlier = ({"last_ping_at": NOW + n * timedelta(seconds=1), "last_ping_accepted": n > 0} for n in (1, 0))

    assert projection._set_later({orders.pk: later}, by="last_ping_at") == 1
    assert projection._set_later({orders.pk: earlier}, by="last_ping_at") == 0


def test_pings_add_up_over_failovers_that_each_count_from_one(pair, orders):
    for second, count in enumerate((1, 3, 4, 1, 2)):
        ping = PingRecord(NOW + timedelta(seconds=second), False, "silent", count, None)
        projection.record_pings("contoso", {"orders": ping})
    projection.record_pings("contoso", {"orders": PingRecord(NOW, False, "silent", 9, None)})

    orders.refresh_from_db()
    assert (orders.ping_count, orders.pings_ever) == (2, 6)


def test_a_worker_has_one_heartbeat(db):
    projection.record_heartbeat("host:1:aaaa", "pings", NOW)
    projection.record_heartbeat("host:1:aaaa", "pings", NOW + timedelta(seconds=5))

    assert Heartbeat.objects.get().seen_at == NOW + timedelta(seconds=5)
