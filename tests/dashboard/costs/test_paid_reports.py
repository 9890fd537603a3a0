"""A past month is computed with the inputs of its last run, and each of its results that differed can be had again."""

import csv
import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from dashboard.costs.runs.charges import ChargesRequest, compute_month, request_run, store_result
from dashboard.costs.runs.storing import store
from dashboard.models import ChargeRun, CostRule, MonthlyReport
from pipeline.months import Month
from tests.dashboard.costs.test_costs import BASE, MONTH, RUN, SEPTEMBER, invoice, line
from tests.dashboard.markup import costs_of
from tests.dashboard.results import result_of

pytestmark = pytest.mark.django_db
OTHER = [RUN, invoice("published", 1_660), line("send", 600), line("ping", 60), BASE]
NAMESPACE = {"record": "namespace", "name": "contoso", "scope": "sub", "tier": "basic", "messaging_units": 1}


def stored(folder: Path, records: Sequence[dict[str, Any]], at: datetime) -> ChargeRun:
    run = ChargeRun.objects.create(month=MONTH, started_at=at, heard_at=at)
    store(run, result_of(folder, records))
    return run


def test_of_a_past_month_each_result_that_differed_can_be_had_again_with_what_changed(tmp_path, as_role):
    end = Month.parse(MONTH).end
    running = stored(tmp_path, [RUN, invoice("published", 1_000), BASE], end - timedelta(days=9))
    first, same, last = (
        stored(tmp_path, records, end + timedelta(days=number))
        for number, records in enumerate((SEPTEMBER, SEPTEMBER, OTHER))
    )
    assert list(MonthlyReport.objects.values_list("run_id", "cents")) == [(last.pk, 1_660), (first.pk, 1_560)]

    viewer = as_role("viewer")
    page = costs_of(viewer, month=MONTH)
    assert [f"/costs/reports/{run.pk}.csv" in page for run in (running, first, same, last)] == [
        False, True, False, True,
    ]  # fmt: skip
    paid = list(csv.DictReader(io.StringIO(viewer.get(f"/costs/reports/{first.pk}.csv").text)))
    assert [(row["kind"], row["charge"]) for row in paid] == [("base", "10.00"), ("send", "5.60")]
    changed = csv.DictReader(io.StringIO(viewer.get(f"/costs/reports/{last.pk}/changes.csv").text))
    assert [(row["kind"], row["charge_before"], row["charge"], row["difference"]) for row in changed] == [
        ("ping", "0.00", "0.60", "0.60"),
        ("send", "5.60", "6.00", "0.40"),
    ]


def test_of_a_running_month_the_newest_result_is_kept(tmp_path):
    before = Month.parse(MONTH).end - timedelta(days=3)
    for number, records in enumerate((SEPTEMBER, OTHER)):
        run = stored(tmp_path, records, before + timedelta(days=number))
    assert MonthlyReport.objects.get().run == run


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """The inputs of each job; it is not started, its result is that of its inputs."""
    seen: list[dict[str, Any]] = []

    def job(module: str, arguments: Sequence[str], *_: object) -> None:
        words = [word for word in arguments if word != "--may-be-empty"]
        given = dict(zip(words[::2], words[1::2], strict=True))
        read = {
            name: json.loads(Path(given[name]).read_text()) for name in ("--prices", "--namespaces") if name in given
        }
        seen.append({name: given.get(name) for name in ("--allocation", "--hours-in-month")} | read)
        result = result_of(tmp_path, [RUN | {"namespaces": [NAMESPACE]}, *SEPTEMBER[1:], invoice("settlements", 20)])
        Path(given["--result"]).write_bytes(result.read_bytes())

    monkeypatch.setattr("dashboard.costs.runs.charges.run_job", job)
    return seen


def test_a_past_month_is_computed_with_the_inputs_of_its_last_run(jobs, settings, tmp_path, monkeypatch):
    settings.PAIRS_FILE = tmp_path / "none"
    monkeypatch.setattr("dashboard.costs.runs.inputs.configured_prices", lambda: "")
    first = compute_month(ChargesRequest(month=MONTH, rule="settlements", allocation="pro-rata"))
    CostRule.objects.create(rule="published", allocation="time", set_by="ada", set_at=timezone.now())
    again = compute_month(ChargesRequest(month=MONTH))
    assert [(run.rule, run.allocation) for run in (first, again)] == [("settlements", "pro-rata")] * 2
    rows = [(row["meterName"], row["tierMinimumUnits"], row["retailPrice"]) for row in jobs[1]["--prices"]["Items"]]
    assert rows == [(row["meter"], row["from"], row["price"]) for row in RUN["prices"]]
    assert jobs[1]["--prices"]["Sample"]
    assert (jobs[1]["--namespaces"], jobs[1]["--hours-in-month"]) == (NAMESPACE, "744")

    todays = compute_month(ChargesRequest(month=MONTH, todays_inputs=True))
    assert (todays.rule, todays.allocation, "--namespaces" in jobs[2]) == ("published", "time", False)


def test_a_running_month_is_computed_with_the_inputs_of_today(jobs, monkeypatch):
    monkeypatch.setattr("dashboard.costs.runs.inputs.timezone.now", lambda: datetime(2026, 10, 9, tzinfo=UTC))
    compute_month(ChargesRequest(month=MONTH, rule="settlements"))
    assert compute_month(ChargesRequest(month=MONTH)).rule == "published"


def test_a_result_from_elsewhere_is_stored_under_the_rule_of_the_month(tmp_path):
    both = result_of(tmp_path, [*SEPTEMBER, invoice("settlements", 2_000), line("settle", 440, units=5)])
    assert store_result(both, "settlements", "command").rule == "settlements"
    again = store_result(both, "", "command")
    assert [(bill.rule, bill.cents) for bill in again.invoices.all()] == [("settlements", 2_000)]


def test_a_run_prices_late_days_and_remembers_what_was_asked_for(jobs):
    run, is_new = request_run(MONTH, "olga", timezone.now(), todays_inputs=True)
    assert (is_new, run.details) == (True, {"todays_inputs": True})
