"""Where processes disagree about a failover, pages say in how many it holds (docs/specification.md, section 11)."""

import pytest

from dashboard.fleet.state import projection
from pairing.fleet.presence import Presence, ReportedStates, reported_states
from tests.dashboard.conftest import health

LONELY, OTHER = Presence(sends=True), Presence(sends=True, disputed=("orders",))


@pytest.fixture
def failed_over(pair, orders):
    projection.apply_all_health("contoso", [health()])
    return orders


def disagreement(entity):
    entity.refresh_from_db()
    return entity.disagreement


def test_a_failover_that_nobody_disputes_says_nothing_of_processes(failed_over):
    projection.record_reported_states("contoso", reported_states([LONELY, OTHER]))
    assert projection.record_reported_states("contoso", reported_states([LONELY, LONELY]))
    assert disagreement(failed_over) == ""


def test_reports_of_one_pair_are_none_of_another(failed_over):
    projection.record_reported_states("contoso", reported_states([LONELY, OTHER]))
    assert not projection.record_reported_states("fabrikam", ReportedStates(0, {}))
    assert disagreement(failed_over) == "failed over in 1 of 2"


def test_an_entity_that_is_back_says_nothing_of_processes(failed_over):
    projection.record_reported_states("contoso", reported_states([LONELY, OTHER]))
    projection.apply_all_health("contoso", [health(state="healthy", version=9_000)])
    assert disagreement(failed_over) == ""


@pytest.mark.parametrize("page", ["/", "/pairs/contoso/entities/orders/"])
def test_a_disputed_failover_is_one_of_so_many_and_pages_say_it(failed_over, as_role, page):
    assert projection.record_reported_states("contoso", reported_states([LONELY, *[OTHER] * 7]))
    assert not projection.record_reported_states("contoso", reported_states([LONELY, *[OTHER] * 7]))
    assert disagreement(failed_over) == "failed over in 1 of 8"
    assert b"failed over in 1 of 8" in as_role("viewer").get(page).content
