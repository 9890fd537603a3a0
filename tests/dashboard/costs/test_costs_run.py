"""Computing on demand: an operator asks on the page, a worker takes it, the page tells where it is."""

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from dashboard.costs.runs.charges import request_run, take_requested
from dashboard.models import AuditEntry, ChargeRun
from tests.dashboard.markup import one_line

pytestmark = pytest.mark.django_db
MONTH = "2026-10"


def test_an_operator_asks_once_however_often_they_click(as_role):
    operator = as_role("operator")
    for _ in range(2):
        answer = operator.post("/costs/compute/", {"month": MONTH})
        assert answer.headers["Location"] == f"/costs/?month={MONTH}"
    run = ChargeRun.objects.get()
    assert (run.status, run.started_by) == (ChargeRun.Status.WANTED, "operator")
    outcomes = AuditEntry.objects.order_by("pk").values_list("verb", "target", "outcome")
    assert list(outcomes) == [("compute_charges", MONTH, "done"), ("compute_charges", MONTH, "unchanged")]
    assert "waiting for a worker" in operator.get("/costs/", {"month": MONTH}).text


def test_a_month_that_is_none_cannot_be_asked_for(as_role):
    assert as_role("operator").post("/costs/compute/", {"month": "soon"}).status_code == 400


def test_one_worker_takes_what_was_asked_for():
    now = timezone.now()
    asked, _ = request_run(MONTH, "olga", now)
    assert take_requested(now) == asked
    assert take_requested(now) is None
    assert request_run(MONTH, "otto", now) == (asked, False)


def test_what_nobody_took_can_be_asked_for_again():
    now = timezone.now()
    lost, _ = request_run(MONTH, "olga", now - timedelta(minutes=16))
    assert request_run(MONTH, "olga", now)[0] != lost


def test_the_part_that_shows_progress_asks_for_the_page_once_the_run_has_ended(as_role):
    viewer = as_role("viewer")
    run, _ = request_run(MONTH, "olga", timezone.now())
    ChargeRun.objects.filter(pk=run.pk).update(status=ChargeRun.Status.RUNNING, stage="pricing", share=0.8, rows=5)
    part = viewer.get("/costs/run/", {"month": MONTH}, headers={"HX-Request": "true"})
    assert "80 % · pricing · 5 rows" in one_line(part.text)
    assert "HX-Refresh" not in part.headers
    ChargeRun.objects.filter(pk=run.pk).update(status=ChargeRun.Status.FAILED, error="No Java was found.")
    assert viewer.get("/costs/run/", {"month": MONTH}, headers={"HX-Request": "true"}).headers["HX-Refresh"] == "true"


def test_a_wanted_run_that_fails_says_why(settings, tmp_path, capsys):
    broken = tmp_path / "prices.json"
    broken.write_text("{")
    settings.PRICES_FILE = broken
    request_run(MONTH, "olga", timezone.now())
    call_command("compute_charges", wanted=True)
    run = ChargeRun.objects.get()
    assert (run.status, "not JSON" in run.error) == (ChargeRun.Status.FAILED, True)
    assert "not JSON" in capsys.readouterr().err
