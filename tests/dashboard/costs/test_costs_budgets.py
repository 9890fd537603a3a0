"""Budgets of a month, reported once each; the rows as Parquet; and what a failover would cost, before it is forced."""

import io
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from django.utils import timezone

from dashboard.costs.budgets import raise_alerts, store_budget
from dashboard.costs.prices import Prices
from dashboard.costs.runs.storing import store
from dashboard.models import AuditEntry, Budget, BudgetAlert, ChargeRun
from pipeline.price_tiers import OPERATIONS
from tests.dashboard.costs.test_costs import MONTH, RUN, invoice, line
from tests.dashboard.markup import costs_of, one_line
from tests.dashboard.results import result_of

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


def compute(folder: Path, cents: int, kind: str = "send") -> None:
    """A month in which the pair's entity cost so much, and the base charge ten."""
    base = line("base", 1_000, entity="*", namespace="$system") | {"pair": ""}
    records = [RUN, invoice("published", cents + 1_000), line(kind, cents, units=1_000_000), base]
    now = timezone.now()
    store(ChargeRun.objects.create(month=MONTH, started_at=now, heard_at=now), result_of(folder, records))


def shares() -> list[tuple[str, int, int]]:
    return sorted(BudgetAlert.objects.values_list("pair", "percent", "cents"))


def test_each_share_of_a_budget_is_reported_once(tmp_path):
    store_budget("*", 2_000, 80, "olga", timezone.now())
    store_budget("contoso", 1_000, 50, "olga", timezone.now())
    compute(tmp_path, 400)
    assert shares() == []
    compute(tmp_path, 600)
    assert shares() == [("*", 80, 1_600), ("contoso", 50, 600)]
    compute(tmp_path, 1_100)
    assert shares() == [("*", 80, 1_600), ("*", 100, 2_100), ("contoso", 50, 600), ("contoso", 100, 1_100)]
    assert raise_alerts(MONTH, timezone.now()) == []


def test_a_new_amount_forgets_the_alerts_of_the_old_one(tmp_path):
    store_budget("*", 1_000, 80, "olga", timezone.now())
    compute(tmp_path, 400)
    store_budget("*", 9_000, 80, "olga", timezone.now())
    assert shares() == []


def test_an_operator_sets_a_budget_and_the_page_says_when_it_is_used_up(tmp_path, as_role):
    compute(tmp_path, 600)
    operator = as_role("operator")
    answer = operator.post("/costs/budget/", {"month": MONTH, "amount": "20.00", "alert_percent": "75"})
    assert answer.headers["Location"] == f"/costs/?month={MONTH}&tab=pairs#budget"
    page = costs_of(as_role("viewer"), month=MONTH)
    assert "has used 80 % of its budget of 20.00 USD: 16.00" in one_line(page)
    assert AuditEntry.objects.get().detail == "The budget of all pairs is 20.00 a month, with an alert at 75 %."
    operator.post("/costs/budget/", {"month": MONTH, "amount": ""})
    assert not Budget.objects.exists()


def test_a_refused_budget_changes_nothing_keeps_what_was_typed_and_says_at_the_field_what_is_wrong(tmp_path, as_role):
    compute(tmp_path, 600)
    for amount in ("-1", "1e99", "much", "0.001"):
        answer = as_role("operator").post("/costs/budget/", {"month": MONTH, "amount": amount})
        refused = "Nothing was done. Monthly budget: " in answer.text
        assert (amount, answer.status_code, refused) == (amount, 400, True)
    assert not Budget.objects.exists()
    form = {"month": MONTH, "amount": "much", "alert_percent": "70"}
    page = as_role("operator").post("/costs/budget/", form).text

    assert '<details id="set-budget" class="noprint" open>' in page
    assert 'value="much" aria-invalid="true" aria-describedby="wrong-amount"' in one_line(page)
    assert '<span class="wrong" id="wrong-amount">Enter a number.</span>' in page
    assert 'value="70"' in page


def test_the_rows_as_parquet_have_the_csvs_columns_and_sum_to_the_invoice(tmp_path, as_role):
    compute(tmp_path, 1_234)
    answer = as_role("viewer").get("/costs.parquet", {"month": MONTH})
    table = pq.read_table(io.BytesIO(answer.content))
    head = as_role("viewer").get("/costs.csv", {"month": MONTH}).text.splitlines()[0]
    assert ",".join(table.column_names) == head
    assert sum(table["charge"].to_pylist()) == Decimal("22.34")
    assert as_role("viewer").get("/costs.parquet", {"month": "soon"}).status_code == 400


@pytest.fixture
def priced(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"meter": OPERATIONS, "unit": "1M", "currency": "USD"}
    rows = [row | {"from": "0", "price": "0"}, row | {"from": "13", "price": "0.8"}]
    monkeypatch.setattr("dashboard.costs.views.forecast.prices_of", lambda month: Prices(rows, is_sample=False))


def test_the_dialog_of_a_forced_failover_asks_what_it_would_cost(pair, redis_here, as_role):
    dialog = as_role("operator").get(f"/pairs/{pair.name}/actions/fail_over/", {"path": "orders"}).text
    assert "/costs/failover/?pair=contoso&amp;path=orders&amp;entities=1" in dialog
    others = as_role("operator").get(f"/pairs/{pair.name}/actions/release/", {"path": "orders"}).text
    assert "/costs/failover/" not in others


def test_before_a_failover_its_messages_room_and_money_are_reported(pair, priced, tmp_path, as_role):
    compute(tmp_path, 600)
    viewer = as_role("viewer")
    reported = viewer.get("/costs/failover/", {"pair": "contoso", "path": "orders", "hours": "744"}, headers=HTMX).text
    assert "would wait in the backlog" in one_line(reported)
    assert "10 queues hold them" in one_line(reported)
    nothing = viewer.get("/costs/failover/", {"pair": "contoso", "path": "payments"}, headers=HTMX).text
    assert "Nothing was metered for it" in nothing
