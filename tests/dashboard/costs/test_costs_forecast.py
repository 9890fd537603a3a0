"""What an outage would cost: the worked example of docs/pricing.md, section 9, and where it is reported."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from dashboard.costs.forecasts import current_month as present
from dashboard.costs.forecasts.current_month import Used
from dashboard.costs.forecasts.forecast import Outage, forecast
from dashboard.costs.forecasts.tariffs import Bills, tariff
from dashboard.costs.prices import listed
from dashboard.costs.runs.inputs import configured_prices, price_arguments
from dashboard.costs.runs.jobs import JobFailed
from dashboard.models import Charge, ChargeRun, CostRule, DailyCharge, Invoice, Pair
from dashboard.site.money import cents
from dashboard.templatetags.costs import gigabytes
from pipeline.price_tiers import OPERATIONS, Price, Tier
from tests.dashboard.costs.test_costs_insight import PRICES
from tests.dashboard.markup import one_line

MILLION = 1_000_000
STEPS = [(0, "0"), (13 * MILLION, "0.8"), (100 * MILLION, "0.5"), (2_500 * MILLION, "0.2")]
STANDARD = Price(tuple(Tier(start, Fraction(price) / MILLION) for start, price in STEPS))
BASIC = Price((Tier(0, Fraction(5, 100 * MILLION)),))
UNUSED = Bills(STANDARD)
HTMX = {"HX-Request": "true"}


def three_hours(**changes: Any) -> Outage:
    """Three hours, a million messages of 70 KB, 20 clients that ping once a minute, 10 queues, one syphon."""
    assumed: dict[str, Any] = {
        "hours": Fraction(3),
        "messages_per_hour": Fraction(MILLION, 3),
        "message_bytes": 70 * 1024,
        "pingers": 20,
        "per_gigabyte": Fraction("0.02"),
    }
    return Outage(**assumed | changes)


@pytest.mark.parametrize(
    ("price", "used", "charges", "extras"),
    [
        pytest.param(STANDARD, 0, (0, 0), (0, 0), id="inside the allowance"),
        pytest.param(STANDARD, 13 * MILLION, (640, 800), (320, 400), id="at 0.80"),
        pytest.param(STANDARD, 100 * MILLION, (400, 500), (200, 250), id="at 0.50"),
        pytest.param(STANDARD, 2_500 * MILLION, (160, 200), (80, 100), id="at 0.20"),
        pytest.param(BASIC, 0, (40, 50), (20, 25), id="Basic"),
    ],
)
def test_the_money_depends_on_where_the_month_stands(price, used, charges, extras):
    made = [forecast(three_hours(), Bills(price.after(used)), settlements) for settlements in (False, True)]
    assert tuple(cents(each.charge) for each in made) == charges
    assert tuple(cents(each.extra_charge) for each in made) == extras


@pytest.mark.parametrize(("crossings", "price"), [(1, 143), (2, 287)])
def test_bandwidth_is_paid_by_the_crossing(crossings, price):
    made = forecast(three_hours(crossings=crossings), UNUSED, settlements=False)
    assert (gigabytes(made.gigabytes), cents(made.bandwidth)) == ("71.68", price)
    assert [gigabytes(Fraction(size)) for size in (0, "0.004", 1234)] == ["0.00", "<0.01", "1,234.00"]


@pytest.mark.parametrize(
    ("used", "used_secondary", "extra"),
    [
        # Transfers only: 4,000,120 operations in the secondary, 4,003,600 in the primary, of which 4,000,000 anyway.
        pytest.param(13 * MILLION, 13 * MILLION, Fraction("3.202976"), id="both beyond the allowance"),
        pytest.param(13 * MILLION, 0, Fraction("0.00288"), id="the secondary's allowance absorbs its part"),
        pytest.param(0, 13 * MILLION, Fraction("3.200096"), id="the primary's allowance absorbs the pings"),
        pytest.param(13 * MILLION, 12 * MILLION, Fraction("2.402976"), id="the secondary straddles its allowance"),
    ],
)
def test_two_subscriptions_have_two_ladders(used, used_secondary, extra):
    bills = Bills(STANDARD.after(used), STANDARD.after(used_secondary))
    made = forecast(three_hours(), bills, settlements=False)
    assert made.extra_charge == extra


def test_prices_that_were_named_and_are_not_there_are_no_reason_to_take_the_sample(tmp_path, settings):
    settings.PRICES_FILE = tmp_path / "none.json"
    with pytest.raises(JobFailed, match="cannot be read: No such file"):
        listed("2026-10")


def test_the_prices_are_the_samples_where_none_are_configured(tmp_path, settings, monkeypatch):
    settings.PRICES_FILE = tmp_path / "none.json"
    monkeypatch.setattr("dashboard.costs.runs.inputs.DEFAULT_PRICES", tmp_path / "none.json")
    reported = listed("2026-10")
    assert (reported.operations, reported.currency, reported.is_sample) == (STANDARD, "USD", True)
    settings.PRICES_REGION = "westeurope"
    assert listed("2026-10").is_sample, "it is not looked through for the configured region"


def test_of_several_regions_in_the_price_list_the_configured_one_counts(tmp_path, settings):
    sample = json.loads((settings.BASE_DIR / "pipeline/data/prices-sample.json").read_text())
    here = {item["meterName"]: item | {"armRegionName": "westeurope"} for item in sample["Items"]}
    dearer = here["Standard Messaging Operations"] | {"tierMinimumUnits": 0, "retailPrice": 7.0}
    rows = [*sample["Items"], here["Standard Base Unit"] | {"unitOfMeasure": "1/Hour"}, dearer]
    settings.PRICES_FILE = tmp_path / "prices.json"
    settings.PRICES_FILE.write_text(json.dumps({"Items": rows}))
    with pytest.raises(JobFailed, match="several regions"):
        listed("2026-10")
    reported = {}
    for settings.PRICES_REGION in ("eastus", "westeurope"):
        reported[settings.PRICES_REGION] = listed("2026-10").operations
        assert price_arguments(configured_prices())[-2:] == ["--region", settings.PRICES_REGION]
    assert reported == {"eastus": STANDARD, "westeurope": Price((Tier(0, Fraction(7, MILLION)),))}
    assert price_arguments("p.json", "northeurope")[-2:] == ["--region", "northeurope"]


@pytest.fixture
def viewer(as_role) -> Client:
    return as_role("viewer")


FIELDS = {"hours": 3, "messages_per_hour": 333_334, "message_bytes": 71_680, "used": 13 * MILLION}
ONE_CROSSING = {"crossings": 1, "per_gigabyte": "0.02"}


def test_the_page_answers_with_money_operations_room_and_time(viewer):
    page = viewer.get("/costs/forecast/", FIELDS | ONE_CROSSING).text
    for text in (
        "3.20",
        "8,000,",
        "at least 14 are needed",
        "16\N{NO-BREAK SPACE}min 41\N{NO-BREAK SPACE}s",
        "1.43",
        "Nothing has been metered yet",
    ):
        assert text in one_line(page)


def test_a_changed_field_is_answered_with_the_answer_alone(viewer):
    answer = viewer.get("/costs/forecast/", FIELDS, headers={"HX-Request": "true"}).text
    assert "3.20" in answer
    assert "<html" not in answer


def test_a_field_that_makes_no_sense_is_named(viewer):
    for hours in ("0", "-1", "x", "NaN", "1e9"):
        page = viewer.get("/costs/forecast/", {"hours": hours})
        assert (hours, page.status_code, "hours: " in page.text) == (hours, 200, True)


@pytest.mark.parametrize("field", ["messages_per_hour", "per_gigabyte", "hours"])
def test_a_number_that_takes_minutes_to_calculate_with_is_refused(viewer, field):
    for number in ("1e-9999999", "0e9999999", "0.0000000000001"):
        page = viewer.get("/costs/forecast/", {field: number}).text
        assert "Because of the outage" not in page, number
        assert "at most 12 decimals" in page or "greater than or equal to 0.01" in page, number


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("rule", "operations", "extra"),
    [("published", "8,003,720", "4,003,720"), ("settlements", "10,003,720", "5,003,720")],
)
def test_the_command_shows_the_worked_example_under_the_rule_of_the_installation(capsys, rule, operations, extra):
    CostRule.objects.create(rule=rule, set_by="ada", set_at=timezone.now())
    example = {"hours": "3", "messages_per_hour": "333333.33", "message_bytes": "71680", "pingers": "20"}
    call_command("forecast", **example, used=str(13 * MILLION))
    reported = capsys.readouterr().out
    assert f"{rule}: {operations} operations, {extra} more than without the outage (3,600 pings, 120 polls)" in reported
    assert "at least 14 needed" in reported


@pytest.mark.django_db
def test_the_command_names_the_option_it_cannot_read():
    with pytest.raises(CommandError, match="--messages-per-hour is 'many'"):
        call_command("forecast", messages_per_hour="many")


def pair(name: str, queues: int, every_s: float, *, configured: bool = True) -> None:
    namespaces = {"primary_namespace": name, "secondary_namespace": f"{name}-dr"}
    options = {"backlog_queue_count": queues, "ping_primary_interval_s": every_s, "is_configured": configured}
    Pair.objects.create(name=name, synced_at=timezone.now(), **namespaces, **options)


@pytest.mark.django_db
def test_a_pair_s_own_options_are_assumed_and_of_all_pairs_those_of_all():
    pair("contoso", 4, 5)
    pair("fabrikam", 16, 20)
    pair("gone", 99, 1, configured=False)

    assert present.configured("fabrikam") == present.Configured(queues=16, ping_interval_s=20)
    assert present.configured("") == present.Configured(queues=20, ping_interval_s=8)  # 1/5 + 1/20 a second, of two
    assert present.configured("nobody") == present.Configured(queues=10, ping_interval_s=60)


def test_the_page_is_filled_with_the_options_of_the_pair_it_is_about(viewer):
    pair("tailspin", 7, 33)

    page = viewer.get("/costs/forecast/", {"pair": "tailspin"}).text

    assert 'value="33"' in page
    assert 'value="7"' in page


def bill(scope: str, units: int, *kinds: str, rule: str = "published", tiers: tuple[int, ...] = ()) -> None:
    now = timezone.now()
    run = ChargeRun.objects.create(
        month=f"{now:%Y-%m}",
        started_at=now,
        heard_at=now,
        status="succeeded",
        details={"prices": PRICES, "sample_prices": False},
    )
    common = {"rule": rule, "allocation": "time", "currency": "USD", "cents": 0, "exact": "0", "units": units}
    invoice = Invoice.objects.create(run=run, month=run.month, scope=scope, tiers=list(tiers), **common)
    for kind in kinds:
        counts = {"operations": 1, "billing_units": 1, "included_units": 1, "quantity": "1", "exact": "0", "cents": 0}
        Charge.objects.create(invoice=invoice, pair="contoso", namespace=scope, entity="orders", kind=kind, **counts)


def test_the_form_asks_for_the_second_subscription_only_where_the_pair_has_two(viewer):
    bill("sub", 5, "send", "ping", "send_backlog")
    assert used("contoso").secondary is None
    assert "in the secondary" not in viewer.get("/costs/forecast/", {"pair": "contoso"}).text
    bill("sub-dr", 7, "syphon_receive_empty")
    assert used("contoso") == Used(5, 7)
    assert 'name="used_secondary" value="7"' in viewer.get("/costs/forecast/", {"pair": "contoso"}).text
    assert used("").secondary is None


def used(pair: str) -> Used:
    return present.traffic(pair, timezone.now()).used


@pytest.mark.django_db
def test_operations_of_basic_and_premium_climb_no_ladder():
    bill("sub", 20 * MILLION, "send", tiers=(13 * MILLION, MILLION, 0, 0, MILLION, 5 * MILLION))
    assert used("contoso") == Used(14 * MILLION)


REGIONS = """
[pairs.contoso]
primary = { fully_qualified_namespace = "contoso.example.com", region = "westeurope", tier = "%s" }
secondary = { fully_qualified_namespace = "dr.example.com", region = "%s", tier = "%s" }
%s
"""
SAMPLE_BANDWIDTH = Fraction(2, 100)


@pytest.fixture
def pairs_file(tmp_path: Any, settings: Any) -> Any:
    """Writes the pairs file: both tiers, the secondary's region, further keys."""
    settings.PAIRS_FILE = tmp_path / "pairs.toml"

    def write(
        primary: str = "standard", secondary: str = "standard", region: str = "northeurope", more: str = ""
    ) -> None:
        settings.PAIRS_FILE.write_text(REGIONS % (primary, region, secondary, more))

    return write


@pytest.mark.parametrize(
    ("region", "more", "crossings", "price"),
    [
        pytest.param("northeurope", "bandwidth_per_gb = 0.05", 2, Fraction(5, 100), id="as configured"),
        pytest.param("northeurope", "", 2, SAMPLE_BANDWIDTH, id="the meter of the list"),
        pytest.param("northeurope", 'bandwidth_meter = "Data Transfer Out"', 2, None, id="nobody knows"),
        pytest.param("WestEurope", "bandwidth_per_gb = 0.05", 0, None, id="one region"),
    ],
)
@pytest.mark.parametrize("pair_asked", ["contoso", ""], ids=["the pair", "all pairs"])
@pytest.mark.django_db
def test_crossing_regions_is_priced_as_the_report_prices_it(pairs_file, pair_asked, region, more, crossings, price):
    pairs_file(region=region, more=more)
    found = tariff(pair_asked, listed("2026-10"), "2026-10")
    assert (found.crossings, found.per_gigabyte) == (crossings, price)


def test_the_forecast_and_the_dialog_show_the_same_egress_as_the_bill(viewer, pairs_file):
    bill("sub", 5, "send")
    Charge.objects.update(messages=MILLION, bytes=71_680 * MILLION)
    bandwidth = PRICES[0] | {"meter": "Intra Continent Data Transfer Out", "unit": "1 GB", "price": "0.02"}
    ChargeRun.objects.update(details={"prices": [*PRICES, bandwidth], "sample_prices": False})
    ChargeRun.objects.update(started_at=timezone.now().replace(day=1, hour=1, minute=0, second=0, microsecond=0))
    for more, reported in (("bandwidth_per_gb = 0.05", "7.17"), ("", "2.87")):
        pairs_file(more=more)
        page = viewer.get("/costs/forecast/", FIELDS | {"pair": "contoso"}).text
        assert reported in page
        dialog = viewer.get("/costs/failover/", {"pair": "contoso", "path": "orders", "hours": "1"}, headers=HTMX).text
        assert f"and {reported} for traffic between the regions in both directions" in " ".join(dialog.split())
    pairs_file(region="westeurope")
    assert "leave a region" not in viewer.get("/costs/forecast/", FIELDS | {"pair": "contoso"}).text
    dialog = viewer.get("/costs/failover/", {"pair": "contoso", "path": "orders", "hours": "1"}, headers=HTMX).text
    assert "traffic between the regions" not in " ".join(dialog.split())


@pytest.mark.parametrize(
    ("primary", "secondary", "extra", "rest"),
    [
        # Of the worked example 4,003,600 operations more are in the primary than without, of which 3,600 are pings,
        # and 4,000,120 in the secondary, at 0.05 a million in Basic.
        pytest.param("premium", "premium", Fraction(0), Fraction(0), id="Premium"),
        pytest.param("basic", "basic", Fraction("0.200186"), Fraction("0.000180"), id="Basic"),
        pytest.param("standard", "premium", Fraction("0.00288"), Fraction("0.00288"), id="home from Premium"),
        pytest.param("premium", "standard", Fraction("3.200096"), Fraction(0), id="backlog on the ladder"),
    ],
)
@pytest.mark.django_db
def test_each_namespace_is_priced_by_its_tier(pairs_file, primary, secondary, extra, rest):
    pairs_file(primary, secondary)
    priced = tariff("contoso", listed("2026-10"), "2026-10")
    bills = priced.bills(Used(13 * MILLION))
    made = forecast(three_hours(), bills, settlements=False)
    assert made.extra_charge == extra
    assert bills.extra(3_600, 0) == rest


@pytest.mark.parametrize("tier", ["standard", "premium"])
@pytest.mark.django_db
def test_a_ladder_without_a_price_is_not_taken_for_premium(pairs_file, tier):
    pairs_file(tier, "premium")
    free = {"meter": OPERATIONS, "unit": "1M", "from": "0", "price": "0", "currency": "USD"}
    nothing = replace(listed("2026-10"), rows=[free])
    assert tariff("contoso", nothing, "2026-10").is_free == (tier == "premium")


@pytest.mark.django_db
def test_days_before_the_first_send_of_a_month_make_no_traffic_smaller():
    computed = datetime(2026, 3, 21, 12, tzinfo=UTC)
    bill("sub", 5, "send")
    ChargeRun.objects.update(started_at=computed)
    Invoice.objects.update(month="2026-03")
    Charge.objects.update(messages=7_200)
    assert present.traffic("contoso", computed).messages_per_hour == round(7_200 / (20 * 24 + 12))

    day = {"kind": "send", "operations": 7_200, "billing_units": 7_200, "exact": "0"}
    DailyCharge.objects.create(invoice=Invoice.objects.get(), date=date(2026, 3, 21), **day)
    assert present.traffic("contoso", computed).messages_per_hour == 600
