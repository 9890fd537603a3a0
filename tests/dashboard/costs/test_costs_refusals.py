"""A refused action on costs is in the audit trail (docs/security.md), whether a page or a program asked for it."""

import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from dashboard.models import AuditEntry
from tests.dashboard.conftest import program_of

pytestmark = pytest.mark.django_db
MONTH = "2026-10"
HOSTILE = "x\0" * 300


def recorded() -> list[tuple[str, ...]]:
    return list(AuditEntry.objects.order_by("pk").values_list("operator", "verb", "pair", "target", "outcome"))


def file() -> SimpleUploadedFile:
    return SimpleUploadedFile("export.csv", b"Date,Cost\n")


@pytest.mark.parametrize(
    ("address", "sent", "verb", "target"),
    [
        ("compute/", {"month": MONTH}, "compute_charges", MONTH),
        ("compute/", {"month": HOSTILE}, "compute_charges", "*"),
        ("rule/", {"rule": "settlements", "allocation": "time", "month": HOSTILE}, "set_cost_rule", "*"),
        ("budget/", {"amount": "10", "pair": HOSTILE, "month": HOSTILE}, "set_budget", "*"),
        ("reconcile/upload/", {"month": MONTH}, "reconcile_export", MONTH),
        ("reconcile/upload/", {"month": HOSTILE}, "reconcile_export", "*"),
    ],
)
def test_of_a_page(as_role, people, address, sent, verb, target):
    form = sent | ({"file": file()} if "upload" in address else {})

    assert as_role("viewer").post(f"/costs/{address}", form).status_code == 403

    assert recorded() == [(people["viewer"].get_username(), verb, "*", target, "refused")]


@pytest.mark.parametrize(
    ("address", "sent", "verb", "target"),
    [
        ("charges/compute", {"month": MONTH}, "compute_charges", MONTH),
        (f"statements?month={MONTH}", None, "reconcile_export", MONTH),
    ],
)
def test_of_a_program(people, address, sent, verb, target):
    program = program_of(people["operator"], "read")
    AuditEntry.objects.all().delete()
    form = {"file": file()} if sent is None else json.dumps(sent)
    kind = {} if sent is None else {"content_type": "application/json"}

    assert program.post(f"/api/v1/{address}", form, **kind).status_code == 403

    assert recorded() == [(people["operator"].get_username(), verb, "*", target, "refused")]
    assert "a script" in AuditEntry.objects.get().via
