"""What is forgotten, and what never."""

import uuid
from datetime import timedelta

import pytest
from django.apps import apps
from django.contrib.sessions.models import Session

from dashboard.fleet import pruning
from dashboard.fleet.pruning import prune
from dashboard.fleet.state import counters, message_counts, projection
from dashboard.metrics import exposition
from dashboard.models import (
    AuditEntry,
    BacklogQueue,
    DeadLetterJob,
    DepthSample,
    DiscardedMessage,
    EntityHealth,
    FailoverEvent,
    Heartbeat,
    PairDepth,
    QueueDrain,
    WaitingSample,
)
from tests.dashboard.conftest import NOW
from tests.dashboard.exposition import Sample, samples
from tests.dashboard.fleet.test_projection import Queue, event

pytestmark = pytest.mark.postgres


def remember(age: timedelta, identity: str) -> None:
    at = NOW - age
    message_counts.record_depths("contoso", [Queue(active=3)], at)
    message_counts.record_waiting("contoso", {"orders": 3}, at)
    projection.record_events([event(identity * 32, time=at)])
    projection.record_heartbeat(f"host:{identity}:aaaa", "pings", at)
    AuditEntry(request_id=identity, at=at, operator="ada", verb="hold", pair="contoso").save()


def test_the_old_goes_and_the_new_stays(pair):
    remember(timedelta(days=5000), "1")
    remember(timedelta(hours=1), "2")

    gone = prune(NOW)

    for model in (DepthSample, WaitingSample, PairDepth, FailoverEvent, Heartbeat):
        assert model.objects.count() == 1, model
        assert gone[model.__name__] >= 1
    assert prune(NOW) == dict.fromkeys(gone, 0)
    assert AuditEntry.objects.count() == 2, "the trail is kept"


def reported(name: str) -> list[Sample]:
    return samples(exposition(NOW), f"paired_{name}")


def test_no_counter_of_prometheus_falls(pair, redis_here, monkeypatch):
    monkeypatch.setattr(pruning, "BATCH", 2)
    old = NOW - timedelta(days=500)
    events = [event(f"{n:032x}", time=old) for n in range(5)] + [event("f" * 32, time=NOW)]
    projection.record_events(events)
    for n, at in enumerate((old, old, NOW)):
        pair.ledgers.create(
            queue=f"q/{n % 2}",
            began_at=at + timedelta(seconds=n),
            home=5,
            enqueued=5,
            ended_at=at,
            moved_at=at,
            seen_at=at,
        )
    pair.entities.create(path="gone", state="healthy", since=old, pings_ever=7, gone_at=old)
    names = ("failover_events_total", "syphon_settled_messages_total", "pings_total")
    before = {name: reported(name) for name in names}
    assert [value for name in names for *_, value in before[name]] == [6, 10, 5, 7]

    for _ in range(2):
        gone = prune(NOW)
        assert {name: reported(name) for name in names} == before
        assert gone["FailoverEvent"] in (5, 0)
    assert not EntityHealth.objects.filter(path="gone").exists()


@pytest.mark.parametrize("counter", counters.ALL, ids=lambda counter: counter.name)
def test_a_counter_is_read_in_one_statement_so_that_no_pruning_comes_between(pair, counter, django_assert_num_queries):
    with django_assert_num_queries(1):
        list(counter.totals())


KEPT_FOR_GOOD = {
    *("AuditEntry", "ApiToken", "Identity", "Drill", "DiscardedMessage"),  # who did what, and with what
    *("Budget", "BudgetAlert", "ChargeRun", "MonthlyReport", "Invoice", "Charge", "DailyCharge"),  # the accounts
    "CostRule",  # what was chosen for them
    *("Outage", "Availability", "BacklogRollup", "Statement", "BilledDay"),
    *("Pair", "TopicSubscription", "SyphonPause", "SyphonPace", "PrunedCount"),  # one for each thing there is
    *("PairReadiness", "Readiness"),
    *("AlertRule", "AlertRound", "ChannelState"),
    "ResubmittedMessage",  # goes with its job
}


def test_of_every_table_it_is_decided_whether_it_is_pruned():
    """A new one belongs into pruning.KEPT, with a line in docs/production.md, or among those that are kept for good."""
    known = {model.__name__ for model in apps.get_app_config("dashboard").get_models()}

    assert known - KEPT_FOR_GOOD == {model.__name__ for model in pruning.KEPT} - {"Session"}


def errand(model, pair, ended, **more):
    return model.objects.create(
        pair=pair, path="q", by="ada", at=NOW, request_id=uuid.uuid4().hex, ended_at=ended, **more
    )


def test_errands_go_when_they_are_long_over_but_not_the_record_of_what_was_discarded(pair):
    long_ago = NOW - timedelta(days=401)
    for ended in (long_ago, NOW - timedelta(days=1), None):
        errand(QueueDrain, pair, ended)
    errand(DeadLetterJob, pair, long_ago, kind="resubmit", upto=1)
    discarding = errand(DeadLetterJob, pair, long_ago, kind="discard", upto=1, total=1)
    DiscardedMessage.objects.create(job=discarding, number=1, sha256="0" * 64, at=long_ago)

    prune(NOW)

    assert QueueDrain.objects.count() == 2
    assert list(DeadLetterJob.objects.values_list("kind", flat=True)) == ["discard"]
    assert DiscardedMessage.objects.count() == 1


def test_a_queue_that_is_long_gone_is_forgotten_and_one_that_nobody_could_look_at_is_not(pair):
    long_ago = NOW - timedelta(days=36)
    gone, out_of_reach = "contoso/x-servicebus-transfer/0", "contoso/x-servicebus-transfer/1"
    BacklogQueue.objects.create(pair=pair, path=gone, seen_at=long_ago, is_gone=True)
    BacklogQueue.objects.create(pair=pair, path=out_of_reach, seen_at=long_ago)

    prune(NOW)

    assert BacklogQueue.objects.get().path == out_of_reach


def test_sessions_that_are_over_go(db):
    Session.objects.create(session_key="old", session_data="", expire_date=NOW - timedelta(seconds=1))
    Session.objects.create(session_key="new", session_data="", expire_date=NOW + timedelta(days=1))

    assert prune(NOW)["Session"] == 1
