"""Every address opened by an administrator: none is kept by a cache, and that of a button says so and leads back."""

import pytest

from tests.dashboard.access.test_access_walk import NAMES, address, place

pytestmark = pytest.mark.slow

__all__ = ["place"]
CHANGES_NOTHING = "No action was carried out"


def test_no_cache_keeps_a_page_and_every_buttons_address_leads_whoever_opens_it_to_the_overview(place, as_role):
    """The back button after signing out must show nothing; a proxy must not hand it to the next one."""
    administrator, seen = as_role("administrator"), set()
    answers = {name: administrator.get(address(name), {"path": "orders"}) for name in NAMES}

    kept = {name: answer.get("Cache-Control", "") for name, answer in answers.items() if name != "favicon.ico"}
    assert {name: said for name, said in kept.items() if "no-store" not in said} == {}
    for name, answer in answers.items():
        if answer.status_code != 405:
            continue
        seen.add(name)
        assert CHANGES_NOTHING in answer.text, name
        assert 'class="button primary" href="/"' in answer.text, name
        assert answer["Allow"] == "POST", name

    assert {"alerts-acknowledge", "token-revoke", "pair-demo", "drill-abort", "costs-budget"} <= seen


def test_signing_out_by_its_address_leads_to_the_overview_and_signs_nobody_out(pair, as_role):
    client = as_role("viewer")

    answer = client.get("/logout/")

    assert (answer.status_code, answer["Allow"]) == (405, "POST")
    assert 'href="/"' in answer.text
    assert client.get("/").status_code == 200


def test_a_page_that_takes_nothing_says_so_and_leads_to_itself(pair, as_role):
    answer = as_role("operator").post("/events/")

    assert answer.status_code == 405
    assert "This page is read-only" in answer.text
    assert 'href="/events/"' in answer.text


def test_programs_and_parts_of_pages_get_the_bare_answer(pair, as_role):
    viewer = as_role("viewer")

    assert viewer.get("/alerts/acknowledge/", headers={"HX-Request": "true"}).text == ""
    assert "<html" not in viewer.put("/api/v1/pairs").text
    assert "<html" not in as_role("stranger").post("/healthz").text
