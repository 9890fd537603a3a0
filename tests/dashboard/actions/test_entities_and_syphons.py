"""The actions: what they do, how they are audited, refused and repeated (docs/specification.md, section 12)."""

from datetime import timedelta

import pytest
from django.utils import timezone

from dashboard.access.audited import Request
from dashboard.actions.entities import FAIL_OVER, HOLD, MARK_HEALTHY, RELEASE
from dashboard.models import AuditEntry, FailoverEvent

pytestmark = pytest.mark.postgres


@pytest.fixture
def request_of(pair, people):
    def make(target="orders", role="operator", **more):
        return Request(user=people[role], pair=pair, target=target, reason="storage is down", **more)

    return make


def kinds():
    return list(FailoverEvent.objects.order_by("pk").values_list("kind", flat=True))


@pytest.mark.parametrize(
    ("actions", "state", "held_by", "events"),
    [
        ((FAIL_OVER,), "failed_over", "operator", ["forced"]),
        ((FAIL_OVER, RELEASE), "failed_over", None, ["forced", "released"]),
        ((FAIL_OVER, RELEASE, HOLD), "failed_over", "operator", ["forced", "released", "held"]),
        ((FAIL_OVER, MARK_HEALTHY), "healthy", None, ["forced", "recovered"]),
    ],
)
def test_each_action_changes_fleet_and_database_alike_and_nothing_when_it_is_repeated(
    request_of, shared, orders, actions, state, held_by, events
):
    for action in actions:
        assert action.run(request_of()).outcome == "done"
    version = shared.health()["orders"].version

    assert actions[-1].run(request_of()).outcome == "unchanged"
    orders.refresh_from_db()
    reported = shared.health()["orders"]
    assert (orders.state, orders.held_by, orders.version) == (state, held_by, version)
    assert (reported.state, reported.held_by, reported.version) == (state, held_by, version)
    assert state == "healthy" or shared.claim_ping("orders", 60)
    assert kinds() == events


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


@pytest.fixture
def forgotten(request_of, shared, orders):
    """The page shows a hold that Redis has lost, and no process remembers it."""
    FAIL_OVER.run(request_of())
    shared.redis.flushall()
    orders.refresh_from_db()
    return orders


@pytest.mark.parametrize(
    ("action", "state", "held_by"),
    [(RELEASE, "failed_over", None), (MARK_HEALTHY, "healthy", None), (HOLD, "failed_over", "operator")],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_hold_that_redis_has_forgotten_can_be_ended_and_lengthened(
    request_of, shared, forgotten, action, state, held_by
):
    version, end = forgotten.version, timezone.now() + timedelta(hours=4)
    assert action.run(request_of(), **({"expires": end} if held_by else {})).outcome == "done"

    forgotten.refresh_from_db()
    reported = shared.health()["orders"]
    assert (forgotten.state, forgotten.held_by, forgotten.version > version) == (state, held_by, True)
    assert (reported.state, reported.held_by, reported.expires) == (state, held_by, end if held_by else None)


def test_what_redis_knows_better_than_the_page_stays_as_it_is(request_of, shared, forgotten):
    shared.fail_over("orders", "again", operator="grace", process="web", hold=False)
    shared.mark_healthy("orders", operator="grace", process="web")

    assert RELEASE.run(request_of()).outcome == "unchanged"
    assert shared.health()["orders"].state == "healthy"


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
