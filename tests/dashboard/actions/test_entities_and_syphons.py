"""The actions: what they do, how they are audited, refused and repeated (docs/specification.md, section 12)."""

from datetime import timedelta

import pytest
from django.utils import timezone

from dashboard.access.audited import ActionError, Request
from dashboard.actions.entities import FAIL_OVER, HOLD, MARK_HEALTHY, RELEASE
from dashboard.actions.syphons import PAUSE_SYPHON, RESUME_SYPHON
from dashboard.models import AuditEntry, FailoverEvent, SyphonPause

pytestmark = pytest.mark.postgres


@pytest.fixture
def request_of(pair, people):
    def make(target="orders", role="operator", **more):
        return Request(user=people[role], pair=pair, target=target, reason="storage is down", **more)

    return make


def kinds():
    return list(FailoverEvent.objects.order_by("pk").values_list("kind", flat=True))


def test_forcing_a_failover_reaches_the_fleet_the_page_and_the_audit_trail(request_of, shared, orders):
    outcome = FAIL_OVER.run(request_of())

    assert outcome.outcome == "done"
    reported = shared.health()["orders"]
    assert (reported.state, reported.held_by, reported.origin) == ("failed_over", "operator", "forced")
    orders.refresh_from_db()
    assert (orders.state, orders.held_by, orders.reason) == ("failed_over", "operator", "storage is down")
    event = FailoverEvent.objects.get()
    assert (event.kind, event.entity, event.operator) == ("forced", "orders", "operator")
    entry = AuditEntry.objects.get()
    assert (entry.operator, entry.verb, entry.target, entry.reason) == (
        "operator",
        "fail_over",
        "orders",
        "storage is down",
    )
    assert entry.outcome == "done"


def test_a_forced_failover_may_end_by_itself(request_of, shared):
    end = timezone.now() + timedelta(minutes=15)

    FAIL_OVER.run(request_of(), expires=end)

    assert shared.health()["orders"].expires == end


def test_forcing_twice_changes_nothing_the_second_time(request_of, shared):
    FAIL_OVER.run(request_of())
    version = shared.health()["orders"].version

    assert FAIL_OVER.run(request_of()).outcome == "unchanged"
    assert shared.health()["orders"].version == version
    assert kinds() == ["forced"]


def test_release_ends_the_hold_and_leaves_the_entity_failed_over(request_of, shared, orders):
    FAIL_OVER.run(request_of())

    assert RELEASE.run(request_of()).outcome == "done"

    orders.refresh_from_db()
    assert (orders.state, orders.held_by) == ("failed_over", None)
    assert shared.claim_ping("orders", 60)
    assert kinds() == ["forced", "released"]


def test_releasing_what_nobody_holds_changes_nothing(request_of, shared):
    assert RELEASE.run(request_of()).outcome == "unchanged"
    assert kinds() == []


def test_an_organic_failover_can_be_held(request_of, shared, orders):
    FAIL_OVER.run(request_of())
    RELEASE.run(request_of())

    assert HOLD.run(request_of()).outcome == "done"
    assert HOLD.run(request_of()).outcome == "unchanged"

    orders.refresh_from_db()
    assert orders.held_by == "operator"


def test_a_hold_is_given_another_end(request_of, shared, orders):
    soon, later = timezone.now() + timedelta(minutes=15), timezone.now() + timedelta(hours=4)
    FAIL_OVER.run(request_of(), expires=soon)

    assert HOLD.run(request_of(), expires=later).outcome == "done"
    assert HOLD.run(request_of(), expires=later).outcome == "unchanged"

    orders.refresh_from_db()
    reported = shared.health()["orders"]
    assert (reported.expires, orders.expires, orders.version) == (later, later, reported.version)
    assert kinds() == ["forced", "held"]


@pytest.mark.parametrize("role", ["operator", "administrator"])
def test_until_released_is_an_end_as_well_whoever_asks_for_it(request_of, shared, orders, role):
    FAIL_OVER.run(request_of(), expires=timezone.now() + timedelta(minutes=15))

    assert HOLD.run(request_of(role=role)).outcome == "done"

    orders.refresh_from_db()
    reported = shared.health()["orders"]
    assert (reported.held_by, reported.expires, orders.expires) == (role, None, None)


def test_a_healthy_entity_cannot_be_held(request_of, shared):
    with pytest.raises(ActionError, match="not failed over"):
        HOLD.run(request_of())

    assert AuditEntry.objects.get().outcome == "failed"


def test_marking_healthy_ends_hold_and_failover_together(request_of, shared, orders):
    FAIL_OVER.run(request_of())

    assert MARK_HEALTHY.run(request_of()).outcome == "done"

    orders.refresh_from_db()
    assert (orders.state, orders.held_by) == ("healthy", None)
    assert kinds() == ["forced", "recovered"]
    assert MARK_HEALTHY.run(request_of()).outcome == "unchanged"


@pytest.fixture
def forgotten(request_of, shared, orders):
    """The page shows a hold that Redis has lost, and no process remembers it."""
    FAIL_OVER.run(request_of())
    shared.redis.flushall()
    orders.refresh_from_db()
    return orders


def test_a_hold_that_redis_has_forgotten_can_be_released(request_of, shared, forgotten):
    assert RELEASE.run(request_of()).outcome == "done"

    version = forgotten.version
    forgotten.refresh_from_db()
    assert (forgotten.state, forgotten.held_by, forgotten.version > version) == ("failed_over", None, True)
    assert (shared.health()["orders"].state, shared.health()["orders"].held_by) == ("failed_over", None)
    assert shared.claim_ping("orders", 60)


def test_a_failover_that_redis_has_forgotten_can_be_marked_healthy(request_of, shared, forgotten):
    assert MARK_HEALTHY.run(request_of()).outcome == "done"

    forgotten.refresh_from_db()
    assert (forgotten.state, forgotten.held_by, shared.health()["orders"].state) == ("healthy", None, "healthy")


def test_a_hold_that_redis_has_forgotten_can_be_lengthened(request_of, shared, forgotten):
    end = timezone.now() + timedelta(hours=4)

    assert HOLD.run(request_of(), expires=end).outcome == "done"

    assert (shared.health()["orders"].held_by, shared.health()["orders"].expires) == ("operator", end)


def test_what_redis_knows_better_than_the_page_stays_as_it_is(request_of, shared, forgotten):
    shared.fail_over("orders", "again", operator="grace", process="web", hold=False)
    shared.mark_healthy("orders", operator="grace", process="web")

    assert RELEASE.run(request_of()).outcome == "unchanged"
    assert shared.health()["orders"].state == "healthy"


@pytest.mark.parametrize("target", ["*", "contoso/x-servicebus-transfer/3", "orders"])
def test_a_syphon_is_paused_and_resumed(request_of, shared, target):
    assert PAUSE_SYPHON.run(request_of(target)).outcome == "done"
    assert PAUSE_SYPHON.run(request_of(target)).outcome == "unchanged"
    assert shared.paused()[target].by == "operator"
    assert SyphonPause.objects.get().queue == target

    assert RESUME_SYPHON.run(request_of(target)).outcome == "done"
    assert RESUME_SYPHON.run(request_of(target)).outcome == "unchanged"
    assert shared.paused() == {}
    assert not SyphonPause.objects.exists()
    assert kinds() == ["syphon_paused", "syphon_resumed"]


def test_two_operators_who_collide_leave_one_truth(request_of, shared, orders):
    FAIL_OVER.run(request_of())
    FAIL_OVER.run(request_of(role="administrator"), expires=timezone.now() + timedelta(hours=1))

    orders.refresh_from_db()
    reported = shared.health()["orders"]
    assert orders.held_by == reported.held_by == "administrator"
    assert orders.version == reported.version
    assert kinds() == ["forced", "forced"]


def test_audit_entries_are_written_once_and_kept(request_of, shared):
    FAIL_OVER.run(request_of())
    entry = AuditEntry.objects.get()

    with pytest.raises(TypeError):
        entry.save()
    with pytest.raises(TypeError):
        entry.delete()
    assert not AuditEntry.complete(entry.request_id, "failed", "another story")
