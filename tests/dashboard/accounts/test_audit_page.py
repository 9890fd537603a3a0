"""The audit trail: who did what, to what, when and why; found by each of these, and as a file."""

import csv
from datetime import timedelta

import pytest

from dashboard.models import AuditEntry
from tests.dashboard.conftest import NOW

ENTRIES = {
    "a": {"operator": "ada", "verb": "fail_over", "target": "orders", "reason": "storage is down, ticket 7"},
    "b": {"operator": "bob", "verb": "pause_syphon", "target": "*", "reason": "the primary is busy"},
    "c": {"operator": "ada", "verb": "delete_queue", "target": "contoso/x-servicebus-transfer/7", "detail": "it had 3"},
}


@pytest.fixture
def trail(pair):
    for number, (request_id, given) in enumerate(ENTRIES.items()):
        at = NOW + timedelta(hours=number)
        AuditEntry(request_id=request_id, at=at, pair="contoso", outcome="done", **given).save()


def found(client, **query):
    """The request ids of the entries that the file lists, newest first."""
    answer = client.get("/audit.csv", query)
    lines = list(csv.DictReader(b"".join(answer.streaming_content).decode().splitlines()))
    by_reason = {(given["operator"], given["verb"]): name for name, given in ENTRIES.items()}
    return "".join(by_reason[line["operator"], line["verb"]] for line in lines)


ASKED = (
    ({}, "cba"),
    ({"operator": "ada"}, "ca"),
    ({"operator": "AD"}, "ca"),
    ({"verb": "pause_syphon"}, "b"),
    ({"pair": "contoso"}, "cba"),
    ({"pair": "fabrikam"}, ""),
    ({"target": "transfer"}, "c"),
    ({"since": "2026-11-02T04:00Z"}, "cb"),
    ({"until": "2026-11-02 04:00"}, "a"),
    ({"q": "TICKET"}, "a"),
    ({"q": "it had"}, "c"),
    ({"operator": "ada", "q": "busy"}, ""),
)


def test_entries_are_found_by_who_what_where_when_and_text(trail, as_role):
    client = as_role("viewer")
    for query, names in ASKED:
        assert (query, found(client, **query)) == (query, names)
        page = client.get("/audit/", query).text
        shown = [name in page for name in ("ticket 7", "primary is busy", "transfer/7")]
        assert (query, shown) == (query, [name in names for name in "abc"])


def test_what_no_button_of_a_pair_does_is_offered_as_an_action_too(trail, as_role):
    viewer = as_role("viewer")
    for verb in ("download", "compute_charges", "set_budget", "set_cost_rule", "reconcile_export"):
        page = viewer.get("/audit/", {"verb": verb}).text

        assert f'<option value="{verb}" selected>' in page
        assert "cannot be read" not in page


def test_the_page_offers_the_file_of_what_it_shows_and_says_that_nothing_matches(trail, as_role):
    viewer = as_role("viewer")

    assert 'href="/audit.csv?operator=ada"' in viewer.get("/audit/", {"operator": "ada", "page": "1"}).text
    assert "No entry matches these filters" in viewer.get("/audit/", {"operator": "nobody"}).text


def test_no_text_in_the_file_is_a_formula(pair, as_role):
    AuditEntry(request_id="x", at=NOW, operator="=cmd()", verb="hold", pair="contoso", reason="@evil").save()

    answer = as_role("viewer").get("/audit.csv")

    (line,) = csv.DictReader(b"".join(answer.streaming_content).decode().splitlines())
    assert (line["at"], line["operator"], line["reason"]) == (NOW.isoformat(), "'=cmd()", "'@evil")


def test_an_action_on_no_pair_in_particular_says_so(pair, as_role):
    AuditEntry(request_id="x", at=NOW, operator="ada", verb="set_terms", pair="*", target="2026-11").save()

    assert "all pairs / 2026-11" in " ".join(as_role("viewer").get("/audit/").text.split())
