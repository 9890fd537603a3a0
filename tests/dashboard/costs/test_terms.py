"""What was chosen stays chosen: terms of a month, or of all months, hold for every run, and are changed on record."""

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from dashboard.costs.charges import ChargesRequest, compute_month, request_run, rule_of, take_requested
from dashboard.costs.jobs import JobFailed
from dashboard.costs.storing import close_month
from dashboard.costs.terms import ClosedTerms, set_terms, terms_of
from dashboard.models import Adjustment, AuditEntry, ChargeRun, CostTerms
from pipeline.months import Month
from pipeline.prices import read_prices
from tests.dashboard.costs.test_costs import BASE, BOTH_RULES, MONTH, RUN, SEPTEMBER, invoice, line
from tests.dashboard.costs.test_result_file import write
from tests.dashboard.markup import one_line

pytestmark = pytest.mark.django_db
PRICES = [
    {"meter": meter, "unit": unit, "from": start, "price": price, "currency": "USD", "region": "eastus",
     "valid_from": "2018-05-01"}
    for meter, unit, start, price in (
        ("Standard Base Unit", "1/Hour", "0", "0.0134410"),
        ("Standard Messaging Operations", "1M", "0", "0.0"),
        ("Standard Messaging Operations", "1M", "13", "0.8"),
    )
]  # fmt: skip


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> list[dict[str, str]]:
    """The options of each run; the job is not started, its result is always the same month."""
    settings.PRICES_FILE, settings.PAIRS_FILE = tmp_path / "none.json", tmp_path / "none.toml"
    monkeypatch.setattr("dashboard.costs.charges.DEFAULT_PRICES", settings.PRICES_FILE)
    found: list[dict[str, str]] = []

    def job(module: str, arguments: Sequence[str], on_progress: object, usage: str) -> None:
        options = {name[2:]: value for name, value in pairwise(arguments) if name[:2] == "--"}
        options["price rows"] = Path(options["prices"]).read_text() if "prices" in options else ""
        found.append(options)
        hours = int(options.get("hours-in-month", "744"))
        run = RUN | {"prices": PRICES, "hours_in_month": hours, "allocation": options["allocation"]}
        allocated = [row | ({"allocation": run["allocation"]} if "allocation" in row else {}) for row in BOTH_RULES[1:]]
        write(Path(options["result"]), [run, *allocated])

    monkeypatch.setattr("dashboard.costs.charges.run_job", job)
    return found


def by_night(month: str = MONTH) -> ChargeRun:
    return compute_month(ChargesRequest(month=month))


def by_hand(**given: Any) -> None:
    call_command("compute_charges", month=MONTH, **given)


def chosen(options: dict[str, str]) -> tuple[str | None, ...]:
    return tuple(options.get(name) for name in ("allocation", "hours-in-month", "prices", "region"))


def test_the_night_computes_as_an_operator_did_by_hand(runs: list[dict[str, str]], tmp_path: Path) -> None:
    prices = tmp_path / "mine.json"
    prices.write_text("{}")
    by_night()
    by_hand(hours_in_month=730, allocation="pro-rata", prices=str(prices), region="eastus", rule="settlements")
    run = by_night()
    assert chosen(runs[0]) == ("time", None, None, None)
    assert chosen(runs[1]) == chosen(runs[2]) == ("pro-rata", "730", str(prices), "eastus")
    assert (run.rule, run.allocation, run.details["terms"]["hours_in_month"]) == ("settlements", "pro-rata", 730)
    by_night("2026-11")
    assert chosen(runs[3]) == ("time", None, None, None)
    entry = AuditEntry.objects.get()
    assert (entry.verb, entry.operator, entry.target) == ("set_cost_terms", "command", MONTH)
    assert "hours in the month: 730" in entry.detail


def test_what_is_chosen_for_all_months_holds_where_nothing_else_is(runs: list[dict[str, str]]) -> None:
    by_hand(hours_in_month=730, for_all_months=True)
    set_terms("2026-11", {"allocation": "pro-rata"}, "olga", timezone.now())
    by_night("2026-11")
    by_night("2026-12")
    assert [chosen(each)[:2] for each in runs[1:]] == [("pro-rata", "730"), ("time", "730")]


def test_a_run_that_fails_chooses_nothing(runs: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: object) -> None:
        raise JobFailed("no")

    monkeypatch.setattr("dashboard.costs.charges.run_job", fails)
    with pytest.raises(CommandError):
        by_hand(hours_in_month=730)
    assert not CostTerms.objects.exists()


def test_what_the_page_asks_for_is_computed_with_the_same_terms(runs: list[dict[str, str]]) -> None:
    set_terms(MONTH, {"rule": "settlements", "hours_in_month": 730}, "olga", timezone.now())
    request_run(MONTH, "olga", timezone.now())
    call_command("compute_charges", wanted=True)
    assert take_requested(timezone.now()) is None
    run = ChargeRun.objects.get()
    assert (run.rule, runs[0]["hours-in-month"]) == ("settlements", "730")


def test_a_closed_month_keeps_its_terms_and_its_price_rows(runs: list[dict[str, str]], tmp_path: Path) -> None:
    by_hand(hours_in_month=730)
    close_month(MONTH, timezone.now())
    set_terms("*", {"hours_in_month": 720, "allocation": "pro-rata", "prices": "/new.json"}, "olga", timezone.now())
    by_night()
    assert chosen(runs[1])[:2] == ("time", "730")
    path = tmp_path / "kept.json"
    path.write_text(runs[1]["price rows"])
    rows = read_prices(path, Month.parse(MONTH), "eastus").rows
    assert [(row.meter, str(row.minimum), str(row.price)) for row in rows] == [
        (row["meter"], row["from"], row["price"]) for row in PRICES
    ]
    with pytest.raises(CommandError, match=r"is closed and keeps its terms.*: hours in the month"):
        by_hand(hours_in_month=720)
    with pytest.raises(JobFailed, match="is closed"):
        set_terms(MONTH, {"hours_in_month": 720}, "olga", timezone.now())
    by_hand(hours_in_month=730)
    assert not Adjustment.objects.exists()


def price_file(path: Path, rows: Sequence[dict[str, str]]) -> Path:
    items = [
        {"meterName": row["meter"], "skuName": "Standard", "unitOfMeasure": row["unit"],
         "tierMinimumUnits": row["from"], "retailPrice": row["price"], "currencyCode": row["currency"],
         "armRegionName": row["region"], "effectiveStartDate": row["valid_from"]}
        for row in rows
    ]  # fmt: skip
    path.write_text(json.dumps({"Items": items}))
    return path


@pytest.fixture
def closed(runs: list[dict[str, str]]) -> None:
    by_night()
    close_month(MONTH, timezone.now())


def test_a_closed_month_is_computed_with_the_terms_that_it_has_when_they_are_given(
    closed: None, tmp_path: Path
) -> None:
    elsewhere = [row | {"region": "westeurope", "price": "9"} for row in PRICES]
    prices = str(price_file(tmp_path / "prices.json", [*PRICES, *elsewhere]))
    by_hand(region="EastUS", prices=prices, rule="published", allocation="time", hours_in_month=744)
    by_hand(prices=prices)
    assert not Adjustment.objects.exists()


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"rule": "settlements"}, "rule"),
        ({"region": "westeurope"}, "region"),
        ({"allocation": "pro-rata"}, "allocation"),
        ({"prices": "dearer.json"}, "price list"),
        ({"prices": "dearer.json", "rule": "settlements", "region": "westeurope"}, "rule, region, price list"),
    ],
)
def test_a_closed_month_refuses_other_terms_from_a_shell_by_name(
    closed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    price_file(Path("dearer.json"), [*PRICES[:2], PRICES[2] | {"price": "0.9"}])
    before = ChargeRun.objects.get()
    with pytest.raises(CommandError) as caught:
        by_hand(**given)
    others = str(caught.value).removesuffix(".").split(": ")
    assert others[0] == f"{MONTH} is closed and keeps its terms, but others were given"
    assert set(others[1].split(", ")) == set(name.split(", "))
    assert ChargeRun.objects.get(status=ChargeRun.Status.SUCCEEDED) == before


def test_a_closed_month_keeps_its_rule_when_another_is_chosen_for_all_months(
    closed: None, as_role: Callable[[str], Client]
) -> None:
    set_terms("*", {"rule": "settlements", "allocation": "pro-rata"}, "olga", timezone.now())
    run = by_night()
    assert (run.rule, run.allocation, rule_of(MONTH)) == ("published", "time", "published")
    page = one_line(as_role("viewer").get("/costs/", {"month": MONTH}).content.decode())
    assert (
        f"Next run of {MONTH}: rule published, allocation time, 744 hours in the month, region eastus, the price rows "
        "with which it was closed."
    ) in page


def test_a_run_of_a_closed_month_prints_what_each_scope_owes_now(
    closed: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dearer = [*SEPTEMBER[1:2], line("send", 600, units=20_000_000), BASE]
    late = [invoice("published", 1_000) | {"scope": "sub-3"}, BASE]
    result = write(tmp_path / "late.jsonl", [RUN | {"prices": PRICES}, *dearer, *late])
    call_command("compute_charges", store=result)
    written = capsys.readouterr().out.splitlines()
    assert [row for row in written if "USD" in row] == ["sub: 16.00 USD (published)", "sub-3: 10.00 USD (published)"]


def test_a_result_from_elsewhere_with_other_terms_is_refused_for_a_closed_month(
    runs: list[dict[str, str]], tmp_path: Path
) -> None:
    by_night()
    close_month(MONTH, timezone.now())
    same, other = RUN | {"prices": PRICES}, RUN | {"prices": PRICES, "hours_in_month": 720}
    call_command("compute_charges", store=write(tmp_path / "same.jsonl", [same, *BOTH_RULES[1:]]))
    with pytest.raises(CommandError, match="is closed"):
        call_command("compute_charges", store=write(tmp_path / "other.jsonl", [other, *BOTH_RULES[1:]]))
    with pytest.raises(CommandError, match="is closed and keeps its terms, but others were given: rule"):
        call_command("compute_charges", store=tmp_path / "same.jsonl", rule="settlements")
    set_terms("*", {"rule": "settlements"}, "olga", timezone.now())
    call_command("compute_charges", store=tmp_path / "same.jsonl")
    assert rule_of(MONTH) == "published"


@pytest.mark.parametrize(
    ("option", "names"),
    [
        (["--usage", "folder"], "--usage"),
        (["--prices", "prices.json", "--region", "eastus"], "--prices, --region"),
        (["--allocation", "pro-rata", "--hours-in-month", "100"], "--allocation, --hours-in-month"),
        (["--hours-in-month", "0"], "--hours-in-month"),
        (["--max-quarantined", "1"], "--max-quarantined"),
    ],
)
def test_what_the_job_has_to_be_given_is_refused_beside_its_result(
    tmp_path: Path, option: list[str], names: str
) -> None:
    result = write(tmp_path / "result.jsonl", BOTH_RULES)
    with pytest.raises(CommandError) as caught:
        call_command("compute_charges", "--store", str(result), *option)
    assert str(caught.value) == (
        f"--store takes a result as it was computed: give {names} to the job that computes it."
    )
    assert not ChargeRun.objects.exists()
    assert not CostTerms.objects.exists()


def test_terms_for_all_months_are_not_chosen_by_storing_a_result(tmp_path: Path) -> None:
    result = write(tmp_path / "result.jsonl", BOTH_RULES)
    with pytest.raises(CommandError, match=r"--for-all-months records the terms of a run here.*choose.* on /costs/"):
        call_command("compute_charges", store=result, rule="settlements", for_all_months=True)
    assert not CostTerms.objects.exists()


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        (
            {"allocation": "pro-rata", "hours_in_month": 100},
            f"with allocation time, hours in the month 744, but the terms chosen for {MONTH} are allocation pro-rata, "
            "hours in the month 100: run the job again with --allocation pro-rata --hours-in-month 100.",
        ),
        (
            {"allocation": "time", "hours_in_month": 730},
            f"with hours in the month 744, but the terms chosen for {MONTH} are hours in the month 730: "
            "run the job again with --allocation time --hours-in-month 730.",
        ),
    ],
)
@pytest.mark.parametrize("of", [MONTH, "*"])
def test_a_result_with_other_terms_than_those_chosen_is_refused_with_both(
    tmp_path: Path, chosen: dict[str, Any], sentence: str, of: str
) -> None:
    set_terms(of, chosen, "olga", timezone.now())
    with pytest.raises(CommandError) as caught:
        call_command("compute_charges", store=write(tmp_path / "result.jsonl", BOTH_RULES))
    assert str(caught.value) == f"The result was computed {sentence}"
    assert not ChargeRun.objects.exists()


def test_a_result_with_the_chosen_terms_is_stored_and_one_for_which_nothing_was_chosen_as_it_is(
    tmp_path: Path,
) -> None:
    result = write(
        tmp_path / "result.jsonl", [RUN | {"allocation": "pro-rata", "hours_in_month": 730}, *BOTH_RULES[1:]]
    )
    call_command("compute_charges", store=result)
    set_terms(MONTH, {"allocation": "pro-rata", "hours_in_month": 730}, "olga", timezone.now())
    set_terms("*", {"allocation": "time"}, "olga", timezone.now())
    call_command("compute_charges", store=result)
    assert [run.allocation for run in ChargeRun.objects.all()] == ["pro-rata", "pro-rata"]


def test_a_result_with_other_prices_than_those_of_the_chosen_list_is_refused(tmp_path: Path) -> None:
    closed = ClosedTerms(rule="published", allocation="time", hours_in_month=744, rows=PRICES, is_sample=False)
    chosen = {"prices": closed.write_prices(tmp_path), "region": "EastUS"}
    set_terms(MONTH, chosen, "olga", timezone.now())
    same, other = RUN | {"prices": PRICES}, RUN | {"prices": [*PRICES[:2], PRICES[2] | {"price": "0.9"}]}
    call_command("compute_charges", store=write(tmp_path / "same.jsonl", [same, *BOTH_RULES[1:]]))
    with pytest.raises(CommandError) as caught:
        call_command("compute_charges", store=write(tmp_path / "other.jsonl", [other, *BOTH_RULES[1:]]))
    assert str(caught.value) == (
        "The result was computed with other prices than those of the price list and region chosen for "
        f"{MONTH}: run the job again with --prices {chosen['prices']} --region EastUS."
    )
    assert ChargeRun.objects.count() == 1


@pytest.mark.parametrize(("given", "adjusted"), [({"hours_in_month": 720}, []), ({}, [100])])
def test_a_run_with_other_terms_stores_nothing_if_the_month_is_closed_meanwhile(
    runs: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], adjusted: list[int]
) -> None:
    by_night()

    def job(module: str, arguments: Sequence[str], on_progress: object, usage: str) -> None:
        close_month(MONTH, timezone.now())
        options = dict(pairwise(arguments))
        run = RUN | {"prices": PRICES, "hours_in_month": int(options.get("--hours-in-month", 744))}
        write(Path(options["--result"]), [run, invoice("published", 1_660), line("send", 660, units=20_000_000), BASE])

    monkeypatch.setattr("dashboard.costs.charges.run_job", job)
    request = ChargesRequest(month=MONTH, **given)
    if given:
        with pytest.raises(JobFailed, match="is closed and keeps its terms, but others were given: hours in the month"):
            compute_month(request)
    else:
        compute_month(request)
    assert [each.cents for each in Adjustment.objects.filter(invoice__rule="published")] == adjusted


def test_the_rule_given_with_a_result_is_chosen_for_the_month(runs: list[dict[str, str]], tmp_path: Path) -> None:
    output = tmp_path / "charges.csv"
    result = write(tmp_path / "result.jsonl", BOTH_RULES)
    call_command("compute_charges", store=result, rule="settlements", output=output)
    assert "settle" in output.read_text()
    assert (terms_of(MONTH).rule, by_night().rule) == ("settlements", "settlements")
    call_command("compute_charges", store=result, close=True)
    assert ChargeRun.objects.filter(rule="settlements", status=ChargeRun.Status.SUCCEEDED).count() == 3


def test_an_operator_sees_and_sets_the_terms(runs: list[dict[str, str]], as_role: Callable[[str], Client]) -> None:
    by_night()
    operator = as_role("operator")
    given = {"month": MONTH, "of": MONTH, "rule": "settlements", "allocation": "", "hours_in_month": "730"}
    for _ in range(2):
        assert operator.post("/costs/terms/", given).headers["Location"] == f"/costs/?month={MONTH}#terms"
    assert AuditEntry.objects.filter(verb="set_cost_terms", target=MONTH).count() == 1
    page = one_line(operator.get("/costs/", {"month": MONTH}).content.decode())
    assert f"Next run of {MONTH}: rule settlements, allocation time, 730 hours in the month" in page
    operator.post("/costs/terms/", given | {"of": "*", "hours_in_month": "720"})
    operator.post("/costs/terms/", given | {"rule": "", "hours_in_month": ""})
    assert (terms_of(MONTH).hours_in_month, terms_of(MONTH).rule) == (720, "settlements")
    refused = operator.post("/costs/terms/", given | {"hours_in_month": "0"})
    assert (refused.status_code, "Hours in the month: Ensure" in refused.text) == (400, True)
    assert operator.post("/costs/terms/", given | {"of": "2026-01"}).status_code == 400


def test_a_viewer_may_not_set_them(as_role: Callable[[str], Client]) -> None:
    assert as_role("viewer").post("/costs/terms/", {"month": MONTH, "of": "*"}).status_code == 403
    assert not CostTerms.objects.exists()
