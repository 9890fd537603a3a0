"""The syphons' books, kept for people (docs/syphon.md)."""

import json
from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from dashboard import ledgers
from dashboard.models import AuditEntry, FailoverEvent, SyphonLedger, SyphonPause
from pairing.ledger import Ledger
from tests.dashboard.conftest import NOW
from tests.dashboard.test_actions import act
from tests.dashboard.test_incidents import story

__all__ = ["story"]
QUEUE = "contoso/x-servicebus-transfer/0"


def books(restored: int, *, drained: bool = False, began=NOW, lost: int = 0) -> dict[str, str]:
    """What a syphon tells that has seen so many messages, as it writes it down."""
    ledger = Ledger(QUEUE, "2026-11-01T00:00:00Z")
    for number in range(1, restored + lost + 1):
        ledger.see(number, began)
        if number <= restored:
            ledger.close(number, "restored")
    if drained:
        ledger.drained(began + timedelta(minutes=9))
    return {QUEUE: json.dumps(ledger.to_json())}


def test_a_filling_is_kept_and_grows_until_it_is_drained(pair):
    assert ledgers.keep("contoso", books(3, lost=1), NOW) == 1
    assert ledgers.keep("contoso", books(3, lost=1), NOW) == 0
    assert SyphonLedger.objects.get().missing is None

    assert ledgers.keep("contoso", books(5, drained=True), NOW) == 1

    kept = SyphonLedger.objects.get()
    assert (kept.enqueued, kept.fates["restored"], kept.missing) == (5, 5, 0)
    assert kept.ended_at == NOW + timedelta(minutes=9)


def test_closed_books_are_not_opened_again(pair):
    ledgers.keep("contoso", books(5, drained=True), NOW)

    assert ledgers.keep("contoso", books(2), NOW) == 0
    assert SyphonLedger.objects.get().enqueued == 5


def test_what_redis_forgets_stays(pair):
    ledgers.keep("contoso", books(5, drained=True), NOW)
    ledgers.keep("contoso", {}, NOW)

    assert SyphonLedger.objects.count() == 1


@pytest.mark.parametrize("text", ["", "[]", "{", '{"incidents": [{}]}', '{"incidents": 5}'])
def test_books_that_cannot_be_read_stop_nobody(pair, text):
    assert ledgers.keep("contoso", {"a": text, **books(1)}, NOW) == 1


def test_nothing_is_said_to_be_missing_before_the_end(pair):
    with pytest.raises(IntegrityError), transaction.atomic():
        SyphonLedger.objects.create(pair=pair, queue=QUEUE, began_at=NOW, missing=0, moved_at=NOW, seen_at=NOW)


def test_the_pair_s_page_shows_its_books(pair, redis_here, alive, as_role):
    ledgers.keep("contoso", books(1234, drained=True), NOW)

    page = as_role("viewer").get("/pairs/contoso/").text

    assert f'data-ledger="{QUEUE}"' in page
    assert "1,234 restored" in page
    assert '<b class="good">0</b>' in page


@pytest.mark.parametrize(
    ("later", "state", "paused", "said"),
    [
        (timedelta(minutes=5), "healthy", False, True),
        (timedelta(seconds=30), "healthy", False, False),
        (timedelta(minutes=5), "failed_over", False, False),
        (timedelta(minutes=5), "healthy", True, False),
    ],
    ids=["nothing moved", "it is early", "it waits for the entity", "it is paused"],
)
def test_a_syphon_that_receives_but_does_not_deliver_is_told(pair, redis_here, as_role, later, state, paused, said):
    began = timezone.now() - later
    pair.entities.filter(path="orders").update(state=state, since=NOW, waiting=1)
    ledgers.keep("contoso", books(3, lost=1), began)
    if paused:
        SyphonPause.objects.create(pair=pair, queue="*", by="ada", at=NOW)

    for page in ("/", "/pairs/contoso/"):
        assert ("receives but does not deliver" in as_role("viewer").get(page).text) == said


def test_a_message_that_moves_is_a_sign_of_life(pair, redis_here, as_role):
    pair.entities.filter(path="orders").update(state="healthy", since=NOW, waiting=1)
    ledgers.keep("contoso", books(3, lost=1), timezone.now() - timedelta(minutes=9))
    ledgers.keep("contoso", books(4, lost=1), timezone.now())

    assert "receives but does not deliver" not in as_role("viewer").get("/").text


def test_an_incident_has_the_books_of_its_time_and_no_others(story, pair, as_role):
    viewer, began = as_role("viewer"), timezone.now() - timedelta(minutes=30)
    assert "No books yet" in viewer.get(f"/pairs/contoso/incidents/{story}/").text
    ledgers.keep("contoso", books(77, drained=True, began=began), NOW)
    ledgers.keep("contoso", books(88, drained=True, began=began - timedelta(days=2)), NOW)

    page = viewer.get(f"/pairs/contoso/incidents/{story}/").text
    told = viewer.get(f"/pairs/contoso/incidents/{story}.json").json()

    assert "77 restored" in page
    assert "88 restored" not in page
    assert [(one["queue"], one["enqueued"], one["missing"]) for one in told["ledgers"]] == [(QUEUE, 77, 0)]
    assert told["pings"]["count"] == 0


def test_an_incident_has_what_was_done_to_several_entities_at_once(story, pair, as_role):
    during = timezone.now() - timedelta(minutes=29, seconds=30)
    for number, target in enumerate(("payments, orders", "payments", "orders-old, payments")):
        AuditEntry.objects.create(
            request_id=f"r{number}", at=during, operator="bob", verb="release", pair="contoso", target=target
        )

    told = as_role("viewer").get(f"/pairs/contoso/incidents/{story}.json").json()

    assert [one["target"] for one in told["actions"] if one["operator"] == "bob"] == ["payments, orders"]


def test_a_backlog_that_is_paused_is_said_to_be_paused_and_by_whom(pair, shared, alive, as_role):
    operator = as_role("operator")
    act(operator, "fail_over", "orders")
    act(operator, "mark_healthy", "orders")
    pair.entities.filter(path="orders").update(waiting=5)
    incident = f"/pairs/contoso/incidents/{FailoverEvent.objects.get(kind='forced').event_id}/"
    assert "not shrinking just now" in operator.get(incident).text

    SyphonPause.objects.create(pair=pair, queue="*", by="ada", at=timezone.now(), reason="storage first")

    page = operator.get(incident).text
    assert "paused by ada" in page
    assert "storage first" in page
    assert "not shrinking" not in page
