"""The pages of readiness and its command.

docs/readiness.md.
"""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from dashboard.models import PairReadiness, Readiness, ReadinessChange
from dashboard.readiness.history import changes, turns
from dashboard.readiness.score import OF_ENTITY, WEIGHTS

pytestmark = pytest.mark.postgres_nightly

GOOD = [{"name": name, "result": "good", "reason": "", "todo": ""} for name in WEIGHTS if name not in OF_ENTITY]
SENDERS = {"name": "senders", "result": "bad", "reason": "1 of 2 has no queue.", "todo": "Give them <Manage>."}


@pytest.fixture
def checked(pair, redis_here):
    """A pair that was checked just now: `orders` is ready, `payments` fell to 20."""
    now = timezone.now()
    PairReadiness.objects.create(pair=pair, score=100, checks=GOOD, checked_at=now, due_at=now)
    own = {"home": "good", "sizes": "good"}
    Readiness.objects.create(pair=pair, entity="orders", score=100, checked_at=now, own=own)
    Readiness.objects.create(
        pair=pair,
        entity="payments",
        score=20,
        previous_score=100,
        fell_at=now - timedelta(minutes=5),
        reasons=[SENDERS],
        checked_at=now,
        own=own,
    )
    return pair


def entities_on(page):
    return re.findall(r'data-entity="([^"]+)"', page)


def test_the_worst_entity_comes_first_with_its_reason(checked, as_role):
    page = as_role("viewer").get("/readiness/").text

    assert entities_on(page) == ["payments", "orders"]
    assert "Endangered 20" in page
    assert "Ready 100" in page
    assert "1 of 2 has no queue." in page
    assert "from 100" in page


@pytest.mark.parametrize(
    ("query", "found"),
    [("?q=pay", ["payments"]), ("?state=ready", ["orders"]), ("?pair=fabrikam", []), ("?state=nonsense", None)],
)
def test_entities_are_found_by_words_pair_and_state(checked, as_role, query, found):
    page = as_role("viewer").get(f"/readiness/{query}").text

    assert entities_on(page) == (["payments", "orders"] if found is None else found)


def test_an_old_check_is_not_believed(checked, as_role):
    long_ago = timezone.now() - timedelta(minutes=10)
    PairReadiness.objects.update(checked_at=long_ago)
    Readiness.objects.update(checked_at=long_ago)

    page = as_role("viewer").get("/readiness/").text

    assert "The last check is out of date" in page
    assert "Ready 100" not in page
    assert "Not known" in page


def test_an_entity_s_page_shows_every_check_and_what_to_do_escaped(checked, as_role):
    assert as_role("viewer").get("/readiness/contoso/nothing/").status_code == 404
    page = as_role("viewer").get("/readiness/contoso/payments/").text

    shown = dict(re.findall(r'data-check="(\w+)" data-result="(\w+)"', page))
    assert shown.keys() == WEIGHTS.keys()
    assert shown["senders"] == "bad"
    assert "Give them &lt;Manage&gt;." in page
    assert "Fell from 100 to 20" in page


def test_what_was_not_checked_yet_says_so_and_what_starts_a_check(pair, redis_here, as_role):
    viewer = as_role("viewer")
    for headers in ({}, {"HX-Request": "true"}):
        answer = viewer.get("/readiness/contoso/orders/", headers=headers)
        assert (answer.status_code, "<html" in answer.text) == (200, not headers)
        assert "No check has run yet." in answer.text
        assert "celery -A workers beat" in answer.text
    assert '"/readiness/contoso/orders/"' in viewer.get("/pairs/contoso/entities/orders/").text
    page = viewer.get("/readiness/").text
    assert ("never checked" in page, "a worker checks every pair" in page) == (True, True)


def test_an_entity_that_no_check_looks_at_says_why(pair, redis_here, as_role):
    pair.entities.filter(path="orders").update(is_canary=True, is_configured=False)
    pair.entities.filter(path="payments").update(gone_at=timezone.now())
    viewer = as_role("viewer")

    assert "only drills use it" in viewer.get("/readiness/contoso/orders/").text
    assert "it no longer exists" in viewer.get("/readiness/contoso/payments/").text


def test_the_scores_are_on_the_pages_of_pairs_and_entities(checked, as_role):
    viewer = as_role("viewer")

    assert '/readiness/?pair=contoso"' in viewer.get("/").text
    assert '/readiness/?pair=contoso"' in viewer.get("/pairs/contoso/").text
    page = viewer.get("/pairs/contoso/entities/payments/").text
    assert "/readiness/contoso/payments/" in page
    assert "Endangered 20" in page


def change(pair, entity, minutes_ago, **results):
    at = timezone.now() - timedelta(minutes=minutes_ago)
    return ReadinessChange.objects.create(pair=pair, entity=entity, at=at, results=results)


def test_an_entity_s_story_is_derived_from_its_pair_s_changes_and_its_own(checked, as_role):
    whole = {name: "good" for name in WEIGHTS if name not in OF_ENTITY}
    change(checked, "*", 50, **whole)
    change(checked, "orders", 49, home="unknown", sizes="good")
    change(checked, "payments", 48, home="bad", sizes="bad")
    change(checked, "orders", 40, home="good", sizes="good")
    change(checked, "*", 10, **{**whole, "queues": "bad"})

    reported = list(turns(changes(checked, "orders", timezone.now() - timedelta(days=1)), "orders"))

    assert [(turn.score, turn.before) for turn in reported] == [(90, None), (100, 90), (20, 100)]
    assert {name: result.value for name, result in reported[-1].turned.items()} == {"queues": "bad"}
    assert "Backlog queues exist and conform: bad" in as_role("viewer").get("/readiness/contoso/orders/").text
