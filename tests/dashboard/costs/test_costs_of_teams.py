"""What the members of one team see of the costs, beside the pairs of another team."""

import re

import pytest
from django.utils import timezone

from dashboard.costs.prices import listed
from dashboard.models import BudgetAlert, Charge, ChargeRun, Invoice
from tests.dashboard.markup import one_line
from tests.dashboard.planted import HIDDEN, planted

pytestmark = pytest.mark.django_db
__all__ = ["planted"]
FIELDS = ("messages_per_hour", "message_bytes", "used", "queues", "crossings")


def fields_of(page: str) -> dict[str, str]:
    return {name: re.findall(rf'name="{name}" value="([^"]*)"', page)[0] for name in FIELDS}


def computed(scope: str, pair: str, units: int) -> None:
    """The current month of a billing scope, in which a pair sent a million messages of 300 bytes."""
    now = timezone.now()
    month = f"{now:%Y-%m}"
    details = {"prices": listed(month).rows, "sample_prices": True}
    run = ChargeRun.objects.create(month=month, status="succeeded", started_at=now, heard_at=now, details=details)
    bill = Invoice.objects.create(
        run=run, month=month, scope=scope, rule="published", allocation="time", currency="USD", cents=9, exact="0.09",
        units=units, tiers=[units],
    )  # fmt: skip
    Charge.objects.create(
        invoice=bill, pair=pair, namespace=pair, entity="orders", kind="send", operations=10**6, messages=10**6,
        bytes=300 * 10**6, billing_units=10**6, included_units=0, quantity="0", exact="0", cents=9,
    )  # fmt: skip


def test_the_forecast_of_a_pair_is_the_same_for_its_team_and_for_those_who_see_all_pairs(planted):
    computed("north", "contoso", 20_000_000)
    ours, whole = (planted.client(role).get("/costs/forecast/?pair=contoso").text for role in ("viewer", "superuser"))
    assert fields_of(ours) == fields_of(whole)
    assert fields_of(ours)["used"] == "20000000"
    assert "Traffic as metered in" in ours
    assert "the next million operations cost 0.80" in one_line(ours)


def test_the_forecast_of_all_pairs_is_of_those_that_one_sees(planted):
    computed("north", "contoso", 20_000_000)
    computed("south", HIDDEN, 200_000_000)
    used = {
        role: fields_of(planted.client(role).get("/costs/forecast/").text)["used"] for role in ("viewer", "superuser")
    }
    assert used == {"viewer": "20000000", "superuser": "200000000"}


def test_a_price_of_bytes_that_another_team_has_agreed_is_not_shown(planted, settings, tmp_path):
    settings.PAIRS_FILE = tmp_path / "pairs.toml"
    ends = "\n".join(
        f'{end} = {{ fully_qualified_namespace = "{end}.servicebus.windows.net", region = "{end}" }}'
        for end in ("primary", "secondary")
    )
    settings.PAIRS_FILE.write_text(f"[pairs.{HIDDEN}]\n{ends}\nbandwidth_per_gb = 0.0789\n")
    shown = {
        role: planted.client(role).get("/costs/forecast/").text.count("0.0789") for role in ("superuser", "viewer")
    }
    assert (shown["superuser"] > 0, shown["viewer"]) == (True, 0)


def test_a_budget_that_is_used_up_already_is_reported_whoever_sets_it(planted):
    computed("north", "contoso", 20_000_000)
    month = f"{timezone.now():%Y-%m}"
    form = {"month": month, "pair": "contoso", "amount": "0.10"}
    assert planted.client("operator").post("/costs/budget/", form).status_code == 302
    reported = BudgetAlert.objects.filter(month=month, pair="contoso")
    assert list(reported.values_list("percent", "cents", "currency")) == [(80, 9, "USD")]
