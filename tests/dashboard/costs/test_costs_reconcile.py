"""Computed against billed: ranges, the rest nobody can explain, who may give the files, and the trail they leave."""

from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone

from dashboard.costs.bill.reconciliation import CENT, WHOLE, Range, against_bill, import_bill
from dashboard.costs.runs.storing import store
from dashboard.models import AuditEntry, Statement
from tests.dashboard.costs.test_costs import MONTH, RUN, invoice, line, new_run
from tests.dashboard.costs.test_costs_statements import RESOURCE, SYSTEM, rows
from tests.dashboard.costs.test_costs_statements import line as billed
from tests.dashboard.markup import one_line
from tests.dashboard.results import result_of

pytestmark = pytest.mark.django_db
MILLION = 1_000_000


def day(kind: str, units: int, exact: str, on: str = "2026-10-03") -> dict[str, object]:
    return {"record": "day", "date": on, "kind": kind, "operations": units, "units": units, "exact": exact}


@pytest.fixture
def computed(tmp_path: Path) -> None:
    """Fourteen million sent on a day, of which one is paid; one settled, which only a rule bills; the base charge."""
    records = [
        RUN,
        invoice("published", 1_080) | {"units": 14 * MILLION, "tiers": [13 * MILLION, MILLION]},
        line("send", 80, units=MILLION),
        line("base", 1_000, entity="*", namespace="$system"),
        day("send", 14 * MILLION, "0.8"),
        day("settle", MILLION, "0") | {"units": 0},
    ]
    store(new_run(), result_of(tmp_path, records))


def give(client, text: str, month: str = MONTH):
    file = SimpleUploadedFile("bill.csv", text.encode())
    return client.post("/costs/reconcile/upload/", {"month": month, "file": file})


def bill(operations: str = "14", *more: str) -> str:
    base = billed("Standard Base Unit", "1/Hour", "72", resource=SYSTEM)
    return rows(billed(quantity=operations), base, *more)


@pytest.mark.parametrize(
    ("quantity", "rule", "cost", "unexplained"),
    [("14", "published", "0.8", 0), ("15", "settlements", "1.6", 0), ("14.25", "published", "0.8", MILLION // 4)],
)
def test_a_bill_is_compared_under_the_rule_that_it_follows(computed, as_role, quantity, rule, cost, unexplained):
    assert give(as_role("operator"), bill(quantity)).status_code == 302
    against = against_bill(MONTH)
    operations, base = against.meters
    assert (against.rule, against.computed_rule, operations.cost.most) == (rule, "published", Fraction(cost))
    assert operations.quantity.unexplained == unexplained
    page = one_line(as_role("viewer").get("/costs/reconcile/", {"month": MONTH}).text)
    followed, none = "The bill follows the counting rule", "No day of the bill is explained by a counting rule, here by"
    assert f"{none} <b>{rule}</b>" in page if unexplained else f"{followed} <b>{rule}</b>: 1 of 1 days" in page
    assert ("set the rule" in page) == (rule == "settlements")
    assert (base.quantity.least, base.quantity.billed) == (72, 72)  # of 744 hours, the three days the bill knows
    assert [(each.label, each.unexplained) for each in against.days] == [("2026-10-03", unexplained)]
    assert against.until == date(2026, 10, 3)


def test_the_unexplained_rest_is_shown_with_its_sign(computed, as_role):
    viewer, operator = as_role("viewer"), as_role("operator")
    for quantity, shown in (("15.25", "+1,250,000"), ("13.75", "−250,000")):
        give(operator, bill(quantity))
        assert shown in viewer.get("/costs/reconcile/", {"month": MONTH}).text


def test_namespaces_nobody_meters_are_distinguished(computed, as_role):
    give(as_role("operator"), bill("14", billed(quantity="9", resource=RESOURCE.replace("Contoso", "other"))))
    against = against_bill(MONTH)
    assert [(namespace, quantity) for namespace, _, quantity, _ in against.elsewhere] == [("other", 9 * MILLION)]
    assert "that are not metered here" in as_role("viewer").get("/costs/reconcile/", {"month": MONTH}).text


def test_a_new_bill_takes_the_place_of_the_last_and_both_are_in_the_trail(computed, as_role):
    for _ in range(2):
        give(as_role("operator"), bill())
    assert Statement.objects.count() == 1
    assert [entry.verb for entry in AuditEntry.objects.filter(operator="operator")] == ["reconcile_export"] * 2
    assert "SHA-256" in AuditEntry.objects.first().detail


def test_a_foreign_file_is_refused_with_the_reason_and_keeps_the_last_good_one(computed, as_role):
    operator = as_role("operator")
    give(operator, bill())
    answer = give(operator, "<html>Sign in</html>")
    assert answer.status_code == 400
    assert "This is not an Azure cost export" in answer.text
    assert Statement.objects.get().rows == 2
    assert AuditEntry.objects.first().outcome == "failed"


def test_the_form_asks_for_the_token(as_role):
    assert give(as_role("operator", enforce_csrf_checks=True), bill()).status_code == 403
    assert not Statement.objects.exists()


def test_the_base_charge_of_another_subscription_is_not_ours(computed, as_role):
    other = billed("Standard Base Unit", "1/Hour", "72", resource=SYSTEM).replace("S1", "S2")
    give(as_role("operator"), bill("14", other))
    against = against_bill(MONTH)
    assert [meter.quantity.billed for meter in against.meters if meter.unit == "unit hours"] == [72]
    assert [(namespace, meter, quantity) for namespace, meter, quantity, _ in against.elsewhere] == [
        ("$system", "Standard Base Unit", 72)
    ]


@pytest.mark.parametrize(("off", "is_explained"), [("0.009", True), ("0.02", False), ("1", False)])
def test_of_money_a_cent_may_be_cut_off_and_no_more(computed, off, is_explained):
    found = Range(label="", least=Fraction(5), most=Fraction(20), billed=20 + Fraction(off), tolerance=CENT)
    assert found.is_explained == is_explained
    assert replace(found, tolerance=WHOLE).is_explained
    text = bill("14", billed("Data Transfer Out", "1 GB", "0", category="Bandwidth"))
    import_bill(MONTH, "bill.csv", text.encode(), "olga", timezone.now())
    against = against_bill(MONTH)
    assert {meter.cost.tolerance for meter in against.meters} | {against.cost.tolerance} == {CENT}


def test_operations_of_premium_namespaces_are_on_no_bill(tmp_path, as_role):
    records = [
        RUN | {"tiers": {"contoso": "standard", "premium": "premium"}},
        invoice("published", 240),
        line("send", 240, units=3 * MILLION),
        line("send", 0, namespace="premium", units=5 * MILLION),
        line("receive", 0, namespace="premium", units=9 * MILLION),
        day("send", 6 * MILLION, "1.6"),
        day("send", 2 * MILLION, "0.8", on="2026-10-04"),
        day("receive", 9 * MILLION, "0", on="2026-10-04"),
    ]
    store(new_run(), result_of(tmp_path, records))
    give(as_role("operator"), rows(billed(quantity="2"), billed(quantity="1", date="2026-10-04")))
    against = against_bill(MONTH)
    operations = against.meters[0].quantity
    assert (operations.least, operations.most, operations.unexplained) == (3 * MILLION, 3 * MILLION, 0)
    # By day it is not known which of the sends were made in the Premium namespace.
    assert [(each.least, each.most) for each in against.days] == [(MILLION, 3 * MILLION), (0, 2 * MILLION)]
    page = one_line(as_role("viewer").get("/costs/reconcile/", {"month": MONTH}).text)
    assert "Operations of Premium namespaces are not billed and are left out." in page


def test_amounts_of_two_currencies_are_not_compared(computed, as_role):
    give(as_role("operator"), bill().replace("USD", "EUR"))
    page = one_line(as_role("viewer").get("/costs/reconcile/", {"month": MONTH}).text)
    assert "only quantities can be compared" in page
    assert "Quantities compared with the bill" in page


def test_of_many_namespaces_that_are_not_metered_the_most_expensive_are_listed(computed, as_role, monkeypatch):
    monkeypatch.setattr("dashboard.costs.bill.reconciliation.MOST_ELSEWHERE", 2)
    others = [billed(resource=RESOURCE.replace("Contoso", name)) for name in ("a", "b", "c", "b")]
    give(as_role("operator"), bill("14", *others))
    against = against_bill(MONTH)
    assert [(namespace, cost) for namespace, _, _, cost in against.elsewhere] == [("b", 2), ("a", 1)]
    page = one_line(as_role("viewer").get("/costs/reconcile/", {"month": MONTH}).text)
    assert "The 2 most expensive of 3." in page


def test_what_is_billed_by_another_meter_is_not_explained(computed, as_role):
    relay = billed("Standard WCF Relay Message", "10K", "500")
    elsewhere = billed("Relay Hours", "100 Hours", "7", resource=RESOURCE.replace("ServiceBus", "Relay"))
    give(as_role("operator"), bill("14", relay, elsewhere))
    against = against_bill(MONTH)
    other = against.meters[-1]
    assert (other.quantity.label, other.quantity.unexplained, other.cost.unexplained) == (
        "Standard WCF Relay Message", 5 * MILLION, 1,
    )  # fmt: skip
    assert not against.cost.is_explained
    assert [(meter, quantity, cost) for _, meter, quantity, cost in against.elsewhere] == [("Relay Hours", 700, 1)]
