"""Actions over the web: asked for, done, refused, and answered to htmx (docs/contract.md, section 6)."""

import re

import pytest
from django.test import Client

from dashboard.models import EntityHealth
from tests.dashboard.markup import one_line

HTMX = {"HX-Request": "true"}


def act(client: Client, verb: str, path: str = "orders", **more):
    headers = more.pop("headers", {})
    return client.post(f"/pairs/contoso/actions/{verb}/", {"path": path, "reason": "storage", **more}, headers=headers)


def test_htmx_gets_the_question_and_the_answer_as_fragments(pair, shared, as_role):
    operator = as_role("operator")

    asked = operator.get("/pairs/contoso/actions/hold/", {"path": "orders"}, headers=HTMX)
    assert "<html" not in asked.text
    assert "<form" in asked.text
    assert "hx-post" in asked.text
    assert "hx-post" not in operator.get("/pairs/contoso/actions/hold/?path=orders").text, "a page of its own"

    answered = act(operator, "fail_over", headers=HTMX)
    assert "<html" not in answered.text
    assert answered["HX-Trigger"] == "refresh"
    assert "orders is failed over" in answered.text


def test_the_question_names_the_state_that_the_overview_shows(pair, redis_here, alive, as_role):
    page = as_role("operator").get("/pairs/contoso/actions/fail_over/", {"path": "orders"})

    assert "<dt>Now</dt> <dd>Healthy" in one_line(page.text)


def test_after_an_action_one_is_back_where_one_was(pair, shared, as_role):
    assert act(as_role("operator"), "fail_over", next="/events/")["Location"] == "/events/"


@pytest.mark.parametrize("page", ["/", "/pairs/contoso/", "/pairs/contoso/entities/orders/"])
def test_what_is_held_for_a_while_can_be_held_for_longer_from_the_pages(pair, shared, as_role, page):
    operator = as_role("operator")
    act(operator, "fail_over", expires_in="15")
    link = r'href="/pairs/contoso/actions/hold/\?path=orders"[^>]*>Change end of hold</a>'
    assert re.search(link, operator.get(page).text)

    asked = operator.get("/pairs/contoso/actions/hold/", {"path": "orders"}).text
    assert "<dt>Held by</dt> <dd> operator, ends" in one_line(asked)
    assert "Change end of hold: orders</h1>" in asked
    assert 'name="expires_in"' in asked
    act(operator, "hold", expires_in="240")
    ends = f"The hold of orders now ends at {shared.health()['orders'].expires:%Y-%m-%d %H:%M} UTC."
    assert ends in operator.get("/audit/").text

    reported = shared.health()["orders"]
    assert 239 < (reported.expires - reported.since).total_seconds() / 60 < 241


def test_a_refused_form_keeps_what_was_chosen(pair, shared, as_role):
    page = act(as_role("operator"), "fail_over", reason=" ", expires_in="60")

    assert (page.status_code, '<option value="60" selected>' in page.text) == (400, True)


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        *(("fail_over", "unheard-of"), ("pause_syphon", "unheard-of"), ("explode", "orders"), ("note", "orders")),
        *((verb, "contoso/x-servicebus-transfer/99") for verb in ("quarantine_queue", "drain_queue", "delete_queue")),
    ],
)
def test_what_does_not_exist_is_not_found(pair, shared, as_role, verb, path):
    assert act(as_role("operator"), verb, path).status_code == 404


def test_a_number_that_no_audit_entry_has_is_refused_like_any_other_value(pair, shared, as_role):
    assert act(as_role("operator"), "fail_over", reason="x", seen="9" * 30).status_code == 400


def test_an_action_without_a_path_asks_again(pair, shared, as_role):
    assert act(as_role("operator"), "fail_over", path="").status_code == 400


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["page", "fragment"])
def test_a_form_that_was_open_too_long_is_refused_in_one_sentence(pair, shared, as_role, headers):
    answer = act(as_role("operator", enforce_csrf_checks=True), "fail_over", headers=headers)

    assert (answer.status_code, "<html" in answer.text, "reload the page" in answer.text) == (403, not headers, True)
    assert shared.health() == {}


def test_a_button_pressed_with_nothing_chosen_leads_back_and_says_so(pair, shared, as_role):
    operator = as_role("operator")

    answer = operator.get("/pairs/contoso/actions/release/", headers={"Referer": "http://testserver/?q=or"})

    assert (answer.status_code, answer["Location"]) == (302, "http://testserver/?q=or")
    assert "entities first, with the checkboxes" in operator.get(answer["Location"]).text


def test_a_pair_s_syphon_is_paused_without_naming_a_queue(pair, shared, as_role):
    as_role("operator").post("/pairs/contoso/actions/pause_syphon/", {"reason": "look"})

    assert set(shared.paused()) == {"*"}


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["page", "fragment"])
def test_without_redis_the_answer_says_that_nothing_was_changed(pair, redis_away, as_role, headers):
    answer = act(as_role("operator"), "fail_over", headers=headers)

    assert answer.status_code == (200 if headers else 503)
    assert answer.get("HX-Retarget") == ("#dialog" if headers else None)
    assert "Nothing was changed" in answer.text
    assert ">storage</textarea>" in answer.text
    assert EntityHealth.objects.get(path="orders").state == "unknown"
