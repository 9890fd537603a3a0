"""The ledgers of syphons, stored for people (docs/syphon.md)."""

import json
from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from dashboard.fleet.state import ledgers, message_counts
from dashboard.models import AuditEntry, FailoverEvent, SyphonLedger, SyphonPause
from pairing.drain.ledger import Ledger
from tests.dashboard.actions.test_actions import act
from tests.dashboard.conftest import NOW
from tests.dashboard.fleet.test_projection import Queue
from tests.dashboard.incidents.test_incidents import story
from tests.dashboard.markup import one_line

pytestmark = pytest.mark.postgres

__all__ = ["story"]
QUEUE = "contoso/x-servicebus-transfer/0"


def ledger_texts(restored: int, *, drained: bool = False, began=NOW, lost: int = 0) -> dict[str, str]:
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
    assert ledgers.keep("contoso", ledger_texts(3, lost=1), NOW) == 1
    assert ledgers.keep("contoso", ledger_texts(3, lost=1), NOW) == 0
    assert SyphonLedger.objects.get().missing is None

    assert ledgers.keep("contoso", ledger_texts(5, drained=True), NOW) == 1

    kept = SyphonLedger.objects.get()
    assert (kept.enqueued, kept.fates["restored"], kept.missing) == (5, 5, 0)
    assert kept.ended_at == NOW + timedelta(minutes=9)


def test_closed_ledgers_are_not_opened_again_stay_when_redis_forgets_and_are_no_event_where_they_balance(pair):
    ledgers.keep("contoso", ledger_texts(5, drained=True), NOW)

    assert ledgers.keep("contoso", ledger_texts(2), NOW) == 0
    ledgers.keep("contoso", {}, NOW)
    assert SyphonLedger.objects.get().enqueued == 5
    assert not FailoverEvent.objects.exists()


def test_a_ledger_that_cannot_be_read_is_an_error_with_the_name_of_its_queue(pair):
    with pytest.raises(ValueError, match=QUEUE):
        ledgers.keep("contoso", {QUEUE: '{"incidents": [{"began_at": "2026-11-01T00:00:00Z"}]}'}, NOW)


def test_nothing_is_said_to_be_missing_before_the_end(pair):
    with pytest.raises(IntegrityError), transaction.atomic():
        SyphonLedger.objects.create(pair=pair, queue=QUEUE, began_at=NOW, missing=0, moved_at=NOW, seen_at=NOW)


def test_the_pair_s_page_shows_its_ledgers(pair, redis_here, alive, as_role):
    ledgers.keep("contoso", ledger_texts(1234, drained=True), NOW)

    page = as_role("viewer").get("/pairs/contoso/").text

    assert f'data-ledger="{QUEUE}"' in page
    assert "1,234 drained" in one_line(page)
    assert '<b class="good">0</b>' in page


def holding(entity: str, since, queue: str = QUEUE) -> None:
    """The sampler saw messages for the entity in a backlog queue, first at `since`, and looked again just now."""
    for at in (since, timezone.now()):
        message_counts.record_depths("contoso", [Queue(queue, active=1)], at)
        message_counts.record_deliverable("contoso", {queue: {entity: 1}}, at)


@pytest.mark.parametrize(
    ("later", "state", "paused", "said"),
    [
        (timedelta(minutes=5), "healthy", "", True),
        (timedelta(minutes=5), "healthy", f"{QUEUE}0", True),
        (timedelta(seconds=30), "healthy", "", False),
        (timedelta(minutes=5), "failed_over", "", False),
        (timedelta(minutes=5), "failing", "", False),
        (timedelta(minutes=5), "healthy", "*", False),
        (timedelta(minutes=5), "healthy", QUEUE, False),
    ],
    ids=["nothing moved", "another is paused", "early", "failed over", "failing", "all is paused", "it is paused"],
)
def test_a_syphon_that_receives_but_does_not_deliver_is_reported(pair, redis_here, as_role, later, state, paused, said):
    began = timezone.now() - later
    pair.entities.filter(path="orders").update(state=state, since=NOW)
    holding("orders", began)
    ledgers.keep("contoso", ledger_texts(3, lost=1), began)
    if paused:
        SyphonPause.objects.create(pair=pair, queue=paused, by="ada", at=NOW)

    for page in ("/", "/pairs/contoso/"):
        assert ("receives but does not deliver" in as_role("viewer").get(page).text) == said


def test_what_a_frozen_sampler_saw_does_not_overwrite_what_was_seen_since(pair):
    began, now = timezone.now() - timedelta(minutes=9), timezone.now()
    holding("orders", began)

    message_counts.record_deliverable("contoso", {QUEUE: {}}, began)
    assert pair.backlog_queues.get().deliverable_since == began

    message_counts.record_deliverable("contoso", {}, timezone.now())
    message_counts.record_depths("contoso", [Queue(QUEUE)], timezone.now())
    message_counts.record_deliverable("contoso", {QUEUE: {"orders": 1}}, now)
    assert pair.backlog_queues.get().deliverable_since is None


def test_a_message_that_moves_is_a_sign_of_life(pair, redis_here, as_role):
    holding("orders", timezone.now() - timedelta(minutes=9))
    ledgers.keep("contoso", ledger_texts(3, lost=1), timezone.now() - timedelta(minutes=9))
    ledgers.keep("contoso", ledger_texts(4, lost=1), timezone.now())

    assert "receives but does not deliver" not in as_role("viewer").get("/").text


def test_a_queue_is_not_stalled_the_moment_its_entity_recovers(pair, redis_here, as_role):
    long_ago = timezone.now() - timedelta(minutes=9)
    pair.entities.filter(path="orders").update(state="failed_over", since=NOW)
    holding("orders", long_ago)
    ledgers.keep("contoso", ledger_texts(3, lost=1), long_ago)
    pair.entities.filter(path="orders").update(state="healthy")
    message_counts.record_deliverable("contoso", {QUEUE: {"orders": 1}}, timezone.now())

    assert "receives but does not deliver" not in as_role("viewer").get("/").text


@pytest.mark.parametrize("paused", ["*", QUEUE])
def test_a_queue_is_not_stalled_the_moment_a_long_pause_is_over(pair, redis_here, as_role, paused):
    long_ago = timezone.now() - timedelta(minutes=9)
    holding("orders", long_ago)
    ledgers.keep("contoso", ledger_texts(3, lost=1), long_ago)
    pause = SyphonPause.objects.create(pair=pair, queue=paused, by="ada", at=long_ago)
    message_counts.record_deliverable("contoso", {QUEUE: {"orders": 1}}, timezone.now())
    pause.delete()
    message_counts.record_deliverable("contoso", {QUEUE: {"orders": 1}}, timezone.now())

    assert "receives but does not deliver" not in as_role("viewer").get("/").text


def test_an_incident_has_the_ledgers_of_its_time_and_no_others(story, pair, as_role):
    viewer, began = as_role("viewer"), timezone.now() - timedelta(minutes=30)
    assert "No ledger yet" in viewer.get(f"/pairs/contoso/incidents/{story}/").text
    ledgers.keep("contoso", ledger_texts(77, drained=True, began=began), NOW)
    ledgers.keep("contoso", ledger_texts(88, drained=True, began=began - timedelta(days=2)), NOW)

    page = viewer.get(f"/pairs/contoso/incidents/{story}/").text
    reported = viewer.get(f"/pairs/contoso/incidents/{story}.json").json()

    assert "77 drained" in one_line(page)
    assert "88 drained" not in one_line(page)
    assert [(one["queue"], one["enqueued"], one["missing"]) for one in reported["ledgers"]] == [(QUEUE, 77, 0)]
    assert reported["pings"]["count"] == 0


def test_an_incident_has_what_was_done_to_several_entities_at_once(story, pair, as_role):
    during = timezone.now() - timedelta(minutes=29, seconds=30)
    for number, target in enumerate(("payments, orders", "payments", "orders-old, payments")):
        AuditEntry.objects.create(
            request_id=f"r{number}", at=during, operator="bob", verb="release", pair="contoso", target=target
        )

    reported = as_role("viewer").get(f"/pairs/contoso/incidents/{story}.json").json()

    assert [one["target"] for one in reported["actions"] if one["operator"] == "bob"] == ["payments, orders"]


def test_a_backlog_that_is_paused_is_said_to_be_paused_and_by_whom(pair, shared, alive, as_role):
    operator = as_role("operator")
    act(operator, "fail_over", "orders")
    act(operator, "mark_healthy", "orders")
    pair.entities.filter(path="orders").update(waiting=5)
    incident = f"/pairs/contoso/incidents/{FailoverEvent.objects.get(kind='forced').event_id}/"
    assert "not decreasing at the moment" in " ".join(operator.get(incident).text.split())

    SyphonPause.objects.create(pair=pair, queue="*", by="ada", at=timezone.now(), reason="storage first")

    page = operator.get(incident).text
    assert "paused by ada" in page
    assert "storage first" in page
    assert "not decreasing" not in page


def test_ledgers_that_do_not_balance_are_reported_once_and_shown_where_the_ledgers_are(
    pair, redis_here, alive, as_role
):
    ledgers.keep("contoso", ledger_texts(5, lost=2), NOW)
    assert not FailoverEvent.objects.exists(), "what is not drained may still come home"

    ledgers.keep("contoso", ledger_texts(5, lost=2, drained=True), NOW)
    ledgers.keep("contoso", ledger_texts(5, lost=2, drained=True), NOW + timedelta(minutes=1))
    SyphonLedger.objects.all().delete()  # a database of yesterday is reported again
    ledgers.keep("contoso", ledger_texts(5, lost=2, drained=True), NOW + timedelta(minutes=2))

    event = FailoverEvent.objects.get()
    assert (event.kind, event.entity, event.pair) == ("ledger_unbalanced", QUEUE, "contoso")
    assert event.reason.startswith("2 of 7 messages since ")
    page = as_role("viewer").get("/pairs/contoso/").text
    assert "Ledger unbalanced" in page
    assert "kind=ledger_unbalanced" in page
    link = page[page.index("/events/?entity=") :].split('"')[0].replace("&amp;", "&")
    assert "2 of 7 messages" in as_role("viewer").get(link).text
