"""A result is checked record by record: what cannot be stored is left out with a reason, and the month is stored."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.costs.storing import close_month, store
from dashboard.models import (
    Adjustment,
    Availability,
    BacklogRollup,
    Charge,
    ChargeRun,
    ConnectionDay,
    DailyCharge,
    Invoice,
    Outage,
)
from tests.dashboard.costs.test_costs import BASE, DAY, MONTH, RUN, invoice, line, new_run
from tests.dashboard.markup import one_line

Record = dict[str, Any]
ROLLUP = {
    "record": "rollup", "pair": "contoso", "queue": "*", "begins_at": "2026-10-01T00:00:00+00:00", "is_day": True,
    "samples": 3, "deepest": 5, "p50": 1, "p95": 5,
}  # fmt: skip
PEAKS = {"record": "peaks", "scope": "sub", "namespace": "contoso", "date": "2026-10-01", "peaks": [1, None]}
KNOWN = {"record": "availability", "pair": "contoso", "entity": "orders", "episodes": 0, "down_s": 0.0, "period_s": 1.0}
OUTAGE = {
    "record": "episode", "pair": "contoso", "entity": "orders", "started_at": "2026-10-01T00:00:00+00:00",
    "ended_at": None, "cause": "failed_over", "reason": "", "down_s": 5.0, "units": {}, "extra": {},
}  # fmt: skip
GOOD = [OUTAGE, KNOWN, ROLLUP, PEAKS, invoice("published", 1_560), line("send", 560), BASE, DAY]
MODELS = (Outage, Availability, BacklogRollup, ConnectionDay, Invoice, Charge, DailyCharge)


def write(path: Path, records: list[Record], *, end: bool = True) -> Path:
    last = [{"record": "end", "records": len(records)}] if end else []
    path.write_text("".join(json.dumps(record) + "\n" for record in [*records, *last]))
    return path


def stored() -> int:
    return sum(model._default_manager.count() for model in MODELS)


def nested(levels: int) -> Record:
    """An object in objects."""
    return {"inner": nested(levels - 1)} if levels else {}


ODD: list[tuple[Record, str]] = [
    (line("send", 560), "is there twice"),
    (line("receive", 5, entity="x" * 301), "entity has 301 characters, more than 300"),
    (line("receive", 2**63), "cents is a number that cannot be stored"),
    (line("receive", 5) | {"quantity": None}, "quantity is not a text"),
    (line("receive", 5) | {"colour": 1}, "has the unknown field colour"),
    (DAY | {"date": "2026-10-32"}, "date is not a date"),
    (ROLLUP | {"p50": True}, "p50 is not a whole number"),
    (ROLLUP | {"is_day": "x"}, "is_day is neither true nor false"),
    (ROLLUP | {"begins_at": "2026-10-01T00:00:00"}, "begins_at is not a time"),
    (ROLLUP, "is there twice"),
    (PEAKS | {"namespace": "n" * 300}, "namespace has 300 characters, more than 260"),
    ({name: value for name, value in KNOWN.items() if name != "down_s"} | {"entity": "a"}, "has no down_s"),
    (KNOWN | {"entity": "b", "episodes": -1}, "episodes is a number that cannot be stored"),
    (OUTAGE | {"entity": 5}, "entity is not a text"),
    (OUTAGE | {"entity": "c", "extra": None}, "extra is not an object"),
    (OUTAGE | {"entity": "d", "units": []}, "units is not an object"),
    (line("receive", 9) | {"tiers": None}, "tiers is not a list"),
    (PEAKS | {"namespace": "contoso-dr", "peaks": None}, "peaks is not a list"),
    (invoice("settlements", 5) | {"currency": "dollars"}, "currency has 7 characters, more than 3"),
    (line("receive", 7), "its invoice is not stored"),
]
TOO_LARGE: list[tuple[Record, str]] = [
    (OUTAGE | {"entity": "e", "units": {"ping": "1e400"}}, "units has a number that cannot be stored"),
    (OUTAGE | {"entity": "f", "extra": {"places": [{"published": "-1e400"}]}}, "extra has a number that cannot be"),
    (OUTAGE | {"entity": "g", "extra": nested(20)}, "extra has more than 20 levels"),
    (KNOWN | {"entity": "h", "down_s": "1e400"}, "down_s is not a number"),
    (KNOWN | {"entity": "h", "down_s": 10**400}, "down_s is not a number"),
    (KNOWN | {"entity": "h", "down_s": "9" * 5_000}, "down_s is not a number"),
    (KNOWN | {"entity": "h", "episodes": "9" * 5_000}, "episodes is not a whole number"),
    (OUTAGE | {"entity": "h", "units": {"ping": "9" * 5_000}}, "units has a number that cannot be stored"),
    (PEAKS | {"namespace": "contoso-dr", "peaks": [1, "1e400"]}, "peaks has a number that cannot be stored"),
    (line("receive", 5) | {"tiers": ["1e400", 0]}, "tiers has a number that cannot be stored"),
    (line("receive", 5) | {"tiers": [2**63, 0]}, "tiers has a number that cannot be stored"),
    (invoice("settlements", 5) | {"tiers": ["1e400"]}, "tiers has a number that cannot be stored"),
]


@pytest.mark.django_db
def test_what_cannot_be_stored_is_left_out_and_reported(tmp_path: Path, as_role: Callable[[str], Client]) -> None:
    run = new_run()
    store(run, write(tmp_path / "result.jsonl", [RUN, *GOOD, *(record for record, _ in ODD)]), is_complete=True)
    assert (run.status, stored()) == (ChargeRun.Status.SUCCEEDED, len(GOOD))
    left_out = run.details["not_stored"]
    assert [reason for _, reason in left_out["examples"]] == [reason for _, reason in ODD]
    assert (left_out["count"], left_out["cents"]) == (len(ODD), 560 + 5 + 2**63 + 5 + 5 + 9 + 5 + 7)
    page = one_line(as_role("viewer").get("/costs/", {"month": MONTH}).content.decode())
    assert f"{len(ODD)} records of the result could not be stored" in page
    assert "charge sub" not in page
    assert "entity has 301 characters, more than 300" in page


@pytest.mark.django_db
@pytest.mark.parametrize(("record", "reason"), TOO_LARGE)
def test_a_record_with_a_number_that_no_database_has_is_left_out_and_not_its_month(
    tmp_path: Path, record: Record, reason: str
) -> None:
    path = write(tmp_path / "result.jsonl", [RUN, *GOOD, record])
    path.write_text(re.sub(r'"(-?1e400|9{5000})"', r"\1", path.read_text()))
    run = new_run()
    store(run, path, is_complete=True)
    assert (run.status, stored()) == (ChargeRun.Status.SUCCEEDED, len(GOOD))
    ((_, said),) = run.details["not_stored"]["examples"]
    assert said.startswith(reason)


TWICE = [
    DAY | {"date": "20261003"},
    OUTAGE | {"started_at": "2026-10-01T00:00:00Z"},
    OUTAGE | {"started_at": "2026-10-01T02:00:00+02:00"},
    ROLLUP | {"begins_at": "20261001T000000Z"},
    PEAKS | {"date": "2026-W40-4"},
]


@pytest.mark.django_db
@pytest.mark.parametrize("again", TWICE)
def test_the_same_time_or_day_written_in_another_way_is_there_twice(tmp_path: Path, again: Record) -> None:
    run = new_run()
    store(run, write(tmp_path / "result.jsonl", [RUN, *GOOD, again]), is_complete=True)
    assert stored() == len(GOOD)
    assert [reason for _, reason in run.details["not_stored"]["examples"]] == ["is there twice"]


@pytest.mark.django_db
def test_rows_without_a_pair_and_with_an_empty_one_have_the_same_key(tmp_path: Path) -> None:
    empty = line("receive", 5) | {"pair": ""}
    without = {name: value for name, value in empty.items() if name != "pair"}
    run = new_run()
    store(run, write(tmp_path / "result.jsonl", [RUN, *GOOD, empty, without]), is_complete=True)
    assert [reason for _, reason in run.details["not_stored"]["examples"]] == ["is there twice"]


@pytest.mark.django_db
def test_an_invoice_without_tiers_is_added_to_a_closed_month(tmp_path: Path) -> None:
    close_month(MONTH, timezone.now())
    without = {name: value for name, value in invoice("published", 560).items() if name != "tiers"}
    store(new_run(), write(tmp_path / "result.jsonl", [RUN, without, line("send", 560)]), is_complete=True)
    assert [row.cents for row in Adjustment.objects.all()] == [560]


@pytest.mark.django_db
@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_that_the_calendar_of_the_database_does_not_have_is_left_out(tmp_path: Path, at: str) -> None:
    times = [
        OUTAGE | {"entity": "a", "started_at": at},
        OUTAGE | {"entity": "b", "ended_at": at},
        ROLLUP | {"queue": "c", "begins_at": at},
    ]
    run = new_run()
    store(run, write(tmp_path / "result.jsonl", [RUN, *GOOD, *times]), is_complete=True)
    assert stored() == len(GOOD)
    reasons = [reason for _, reason in run.details["not_stored"]["examples"]]
    assert reasons == [f"{name} is not a time" for name in ("started_at", "ended_at", "begins_at")]


FOREIGN = ("id", "run", "invoice", "statement", "closed_at", "model", "key", "self", "record_id", "billing_units")


@pytest.mark.django_db
@pytest.mark.parametrize("field", FOREIGN)
@pytest.mark.parametrize("record", GOOD, ids=lambda record: record["record"])
def test_a_record_fills_no_field_but_its_own(tmp_path: Path, field: str, record: Record) -> None:
    run, others = new_run(), [each for each in GOOD if each is not record]
    last = [record | {field: "2026-10-01T00:00:00+00:00"}]
    store(run, write(tmp_path / "result.jsonl", [RUN, *others, *last]), is_complete=True)
    (_, reason), *_ = reversed(run.details["not_stored"]["examples"])
    assert reason == f"has the unknown field {field}"
    assert not Invoice.objects.filter(closed_at__isnull=False).exists()


@pytest.mark.django_db
def test_what_is_of_another_month_is_left_out_however_often_it_is_stored(tmp_path: Path) -> None:
    others = [PEAKS | {"date": "2026-11-03"}, invoice("published", 5) | {"month": "2026-11"}]
    for _ in range(2):
        run = new_run()
        store(run, write(tmp_path / "result.jsonl", [RUN, *GOOD, *others]), is_complete=True)
        assert stored() == len(GOOD)
        assert [reason for _, reason in run.details["not_stored"]["examples"]] == ["is of another month"] * 2


def counts(**other: Any) -> Record:
    return RUN | {"counts": RUN["counts"] | other}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("description", "problem"),
    [
        (counts(read="x"), "has no counts"),
        (counts(copies=True), "has no counts"),
        (counts(reasons=[]), "has no counts by reason"),
        (counts(reasons=None), "has no counts by reason"),
        (counts(reasons={"a": []}), "has no counts by reason"),
        (counts(rejected=[5]), "has no list of the files that were left out"),
        (counts(rejected=None), "has no list of the files that were left out"),
        (counts(rejected=[["a", "b", "c"]]), "has no list of the files that were left out"),
        (counts(examples=5), "has no list of quarantined rows"),
        (counts(examples=["x"]), "has no list of quarantined rows"),
        (RUN | {"prices": [{}]}, "has no price rows"),
        (RUN | {"prices": [RUN["prices"][0] | {"from": "x"}]}, "has no price rows"),
        (RUN | {"prices": [RUN["prices"][0] | {"price": "Infinity"}]}, "has no price rows"),
        (RUN | {"hours_in_month": "x"}, "has no hours"),
        (RUN | {"tiers": 5}, "has no tiers by namespace"),
        (RUN | {"tiers": nested(20)}, "has more than 20 levels"),
    ],
)
def test_a_description_that_the_report_cannot_show_is_refused(
    tmp_path: Path, description: Record, problem: str
) -> None:
    path = write(tmp_path / "result.jsonl", [description, *GOOD])
    with pytest.raises(CommandError, match=f"description of its run: the first record {problem}"):
        call_command("compute_charges", store=path)
    run = ChargeRun.objects.get()
    assert (run.status, stored()) == (ChargeRun.Status.FAILED, 0)


@pytest.mark.django_db
def test_what_the_control_plane_says_of_a_run_is_not_taken_from_its_result(tmp_path: Path) -> None:
    said = {"not_stored": 5, "note": 5, "terms": 5}
    call_command("compute_charges", store=write(tmp_path / "result.jsonl", [RUN | said, *GOOD]))
    assert not said.keys() & ChargeRun.objects.get().details.keys()


@pytest.mark.django_db
def test_a_failed_run_has_no_details_of_the_result_that_was_not_stored(tmp_path: Path) -> None:
    path = write(tmp_path / "result.jsonl", [RUN, invoice("published", 5), {"record": "line"}])
    with pytest.raises(CommandError, match="has no 'units'"):
        call_command("compute_charges", store=path)
    run = ChargeRun.objects.get()
    assert (run.status, run.details) == (ChargeRun.Status.FAILED, {})


@pytest.mark.django_db
def test_a_line_of_nothing_but_brackets_is_no_record(tmp_path: Path) -> None:
    path = tmp_path / "result.jsonl"
    path.write_text(f"{json.dumps(RUN)}\n{'[' * 100_000}\n")
    with pytest.raises(CommandError, match="line 2 is not a record"):
        call_command("compute_charges", store=path)
    assert ChargeRun.objects.get().status == ChargeRun.Status.FAILED


@pytest.mark.django_db
def test_the_result_of_a_job_elsewhere_is_stored_by_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "result.jsonl", [RUN, *GOOD, line("receive", 5, entity="x" * 301)])
    call_command("compute_charges", store=path)
    run = ChargeRun.objects.get()
    assert (run.status, run.started_by, Invoice.objects.get().cents) == (ChargeRun.Status.SUCCEEDED, "command", 1_560)
    written = capsys.readouterr().out
    assert "not stored: 1 records, 0.05 in all" in written
    assert "sub: 15.60 USD (published)" in written


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ([RUN, *GOOD], "is not complete: copy it again, or run the job again"),
        ([RUN, {"record": "end", "records": 7}], "is not complete"),
        ([RUN | {"month": "9999-12"}], "names no month"),
        ([GOOD[0]], "line 1 is not a record"),
        ([RUN | {"counts": []}], "does not begin with a description of its run"),
        ([RUN, invoice("published", 5), {"record": "line"}, {"record": "end", "records": 3}], "has no 'units'"),
        ([RUN, RUN], "line 2 is not a record"),
        ([RUN, ["x"]], "line 2 is not a record"),
        ([RUN, KNOWN | {"down_s": float("nan")}], "line 2 is not a record"),
        ([], "is empty"),
    ],
)
def test_a_file_that_is_no_result_changes_nothing(tmp_path: Path, content: list[Any], sentence: str) -> None:
    path = write(tmp_path / "good.jsonl", [RUN, *GOOD])
    call_command("compute_charges", store=path)
    before = stored()
    broken = write(tmp_path / "broken.jsonl", content, end=False)
    with pytest.raises(CommandError, match=sentence):
        call_command("compute_charges", store=broken)
    assert stored() == before


@pytest.mark.django_db
def test_a_result_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"nowhere\.jsonl cannot be read: No such file"):
        call_command("compute_charges", store=tmp_path / "nowhere.jsonl")


VALUES = st.sampled_from(
    [None, True, "", "x", "\0", "\ud800", "x" * 400, -1, 2**31, 2**63, 1.5, 10**30, [], {}, "2026-10-32"]
)
NAMES = sorted({name for record in GOOD for name in record} - {"record"})


@pytest.mark.django_db
@settings(deadline=None)
@given(
    wild=st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.sampled_from(NAMES), VALUES), max_size=5),
    order=st.permutations(range(len(GOOD))),
)
def test_any_result_is_stored_without_what_cannot_be(
    tmp_path_factory: pytest.TempPathFactory, wild: list[tuple[int, str, Any]], order: list[int]
) -> None:
    records = [dict(record) for record in GOOD]
    for place, name, value in wild:
        records[place][name] = value
    run = new_run()
    path = write(tmp_path_factory.getbasetemp() / "any.jsonl", [RUN, *(records[place] for place in order)])
    store(run, path)
    assert run.status == ChargeRun.Status.SUCCEEDED
    assert stored() + run.details.get("not_stored", {"count": 0})["count"] >= sum(record in GOOD for record in records)
