"""The cost report: a month's charges stored whole and shown with everything that explains them."""

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import IntegrityError
from django.test import Client
from django.utils import timezone

from dashboard.costs.charges import ChargesRequest, compute_month
from dashboard.costs.jobs import JobFailed
from dashboard.costs.report import Filters, report
from dashboard.costs.storing import close_month, store
from dashboard.models import Adjustment, Charge, ChargeRun, Invoice
from tests.dashboard.markup import one_line

pytestmark = pytest.mark.django_db
MONTH = "2026-10"
CONTRACT = "month,scope,namespace,entity,kind,operations,billing_units,included_units,charge,currency"


def line(kind: str, cents: int, entity: str = "orders", namespace: str = "contoso", units: int = 0) -> dict[str, Any]:
    return {
        "record": "line",
        "namespace": namespace,
        "entity": entity,
        "kind": kind,
        "pair": "contoso",
        "operations": units,
        "messages": units,
        "bytes": 0,
        "units": units,
        "included": 0,
        "quantity": "744.000000000000",
        "exact": f"{cents / 100:.12f}",
        "cents": cents,
    }


def invoice(rule: str, cents: int, scope: str = "sub") -> dict[str, Any]:
    return {
        "record": "invoice",
        "month": MONTH,
        "scope": scope,
        "rule": rule,
        "allocation": "time",
        "currency": "USD",
        "exact": f"{cents / 100:.12f}",
        "cents": cents,
        "units": 20_000_000,
        "tiers": [13_000_000, 7_000_000, 0, 0],
    }


RUN = {
    "record": "run",
    "month": MONTH,
    "allocation": "time",
    "hours_in_month": 744,
    "sample_prices": True,
    "prices": [
        {"meter": "Standard Messaging Operations", "unit": "1M", "from": "0", "price": "0.0", "currency": "USD"},
        {"meter": "Standard Messaging Operations", "unit": "1M", "from": "13", "price": "0.8", "currency": "USD"},
    ],
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
        path = tmp_path / "result.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        run = new_run(rule)
        store(run, path, may_be_empty=may_be_empty)
        return run

    return store_records


@pytest.fixture
def viewer(client: Client) -> Client:
    user = User.objects.create_user("vera", password="correct horse battery")
    user.groups.add(Group.objects.get(name="viewer"))
    client.force_login(user)
    return client


def test_a_stored_month_replaces_the_one_before_as_a_whole(stored: Callable[..., ChargeRun]) -> None:
    stored([*BOTH_RULES, invoice("published", 1_000, "gone"), BASE])
    again = stored(SEPTEMBER)
    assert [(each.scope, each.rule, each.cents) for each in Invoice.objects.all()] == [("sub", "published", 1_560)]
    assert Charge.objects.count() == 2
    assert again.status == ChargeRun.Status.SUCCEEDED


def test_a_result_that_breaks_off_leaves_the_month_as_it_was(stored: Callable[..., ChargeRun]) -> None:
    stored(SEPTEMBER)
    with pytest.raises(KeyError):
        stored([RUN, invoice("published", 9_999), {"record": "line", "entity": "orders"}])
    assert Invoice.objects.get().cents == 1_560


def test_a_month_that_had_usage_is_not_replaced_by_one_without_any(stored: Callable[..., ChargeRun]) -> None:
    """Its folder was not mounted, or another one was given."""
    empty = RUN | {"counts": RUN["counts"] | {"read": 0, "accepted": 0, "copies": 0, "quarantined": 0}}  # type: ignore[operator]
    stored([empty])
    stored(SEPTEMBER)
    with pytest.raises(
        JobFailed, match=r"No usage of .* was found, but the last run read 12 rows: nothing was changed"
    ):
        stored([empty])
    assert Invoice.objects.get().cents == 1_560

    stored([empty], may_be_empty=True)
    assert not Invoice.objects.exists()


def test_the_report_shows_the_invoice_with_its_parts_and_the_range_of_the_two_rules(
    viewer: Client, stored: Callable[..., ChargeRun]
) -> None:
    stored(BOTH_RULES)
    page = viewer.get("/costs/", {"month": MONTH}).content.decode()
    for text in (
        "15.60",
        "between 15.60 and 20.00",
        "Base charge",
        "10.00",
        "orders",
        "Sent",
        "13 × 1M",
        "bundled sample prices",
    ):
        assert text in page
    for text in ("12 rows read: 9 billed, 2 repeated, 1 quarantined", "the kind is unknown", "is empty (0 bytes)"):
        assert text in one_line(page)


def test_a_row_names_its_pair_where_there_are_several(viewer: Client, stored: Callable[..., ChargeRun]) -> None:
    stored(SEPTEMBER)
    assert "of pair" not in viewer.get("/costs/", {"month": MONTH}).content.decode()
    stored([*SEPTEMBER[:2], line("send", 300), {**line("send", 260), "pair": "fabrikam"}, BASE, DAY])
    page = viewer.get("/costs/", {"month": MONTH}).content.decode()
    assert page.count("<small>of pair contoso</small>") == 2
    assert page.count("<small>of pair fabrikam</small>") == 1


def test_the_other_rule_can_be_chosen(viewer: Client, stored: Callable[..., ChargeRun]) -> None:
    stored(BOTH_RULES)
    page = viewer.get("/costs/", {"month": MONTH, "rule": "settlements"}).content.decode()
    assert "Settled" in page
    assert '<p class="sum">20.00' in page


def test_the_newest_month_with_charges_is_shown_first(viewer: Client, stored: Callable[..., ChargeRun]) -> None:
    stored(SEPTEMBER)
    assert f"Costs of {MONTH}" in viewer.get("/costs/").content.decode()


def test_a_month_without_charges_says_what_to_run(viewer: Client) -> None:
    page = viewer.get("/costs/", {"month": "2026-02"}).content.decode()
    assert "An operator can compute them now." in page

    User.objects.get().groups.add(Group.objects.get(name="operator"))
    page = viewer.get("/costs/", {"month": "2026-02"}).content.decode()
    assert "python manage.py compute_charges --month 2026-02" in page


@pytest.mark.parametrize("month", ["2026-13", "october", "2026-1"])
@pytest.mark.parametrize("url", ["/costs/", "/costs.csv"])
def test_a_month_that_is_none_is_refused(viewer: Client, url: str, month: str) -> None:
    response = viewer.get(url, {"month": month})
    assert (response.status_code, b"YYYY-MM" in response.content) == (400, True)


def test_a_failed_run_says_why_and_leaves_the_last_good_figures(
    viewer: Client, stored: Callable[..., ChargeRun]
) -> None:
    stored(SEPTEMBER)
    new_run(status=ChargeRun.Status.FAILED, error="No Java was found.", finished_at=timezone.now())
    page = viewer.get("/costs/", {"month": MONTH}).content.decode()
    assert "No Java was found." in page
    assert "15.60" in page


def test_a_running_job_shows_where_it_is_and_a_silent_one_is_called_so(viewer: Client) -> None:
    run = new_run(stage="summing by hour", share=0.4, rows=1_234)
    page = viewer.get("/costs/", {"month": MONTH}).content.decode()
    assert "40 % · summing by hour · 1,234 rows" in one_line(page)
    ChargeRun.objects.filter(pk=run.pk).update(heard_at=timezone.now() - timedelta(minutes=16))
    assert "has reported nothing" in viewer.get("/costs/", {"month": MONTH}).content.decode()


def test_the_csv_has_the_contracts_columns_and_sums_to_the_invoice(
    viewer: Client, stored: Callable[..., ChargeRun]
) -> None:
    stored(BOTH_RULES)
    text = viewer.get("/costs.csv", {"month": MONTH}).content.decode()
    assert text.splitlines()[0] == CONTRACT
    rows = list(csv.DictReader(io.StringIO(text)))
    assert sum(round(float(row["charge"]) * 100) for row in rows) == 1_560
    assert [row["kind"] for row in rows if row["namespace"] == "$system"] == ["base"]


def test_the_csv_takes_the_rule_the_month_was_computed_with(viewer: Client, stored: Callable[..., ChargeRun]) -> None:
    stored(BOTH_RULES, rule="settlements")
    assert ",settle," in viewer.get("/costs.csv", {"month": MONTH}).content.decode()


@pytest.mark.parametrize("url", ["/costs/", "/costs.csv"])
def test_a_stranger_is_sent_to_the_login(client: Client, url: str) -> None:
    assert client.get(url).headers["Location"].startswith("/login/")


def test_a_job_that_fails_is_reported_in_its_own_words_and_recorded(tmp_path: Path) -> None:
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
        (JobFailed("part-\udcff.parquet is no file\0 of usage."), "part-\ufffd.parquet is no file\ufffd of usage."),
        (KeyboardInterrupt(), "It was interrupted."),
        (SystemExit(143), "It was interrupted."),
    ],
)
def test_a_run_that_breaks_off_says_why(monkeypatch: pytest.MonkeyPatch, error: BaseException, reported: str) -> None:
    def breaks(*_: object) -> None:
        raise error

    monkeypatch.setattr("dashboard.costs.charges.run_job", breaks)
    with pytest.raises(type(error)):
        compute_month(ChargesRequest(month=MONTH))
    run = ChargeRun.objects.get()
    assert (run.status, run.error) == (ChargeRun.Status.FAILED, reported)


def test_a_run_whose_description_the_database_rejects_does_not_stay_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def job(module: str, arguments: Sequence[str], *_: object) -> None:
        text = json.dumps(RUN).replace('"hours_in_month": 744', '"hours_in_month": 1e400')
        Path(arguments[arguments.index("--result") + 1]).write_text(text)

    monkeypatch.setattr("dashboard.costs.charges.run_job", job)
    with pytest.raises(JobFailed, match="has a number that cannot be stored"):
        compute_month(ChargesRequest(month=MONTH))
    run = ChargeRun.objects.get()
    assert (run.status, run.details) == (ChargeRun.Status.FAILED, {})
    assert "description of its run" in run.error


def test_names_from_outside_are_shown_as_text(viewer: Client, stored: Callable[..., ChargeRun]) -> None:
    stored([RUN, invoice("published", 560), line("send", 560, entity="<script>alert(1)</script>")])
    assert "<script>alert" not in viewer.get("/costs/", {"month": MONTH}).content.decode()


def test_a_closed_month_changes_by_adjustments_only(viewer: Client, stored: Callable[..., ChargeRun]) -> None:
    stored(SEPTEMBER)
    assert close_month(MONTH, timezone.now()) == 1
    more = [RUN, invoice("published", 1_660), line("send", 600), line("ping", 60), BASE, DAY]
    for _ in range(2):  # the second finds nothing new
        stored(more)
    assert Invoice.objects.get().cents == 1_560
    assert {(each.kind, each.cents) for each in Adjustment.objects.all()} == {("send", 40), ("ping", 60)}
    page = viewer.get("/costs/", {"month": MONTH}).content.decode()
    assert '<p class="sum">16.60' in page
    rows = list(csv.DictReader(io.StringIO(viewer.get("/costs.csv", {"month": MONTH}).content.decode())))
    assert sum(round(float(row["charge"]) * 100) for row in rows) == 1_660


def test_the_parts_of_a_closed_month_include_its_adjustments_and_sum_to_the_total(
    viewer: Client, stored: Callable[..., ChargeRun]
) -> None:
    closing = stored(SEPTEMBER)
    close_month(MONTH, timezone.now())
    assert "adjustments</a> until" not in viewer.get("/costs/", {"month": MONTH}).content.decode()

    ChargeRun.objects.update(started_at=timezone.now() - timedelta(days=9))
    last = stored([RUN, invoice("published", 1_660), line("send", 600), line("ping", 60), BASE, DAY])
    stored([RUN, invoice("published", 1_660), line("send", 600), line("ping", 60), BASE, DAY])  # finds nothing new

    found = report(MONTH)
    assert found
    assert [(part.name, part.cents) for part in found.parts] == [
        ("base", 1_000), ("operations", 560), ("connections", 0), ("adjustments", 100),
    ]  # fmt: skip
    assert sum(part.cents for part in found.parts) == found.total
    assert (found.run.pk, found.adjusted_at) == (closing.pk, last.started_at)
    page = one_line(viewer.get("/costs/", {"month": MONTH}).content.decode())
    assert "the rows sum to the total without the adjustments." in page
    assert re.search(rf"adjustments</a> until <b><time[^>]*>{last.started_at:%Y-%m-%d %H:%M:%S}</time> UTC</b>", page)


def test_a_closed_month_is_as_of_the_run_it_was_closed_with_also_if_a_scope_came_late(
    viewer: Client, stored: Callable[..., ChargeRun]
) -> None:
    closing = stored(SEPTEMBER)
    close_month(MONTH, timezone.now())
    stored([*SEPTEMBER, invoice("published", 560, "another"), line("send", 560, units=20_000_000)])
    found = report(MONTH)
    assert found
    assert found.run.pk == closing.pk
    assert list(found.by_scope) == [("another", 560), ("sub", 1_560)]
    page = one_line(viewer.get("/costs/", {"month": MONTH}).content.decode())
    assert "<li>another: 5.60</li> <li>sub: 15.60</li>" in page


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


def test_of_one_pair_the_tiers_are_those_of_its_scope_with_its_own_operations(
    viewer: Client, stored: Callable[..., ChargeRun]
) -> None:
    stored(TWO_PAIRS)
    whole = viewer.get("/costs/", {"month": MONTH}).content.decode()
    assert cells(whole, "Operations in it") == ["13,000,000", "7,000,000"] * 2
    assert cells(whole, "In the rows shown here") == []

    page = viewer.get("/costs/", {"month": MONTH, "pair": "fabrikam"}).content.decode()
    assert cells(page, "Operations in it, all pairs") == ["13,000,000", "7,000,000"]
    assert cells(page, "In the rows shown here") == ["0", "2,000,000"]
    assert "other-sub" not in page


def test_under_pro_rata_the_rows_of_a_pair_share_all_tiers(viewer: Client, stored: Callable[..., ChargeRun]) -> None:
    stored(TWO_PAIRS)
    Invoice.objects.update(allocation="pro-rata")
    page = one_line(viewer.get("/costs/", {"month": MONTH, "pair": "fabrikam"}).content.decode())
    assert page.count('<span class="quiet">shared</span>') == 2


def test_of_one_pair_what_is_counted_for_all_pairs_says_so(viewer: Client, stored: Callable[..., ChargeRun]) -> None:
    stored(TWO_PAIRS)
    Invoice.objects.filter(scope="sub").update(unpriced_bytes=10**9)
    of_all = (
        "12 rows of all pairs read: 9 billed",
        "Quarantined: 1 rows of all pairs, the kind is unknown",
        "transferred between regions by all pairs together",
        "CSV of all pairs</a>",
        "Parquet of all pairs</a>",
    )
    page = one_line(viewer.get("/costs/", {"month": MONTH, "pair": "contoso"}).content.decode())
    assert [text for text in of_all if text not in page] == []
    page = one_line(viewer.get("/costs/", {"month": MONTH}).content.decode())
    assert "all pairs together" not in page
    assert "of all pairs" not in page


@pytest.mark.parametrize(
    ("filters", "parts", "missing"),
    [
        ({}, {"base": 2_000, "operations": 560, "connections": 1_077}, ""),
        ({"pair": "contoso"}, {"operations": 400}, "a pair and not in this sum: base charge and connections."),
        ({"entity": "orders"}, {"operations": 560}, "an entity and not in this sum: base charge and connections."),
        (
            {"namespace": "contoso"},
            {"operations": 400, "connections": 1_077},
            "a namespace and not in this sum: base charge.",
        ),
        (
            {"namespace": "tailspin"},
            {"operations": 0, "connections": 0},
            "a namespace and not in this sum: base charge.",
        ),
        ({"kind": "send"}, {"operations": 560}, ""),
        ({"kind": "connections"}, {"connections": 1_077}, ""),
    ],
)
def test_what_cannot_be_attributed_is_named_and_is_no_part_of_0(
    viewer: Client,
    stored: Callable[..., ChargeRun],
    filters: dict[str, str],
    parts: dict[str, int],
    missing: str,
) -> None:
    stored(TWO_PAIRS)
    found = report(MONTH, filters=Filters(**filters))
    assert found
    assert {part.name: part.cents for part in found.parts} == parts
    page = one_line(viewer.get("/costs/", {"month": MONTH, **filters}).content.decode())
    assert re.findall(r"Not attributed to ([^<]*?\.)", page) == ([missing] if missing else [])


def test_what_two_pairs_use_of_one_namespace_is_distinguished_and_one_row_of_the_csv(
    viewer: Client, stored: Callable[..., ChargeRun]
) -> None:
    alpha, beta = (line("send_backlog", 280, units=10) | {"pair": name} for name in ("alpha", "beta"))
    stored([RUN, invoice("published", 1_560), alpha, beta, BASE, DAY])
    assert '<p class="sum">2.80' in viewer.get("/costs/", {"month": MONTH, "pair": "beta"}).content.decode()
    rows = list(csv.DictReader(io.StringIO(viewer.get("/costs.csv", {"month": MONTH}).content.decode())))
    reported = {row["kind"]: (row["operations"], row["billing_units"], row["charge"]) for row in rows}
    assert (reported["send_backlog"], len(rows)) == (("20", "20", "5.60"), 2)

    close_month(MONTH, timezone.now())
    stored([RUN, invoice("published", 1_570), alpha, beta | {"cents": 290}, BASE, DAY])
    assert [(each.pair, each.cents) for each in Adjustment.objects.all()] == [("beta", 10)]


def test_what_disappears_from_a_closed_month_is_taken_back(stored: Callable[..., ChargeRun]) -> None:
    stored(SEPTEMBER)
    close_month(MONTH, timezone.now())
    stored([RUN])
    assert sum(each.cents for each in Adjustment.objects.all()) == -1_560


@pytest.mark.parametrize("before", [SEPTEMBER, [RUN]], ids=["with another scope", "while it was empty"])
def test_what_comes_late_of_a_new_scope_is_an_adjustment_of_the_closed_month(
    stored: Callable[..., ChargeRun], before: list[dict[str, Any]]
) -> None:
    stored(before)
    close_month(MONTH, timezone.now())
    late = [invoice("published", 560, "sub-2"), line("send", 560, units=20_000_000), DAY]
    for _ in range(2):  # the second finds nothing new
        stored([*before, *late])
    made = Invoice.objects.get(scope="sub-2")
    assert (made.cents, made.units, made.closed_at is not None) == (0, 0, True)
    assert [(each.invoice, each.kind, each.cents) for each in Adjustment.objects.all()] == [(made, "send", 560)]
    assert not made.charges.exists()
    assert not made.days.exists()


def test_the_base_charge_of_a_premium_namespace_is_that_of_the_namespace(stored: Callable[..., ChargeRun]) -> None:
    stored([RUN, invoice("published", 70_566), BASE, line("base", 69_006, "*", "large"), line("send", 560)])
    found = report(MONTH)
    assert found
    assert {part.name: part.cents for part in found.by_namespace} == {"large": 69_006, "contoso": 560}


@pytest.mark.parametrize("address", ["/costs.csv", "/costs.parquet"])
def test_a_file_is_not_of_another_rule_than_the_one_that_was_asked_for(
    viewer: Client, stored: Callable[..., ChargeRun], address: str
) -> None:
    stored(BOTH_RULES)
    answer = viewer.get(address, {"month": MONTH, "rule": "settlement"})
    assert answer.status_code == 400
    assert "Counting rule “settlement” cannot be read" in one_line(answer.content.decode())


def test_what_a_closed_month_came_to_is_in_the_api_too(viewer: Client, stored: Callable[..., ChargeRun]) -> None:
    stored(SEPTEMBER)
    close_month(MONTH, timezone.now())
    stored([RUN, invoice("published", 1_660), line("send", 600), line("ping", 60), BASE, DAY])
    (bill,) = viewer.get("/api/v1/invoices", {"month": MONTH}).json()
    assert (bill["amount"], bill["adjustments"]) == ("15.60", "1.00")
