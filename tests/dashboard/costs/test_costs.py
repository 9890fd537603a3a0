"""The cost report: a month's charges stored whole and shown with everything that explains them."""

import csv
import io
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError
from django.test import Client
from django.utils import timezone

from dashboard.costs.reporting.report import Filters, report
from dashboard.costs.runs.charges import ChargesRequest, compute_month
from dashboard.costs.runs.jobs import JobFailed
from dashboard.costs.runs.storing import store
from dashboard.models import Charge, ChargeRun, Invoice
from tests.dashboard.markup import costs_of, one_line
from tests.dashboard.results import result_of

pytestmark = pytest.mark.django_db
MONTH = "2026-10"
CONTRACT = (
    "month,scope,namespace,entity,kind,operations,billing_units,included_units,charge,currency,units_by_tier,bytes"
)


def line(kind: str, cents: int, entity: str = "orders", namespace: str = "contoso", units: int = 0) -> dict[str, Any]:
    place = {"namespace": namespace, "entity": entity, "kind": kind, "pair": "contoso"}
    counts = {"operations": units, "messages": units, "bytes": 0, "units": units, "included": 0}
    money = {"quantity": "744.000000000000", "exact": f"{cents / 100:.12f}", "cents": cents}
    return {"record": "line", **place, **counts, **money}


def invoice(rule: str, cents: int, scope: str = "sub") -> dict[str, Any]:
    about = {"month": MONTH, "scope": scope, "rule": rule, "allocation": "time", "currency": "USD"}
    money = {"exact": f"{cents / 100:.12f}", "cents": cents}
    return {"record": "invoice", **about, **money, "units": 20_000_000, "tiers": [13_000_000, 7_000_000, 0, 0]}


PLACE = {"currency": "USD", "region": "eastus", "valid_from": "2020-01-01"}
RUN = {
    "record": "run",
    "month": MONTH,
    "allocation": "time",
    "hours_in_month": 744,
    "sample_prices": True,
    "prices": [
        {"meter": "Standard Messaging Operations", "unit": "1M", "from": "0", "price": "0.0", **PLACE},
        {"meter": "Standard Messaging Operations", "unit": "1M", "from": "13", "price": "0.8", **PLACE},
    ],
    "namespaces": [],
    "counts": {
        "read": 12,
        "accepted": 9,
        "copies": 2,
        "quarantined": 1,
        "files": 2,
        "files_rejected": 1,
        "reasons": {"the kind is unknown": 1},
        "rejected": [["usage/date=2026-10-03/x.parquet", "is empty (0 bytes)"]],
    },
}
BASE = line("base", 1_000, "*", "$system")
DAY = {"record": "day", "date": "2026-10-03", "kind": "send", "operations": 5, "units": 5, "exact": "5.600000000000"}
SEPTEMBER = [RUN, invoice("published", 1_560), line("send", 560, units=20_000_000), BASE, DAY]
BOTH_RULES = [*SEPTEMBER, invoice("settlements", 2_000), line("send", 560), line("settle", 440, units=5), BASE]


def new_run(rule: str = "published", **fields: Any) -> ChargeRun:
    now = timezone.now()
    return ChargeRun.objects.create(month=MONTH, rule=rule, started_at=now, heard_at=now, **fields)


@pytest.fixture
def stored(tmp_path: Path) -> Callable[..., ChargeRun]:
    """Stores records as the job would have written them."""

    def store_records(
        records: list[dict[str, Any]], rule: str = "published", *, may_be_empty: bool = False
    ) -> ChargeRun:
        run = new_run(rule)
        store(run, result_of(tmp_path, records), may_be_empty=may_be_empty)
        return run

    return store_records


@pytest.fixture
def viewer(as_role) -> Client:
    return as_role("viewer")


def test_a_stored_month_replaces_the_one_before_as_a_whole(stored):
    stored([*BOTH_RULES, invoice("published", 1_000, "gone"), BASE])
    again = stored(SEPTEMBER)
    assert [(each.scope, each.rule, each.cents) for each in Invoice.objects.all()] == [("sub", "published", 1_560)]
    assert Charge.objects.count() == 2
    assert again.status == ChargeRun.Status.SUCCEEDED


LINE = line("send", 560)


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([RUN, invoice("published", 9), {"record": "line", "entity": "orders"}], "KeyError: 'units'"),
        ([RUN, invoice("published", 9), LINE | {"colour": "red"}], "unexpected keyword arguments: 'colour'"),
        ([RUN, invoice("published", 9), LINE, LINE], "IntegrityError"),
        ([RUN, invoice("published", 9), LINE | {"cents": None}], "IntegrityError"),
        ([RUN, invoice("published", 9), DAY | {"date": "soon"}], "soon"),
        ([invoice("published", 9)], "the first record is not the run"),
    ],
    ids=["a field is missing", "an unknown field", "twice", "no cents", "no date", "no run"],
)
def test_a_result_that_cannot_be_stored_leaves_the_month_as_it_was(stored, records, reason):
    stored(SEPTEMBER)
    with pytest.raises(JobFailed, match=reason):
        stored(records)
    assert Invoice.objects.get().cents == 1_560


def test_a_month_that_had_usage_is_not_replaced_by_one_without_any(stored):
    """Its folder was not mounted, or another one was given."""
    empty = RUN | {"counts": RUN["counts"] | {"read": 0, "accepted": 0, "copies": 0, "quarantined": 0}}
    stored([empty])
    stored(SEPTEMBER)
    with pytest.raises(
        JobFailed, match=r"No usage of .* was found, but the last run read 12 rows: nothing was changed"
    ):
        stored([empty])
    assert Invoice.objects.get().cents == 1_560

    stored([empty], may_be_empty=True)
    assert not Invoice.objects.exists()


def test_a_result_that_breaks_off_is_refused(tmp_path):
    whole = result_of(tmp_path, SEPTEMBER).read_text().splitlines(keepends=True)
    for part, reason in ((whole[:-1], "is not complete"), ([*whole[:3], "{"], "line 4 is not a record")):
        (tmp_path / "part.jsonl").write_text("".join(part))
        with pytest.raises(JobFailed, match=reason):
            store(new_run(), tmp_path / "part.jsonl")
    assert not Invoice.objects.exists()


def test_the_report_shows_the_invoice_with_its_parts_and_its_rule(viewer, stored):
    stored(BOTH_RULES)
    page = costs_of(viewer, month=MONTH)
    texts = ("15.60", "settling is not billed", "Base charge", "10.00", "orders", "Sent", "13 × 1M", "sample prices")
    assert [text for text in texts if text not in page] == []
    for text in ("12 rows read: 9 billed, 2 repeated, 1 quarantined", "the kind is unknown", "is empty (0 bytes)"):
        assert text in one_line(page)


def test_a_row_names_its_pair_where_there_are_several(viewer, stored):
    stored(SEPTEMBER)
    assert "of pair" not in costs_of(viewer, month=MONTH)
    stored([*SEPTEMBER[:2], line("send", 300), {**line("send", 260), "pair": "fabrikam"}, BASE, DAY])
    page = costs_of(viewer, month=MONTH)
    assert page.count("<small>of pair contoso</small>") == 2
    assert page.count("<small>of pair fabrikam</small>") == 1


def test_the_newest_month_with_charges_is_shown_first(viewer, stored):
    stored(SEPTEMBER)
    assert f"Costs of {MONTH}" in viewer.get("/costs/").text


def test_a_month_without_charges_says_what_to_run(as_role):
    said = {"viewer": "An operator can compute them now.", "operator": "manage.py compute_charges --month 2026-02"}
    for role, words in said.items():
        assert words in as_role(role).get("/costs/", {"month": "2026-02"}).text


@pytest.mark.parametrize(
    ("url", "status"), [("/costs/", 200), ("/costs/reconcile/", 200), ("/costs.csv", 400), ("/costs.parquet", 400)]
)
def test_a_month_that_is_none_is_a_banner_on_pages_and_no_file(viewer, url, status):
    for month in ("2026-13", "october", "2026-1"):
        response = viewer.get(url, {"month": month})
        assert (month, response.status_code, b"YYYY-MM" in response.content) == (month, status, True)


def test_a_pair_that_is_none_is_a_sentence(viewer, stored):
    stored(SEPTEMBER)
    page = one_line(costs_of(viewer, month=MONTH, pair="nope"))
    assert ("Pair “nope” cannot be read and is not used." in page, "15.60" in page) == (True, True)


def test_a_failed_run_says_why_and_leaves_the_last_good_figures(viewer, stored):
    stored(SEPTEMBER)
    new_run(status=ChargeRun.Status.FAILED, error="No Java was found.", finished_at=timezone.now())
    page = costs_of(viewer, month=MONTH)
    assert "No Java was found." in page
    assert "15.60" in page


def test_a_running_job_shows_where_it_is_and_a_silent_one_is_called_so(viewer):
    run = new_run(stage="summing by hour", share=0.4, rows=1_234)
    page = costs_of(viewer, month=MONTH)
    assert "40 % · summing by hour · 1,234 rows" in one_line(page)
    ChargeRun.objects.filter(pk=run.pk).update(heard_at=timezone.now() - timedelta(minutes=16))
    assert "has reported nothing" in costs_of(viewer, month=MONTH)


def test_the_csv_has_the_contracts_columns_and_sums_to_the_invoice(viewer, stored):
    stored(BOTH_RULES)
    text = viewer.get("/costs.csv", {"month": MONTH}).text
    assert text.splitlines()[0] == CONTRACT
    rows = list(csv.DictReader(io.StringIO(text)))
    assert sum(round(float(row["charge"]) * 100) for row in rows) == 1_560
    assert [row["kind"] for row in rows if row["namespace"] == "$system"] == ["base"]


def test_a_job_that_fails_is_reported_in_its_own_words_and_recorded(tmp_path):
    missing = tmp_path / "prices.json"
    with pytest.raises(JobFailed, match="cannot be read: No such file"):
        compute_month(ChargesRequest(month=MONTH, usage=str(tmp_path), prices=str(missing)))
    run = ChargeRun.objects.get()
    assert (run.status, str(missing) in run.error) == (ChargeRun.Status.FAILED, True)


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (OSError(28, "No space left on device"), "OSError: [Errno 28] No space left on device."),
        (IntegrityError("UNIQUE constraint failed\nDETAIL: row"), "IntegrityError: UNIQUE constraint failed."),
        (OSError("postgres://u:hush@host is away"), "OSError: postgres://…@host is away."),
        (JobFailed("part-\udcff.parquet is no file."), "part-?.parquet is no file."),
        (KeyboardInterrupt(), "It was interrupted."),
        (SystemExit(143), "It was interrupted."),
    ],
)
def test_a_run_that_breaks_off_says_why(monkeypatch, error, reported):
    def breaks(*_: object) -> None:
        raise error

    monkeypatch.setattr("dashboard.costs.runs.charges.run_job", breaks)
    with pytest.raises(type(error)):
        compute_month(ChargesRequest(month=MONTH))
    run = ChargeRun.objects.get()
    assert (run.status, run.error) == (ChargeRun.Status.FAILED, reported)


def test_minutes_of_which_records_are_still_reported_and_written_are_left_to_the_next_run(monkeypatch, settings):
    given = []
    now = datetime(2026, 10, 5, 12, 31, 40, tzinfo=UTC)
    monkeypatch.setattr("dashboard.costs.runs.charges.timezone.now", lambda: now)
    monkeypatch.setattr("dashboard.costs.runs.charges.run_job", lambda _, words, *others: given.append(words))
    settings.USAGE_FLUSH_S = 30
    for usage in ("", "/of/others"):
        with pytest.raises(JobFailed):
            compute_month(ChargesRequest(month=MONTH, usage=usage))
    ours, others = given
    assert ours[-2:] == ["--until", "2026-10-05T12:30:00+00:00"]
    assert "--until" not in others


def test_charges_are_as_of_the_minute_until_which_they_are_priced(viewer, stored):
    stored([RUN | {"until": "2026-10-05T12:30:00+00:00"}, invoice("published", 0), BASE])
    assert 'as of <time datetime="2026-10-05T12:30:00+00:00"' in one_line(costs_of(viewer, month=MONTH))


def test_names_from_outside_are_text_on_the_page_and_in_the_csv(viewer, stored):
    names = ("<script>alert(1)</script>", '=HYPERLINK("x")')
    stored([RUN, invoice("published", 0), *(line("send", -5, entity=name) for name in names)])
    assert "<script>alert" not in costs_of(viewer, month=MONTH)
    rows = csv.DictReader(io.StringIO(viewer.get("/costs.csv", {"month": MONTH}).text))
    assert {(row["entity"], row["charge"]) for row in rows} == {(names[0], "-0.05"), (f"'{names[1]}", "-0.05")}


TWO_PAIRS = [
    RUN,
    invoice("published", 2_637),
    line("send", 400, units=18_000_000) | {"tiers": [13_000_000, 5_000_000]},
    line("send", 160, namespace="fabrikam", units=2_000_000) | {"pair": "fabrikam", "tiers": [0, 2_000_000]},
    BASE | {"pair": ""},
    line("connections", 1_077, "*") | {"pair": ""},
    invoice("published", 1_000, "other-sub"),
    line("send", 0, namespace="tailspin", units=7) | {"pair": "tailspin", "tiers": [7, 0]},
    BASE | {"pair": ""},
]
"""The pairs contoso and fabrikam have one billing scope, tailspin has another."""


def cells(page: str, label: str) -> list[str]:
    """The cells of a table with this label."""
    return [found.strip() for found in re.findall(rf'data-label="{label}"[^>]*>([^<]*)<', one_line(page))]


def test_of_one_pair_the_tiers_are_those_of_its_scope(viewer, stored):
    stored(TWO_PAIRS)
    whole = costs_of(viewer, month=MONTH)
    assert cells(whole, "Billable units in it") == ["13,000,000", "7,000,000"] * 2
    page = costs_of(viewer, month=MONTH, pair="fabrikam")
    assert cells(page, "Billable units in it") == ["13,000,000", "7,000,000"]
    assert "other-sub" not in page


def test_of_one_pair_what_is_counted_for_all_pairs_says_so(viewer, stored):
    stored(TWO_PAIRS)
    Invoice.objects.filter(scope="sub").update(unpriced_bytes=10**9)
    of_all = (
        "12 rows of all pairs read: 9 billed",
        "Quarantined: 1 rows of all pairs, the kind is unknown",
        "transferred between regions by all pairs together",
        "CSV of all pairs</a>",
        "Parquet of all pairs</a>",
    )
    page = one_line(costs_of(viewer, month=MONTH, pair="contoso"))
    assert [text for text in of_all if text not in page] == []
    page = one_line(costs_of(viewer, month=MONTH))
    assert "all pairs together" not in page
    assert "of all pairs" not in page


@pytest.mark.parametrize(
    ("filters", "parts"),
    [
        ({}, {"base": 2_000, "operations": 560, "connections": 1_077}),
        ({"pair": "contoso"}, {"operations": 400}),
        ({"entity": "orders"}, {"operations": 560}),
        ({"namespace": "contoso"}, {"operations": 400, "connections": 1_077}),
        ({"kind": "connections"}, {"connections": 1_077}),
    ],
)
def test_what_cannot_be_attributed_is_no_part_of_0(viewer, stored, filters, parts):
    stored(TWO_PAIRS)
    found = report(MONTH, Filters(**filters))
    assert found
    assert {part.name: part.cents for part in found.parts} == parts
    page = one_line(costs_of(viewer, month=MONTH, **filters))
    assert ("in no part of this sum" in page) == bool(filters)


def test_what_two_pairs_use_of_one_namespace_is_distinguished_and_one_row_of_the_csv(viewer, stored):
    alpha, beta = (line("send_backlog", 280, units=10) | {"pair": name} for name in ("alpha", "beta"))
    stored([RUN, invoice("published", 1_560), alpha, beta, BASE, DAY])
    assert '<p class="sum">2.80' in costs_of(viewer, month=MONTH, pair="beta")
    rows = list(csv.DictReader(io.StringIO(viewer.get("/costs.csv", {"month": MONTH}).text)))
    reported = {row["kind"]: (row["operations"], row["billing_units"], row["charge"]) for row in rows}
    assert (reported["send_backlog"], len(rows)) == (("20", "20", "5.60"), 2)


def test_the_base_charge_of_a_premium_namespace_is_that_of_the_namespace(stored):
    stored([RUN, invoice("published", 70_566), BASE, line("base", 69_006, "*", "large"), line("send", 560)])
    found = report(MONTH)
    assert found
    assert {part.name: part.cents for part in found.by_namespace} == {"large": 69_006, "contoso": 560}
