"""Statements given by programs: the way the page takes them, with the same right and the same trail."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from dashboard.models import AuditEntry, Statement
from tests.dashboard.conftest import program_of
from tests.dashboard.costs.test_costs import MONTH
from tests.dashboard.costs.test_costs_reconcile import bill

pytestmark = pytest.mark.django_db


@pytest.fixture
def program(people, redis_here):
    return lambda role="operator", scope="operate": program_of(people[role], scope)


def give(client: Client, text: str, **query: str):
    wanted = {"month": MONTH} | query
    address = "/api/v1/statements?" + "&".join(f"{name}={value}" for name, value in wanted.items())
    return client.post(address, {"file": SimpleUploadedFile("bill.csv", text.encode())})


def test_a_bill_is_taken_reported_and_in_the_trail_with_the_token_s_name(program) -> None:
    answer = give(program(), bill())

    assert (answer.status_code, answer.json()["outcome"], answer.json()["rows"]) == (200, "done", 2)
    entry = AuditEntry.objects.get(verb="reconcile_export")
    assert (entry.operator, entry.via, entry.target, entry.outcome) == ("operator", "token a script", MONTH, "done")
    (reported,) = program("viewer", "read").get("/api/v1/statements", {"month": MONTH}).json()
    assert (reported["name"], reported["currency"], reported["uploaded_by"]) == ("bill.csv", "USD", "operator")


def test_a_dry_run_reads_and_stores_nothing(program) -> None:
    answer = give(program(), bill(), dry_run="true")

    assert (answer.json()["outcome"], answer.json()["rows"]) == ("preview", 2)
    assert not Statement.objects.exists()
    assert not AuditEntry.objects.filter(verb="reconcile_export").exists()


@pytest.mark.parametrize("query", [{"month": "2026-13"}, {"month": ""}])
def test_what_the_document_does_not_know_is_refused(program, query: dict[str, str]) -> None:
    assert give(program(), bill(), **query).status_code == 422
