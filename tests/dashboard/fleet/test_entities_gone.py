"""Entities that exist no more: not looked at any longer, and not forgotten while anything is left of them."""

from datetime import timedelta

import pytest

from dashboard.fleet.pruning import prune
from dashboard.fleet.state import entity_rows, message_counts, projection
from dashboard.models import EntityHealth
from tests.dashboard.conftest import NOW, health
from tests.dashboard.fleet.test_projection import event

LATER = NOW + timedelta(minutes=1)


def present() -> set[str]:
    return set(EntityHealth.objects.present().values_list("path", flat=True))


def listed(*paths: str) -> set[str]:
    """Those to look at once the primary's own list has named these alone."""
    entity_rows.record_listed("contoso", paths, NOW)
    return present()


def test_an_entity_that_the_primary_names_no_more_is_gone_until_it_is_named_again(pair):
    assert listed("payments") == {"payments"}
    assert EntityHealth.objects.get(path="orders").gone_at == NOW

    assert listed("payments", "orders") == {"orders", "payments"}
    assert EntityHealth.objects.get(path="orders").gone_at is None


@pytest.mark.parametrize("names", [(), ("Orders", "PAYMENTS")])
def test_an_empty_list_says_nothing_and_names_in_upper_and_lower_case_are_the_same_entity(pair, names):
    assert listed(*names) == {"orders", "payments"}


@pytest.mark.parametrize("state", ["failing", "failed_over"])
def test_an_entity_that_is_away_is_not_given_up(pair, state):
    projection.apply_all_health("contoso", [health(state=state)])
    assert listed("payments") == {"orders", "payments"}
    assert EntityHealth.objects.get(path="orders").gone_at is None

    projection.apply_all_health("contoso", [health(state="healthy", version=2)])
    assert listed("payments") == {"payments"}

    projection.apply_all_health("contoso", [health(state=state, version=3)])
    assert present() == {"orders", "payments"}


def test_an_entity_that_messages_wait_for_is_not_given_up(pair):
    message_counts.record_waiting("contoso", {"orders": 3}, NOW)
    assert listed("payments") == {"orders", "payments"}

    message_counts.record_waiting("contoso", {}, LATER)
    assert listed("payments") == {"payments"}

    message_counts.record_waiting("contoso", {"orders": 1}, LATER + timedelta(minutes=1))
    assert present() == {"orders", "payments"}


def test_what_is_gone_is_on_no_list_and_its_own_page_says_so(pair, redis_here, alive, as_role):
    projection.record_events([event("1" * 32, time=NOW)])
    listed("payments")
    viewer, operator = as_role("viewer"), as_role("operator")

    assert 'data-entity="orders"' not in viewer.get("/").text
    assert [one["path"] for one in viewer.get("/api/v1/entities").json()["items"]] == ["payments"]
    assert viewer.get("/api/v1/entities", {"path": "orders"}).json()["items"][0]["gone_at"] is not None
    page = operator.get("/pairs/contoso/entities/orders/").text
    assert "PAIRS_FILE and the primary have not contained it since" in page
    for nothing_to_do in ('id="act-fail_over"', 'id="pause"', 'id="pace"', "is one running?"):
        assert nothing_to_do not in page


def test_an_action_for_all_entities_leaves_out_what_is_gone(pair, shared, as_role):
    listed("payments")

    as_role("operator").post("/pairs/contoso/actions/fail_over/", {"path": "*", "reason": "ticket"})

    assert set(shared.health()) == {"payments"}


def test_it_is_forgotten_with_the_last_of_its_events(pair):
    listed("payments")

    assert prune(NOW + timedelta(days=399))["EntityHealth"] == 0
    prune(NOW + timedelta(days=401))

    assert set(EntityHealth.objects.values_list("path", flat=True)) == {"payments"}
