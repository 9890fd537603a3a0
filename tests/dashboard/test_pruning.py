"""What is forgotten, and what never."""

from datetime import timedelta

from dashboard import projection, pruning
from dashboard.models import AuditEntry, DepthSample, FailoverEvent, Heartbeat, PairDepth, WaitingSample
from dashboard.pruning import prune
from tests.dashboard.conftest import NOW
from tests.dashboard.test_projection import Queue, event


def remember(age: timedelta, identity: str) -> None:
    at = NOW - age
    projection.record_depths("contoso", [Queue(active=3)], at)
    projection.record_waiting("contoso", {"orders": 3}, at)
    projection.record_events([event(identity * 32, time=at)])
    projection.record_heartbeat(f"host:{identity}:aaaa", "pings", at)
    AuditEntry(request_id=identity, at=at, operator="ada", verb="hold", pair="contoso").save()


def test_the_old_goes_and_the_new_stays(pair):
    remember(timedelta(days=500), "1")
    remember(timedelta(hours=1), "2")

    gone = prune(NOW)

    for model in (DepthSample, WaitingSample, PairDepth, FailoverEvent, Heartbeat):
        assert model.objects.count() == 1, model
        assert gone[model.__name__] >= 1
    assert prune(NOW) == dict.fromkeys(gone, 0)


def test_the_audit_trail_is_kept(pair):
    remember(timedelta(days=5000), "1")

    prune(NOW)

    assert AuditEntry.objects.count() == 1


def test_many_rows_go_in_batches(pair, monkeypatch):
    monkeypatch.setattr(pruning, "BATCH", 3)
    projection.record_events([event(f"{n:032x}", time=NOW - timedelta(days=500)) for n in range(10)])

    assert prune(NOW)["FailoverEvent"] == 10
