"""The page of tokens: made by their owner, shown once, revoked by the owner or an administrator (docs/api.md)."""

import re

import pytest
from django.utils import timezone

from dashboard.access import tokens
from dashboard.api import site
from dashboard.models import ApiToken, AuditEntry

FORM = {"name": "nightly export", "scope": "read", "days": "30"}


def shown(answer) -> str:
    return re.search(r"<code>(pns_[^<]+)</code>", answer.text)[1]


def test_a_new_token_is_shown_once_kept_by_no_cache_and_works(pair, redis_here, as_role, client):
    person = as_role("viewer")

    answer = person.post("/tokens/make/", FORM)

    assert "no-store" in answer["Cache-Control"]
    text = shown(answer)
    assert client.get("/api/v1/me", headers={"Authorization": f"Bearer {text}"}).json()["user"] == "viewer"
    page = person.get("/tokens/").text
    assert "nightly export" in page
    assert text not in page


def test_a_form_that_is_sent_twice_creates_one_token(pair, as_role):
    person = as_role("viewer")
    offered = re.search(r'name="request_id" value="([^"]+)"', person.get("/tokens/").text)[1]

    first, second = (person.post("/tokens/make/", {**FORM, "request_id": offered}) for _ in range(2))

    assert shown(first).startswith("pns_")
    assert (second.status_code, tokens.SENT_TWICE in second.text) == (400, True)
    assert ApiToken.objects.count() == AuditEntry.objects.count() == 1


@pytest.mark.parametrize(
    ("role", "change", "status"),
    [
        ("viewer", {"scope": "operate"}, 403),
        ("operator", {"scope": "administer"}, 403),
        ("viewer", {"scope": "everything"}, 400),
        ("viewer", {"days": "3650"}, 400),
        ("viewer", {"name": " "}, 400),
    ],
)
def test_what_nobody_may_have_is_refused(pair, as_role, role, change, status):
    assert as_role(role).post("/tokens/make/", {**FORM, **change}).status_code == status
    assert not ApiToken.objects.exists()


def test_people_see_and_revoke_their_own_and_administrators_those_of_everybody(pair, people, as_role):
    row, _ = tokens.make(people["operator"], "a script", "read", 30, timezone.now())

    assert row.prefix not in as_role("viewer").get("/tokens/").text
    assert as_role("viewer").post(f"/tokens/{row.prefix}/revoke/").status_code == 404
    assert row.prefix in as_role("administrator").get("/tokens/").text
    assert as_role("administrator").post(f"/tokens/{row.prefix}/revoke/").status_code == 302
    row.refresh_from_db()
    assert row.revoked_by == "administrator"
    assert "Revoked" in as_role("operator").get("/tokens/").text


def test_only_scopes_that_the_person_may_give_are_offered(pair, as_role):
    offered = {
        role: as_role(role).get("/tokens/").text.count('<option value="operate">') for role in ("viewer", "operator")
    }

    assert offered == {"viewer": 0, "operator": 1}


def test_the_page_shows_every_operation_of_the_api_with_its_description(pair, as_role):
    page = as_role("viewer").get("/settings/api/").text

    assert "fail-over" in page
    assert "/api/v1/openapi.json" in page
    assert all(description for _, _, description in site.operations())
