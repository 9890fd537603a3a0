"""Actions on several entities and whole pairs: one action, one audit entry, an event for each; paces; collisions."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone
from redis.exceptions import ConnectionError as RedisGone

from dashboard.actions import entities
from dashboard.fleet.depth.marks import lately
from dashboard.fleet.state import message_counts, projection
from dashboard.models import AuditEntry, EntityHealth, FailoverEvent, SyphonPace
from pairing.fleet.coordination import SharedState
from tests.dashboard.actions.test_actions import act
from tests.dashboard.conftest import health

pytestmark = pytest.mark.postgres_nightly

PATHS = ["orders", "payments"]


@pytest.fixture
def three(pair, shared):
    EntityHealth.objects.create(pair=pair, path="refunds")
    return pair


def test_one_that_the_pair_lacks_stops_the_whole_selection(three, shared, as_role):
    assert act(as_role("operator"), "fail_over", ["orders", "unheard-of"]).status_code == 404
    assert shared.health() == {}


def test_where_redis_goes_away_in_the_middle_what_was_done_is_written_down(three, shared, as_role, monkeypatch):
    honest = SharedState.of_several
    monkeypatch.setattr(entities, "CHUNK", 1)

    def goes_away(self, verb, paths, **named):
        if "payments" in paths:
            raise RedisGone("gone")
        return honest(self, verb, paths, **named)

    monkeypatch.setattr(SharedState, "of_several", goes_away)
    page = act(as_role("operator"), "fail_over", PATHS, headers={"HX-Request": "true"}).text
    assert "after 1 of 2" in page
    assert FailoverEvent.objects.get().entity == "orders"

    monkeypatch.setattr(SharedState, "of_several", honest)
    act(as_role("operator"), "fail_over", PATHS)
    assert FailoverEvent.objects.filter(kind="forced").count() == 2
    assert set(AuditEntry.objects.values_list("target", flat=True)) == {"orders, payments"}


def test_open_pages_see_how_far_an_action_on_many_is(pair, shared, as_role, monkeypatch):
    EntityHealth.objects.bulk_create(EntityHealth(pair=pair, path=f"store-{number}") for number in range(58))
    monkeypatch.setattr(entities, "CHUNK", 20)
    seen = []
    monkeypatch.setattr(
        entities, "announce_change", lambda: seen.append(EntityHealth.objects.filter(state="failed_over").count())
    )

    act(as_role("operator"), "fail_over", "*")

    assert seen == [20, 40, 60]


@pytest.mark.slow
@pytest.mark.parametrize(("count", "most"), [(1_500, 65), pytest.param(10_000, 400, marks=pytest.mark.nightly)])
def test_thousands_of_entities_take_few_round_trips_and_statements(
    pair, shared, as_role, django_assert_max_num_queries, count, most
):
    EntityHealth.objects.bulk_create(EntityHealth(pair=pair, path=f"store-{number}") for number in range(count - 2))
    operator = as_role("operator")

    with django_assert_max_num_queries(most):
        assert act(operator, "fail_over", "*").status_code == 302

    assert EntityHealth.objects.filter(state="failed_over", held_by="operator", origin="forced").count() == count
    assert FailoverEvent.objects.filter(kind="forced").count() == count
    assert [(entry.target, entry.outcome) for entry in AuditEntry.objects.all()] == [("*", "done")]
    assert len(shared.health()) == count


def test_of_many_changes_only_the_newer_ones_are_taken_over(pair):
    EntityHealth.objects.bulk_create(EntityHealth(pair=pair, path=f"store-{number}") for number in range(30))
    paths = [f"store-{number}" for number in range(30)]
    assert projection.apply_all_health("contoso", [health(path, version=5) for path in paths]) == 30
    reported = [health(path, state="healthy", version=4 + number % 3) for number, path in enumerate(paths)]

    assert projection.apply_all_health("contoso", reported) == 10

    assert EntityHealth.objects.filter(state="healthy", version=6).count() == 10
    assert EntityHealth.objects.filter(state="failed_over", version=5).count() == 20


def test_whoever_was_overtaken_by_another_operator_is_asked_again(pair, shared, as_role):
    ada, bob = as_role("operator"), as_role("administrator")
    act(ada, "fail_over", "orders")
    seen = AuditEntry.objects.latest("pk").pk

    act(bob, "release", "orders", seen=seen)
    answer = act(ada, "mark_healthy", "orders", seen=seen)

    assert answer.status_code == 409
    assert "Your action was not carried out" in " ".join(answer.text.split())
    assert "<b>administrator</b>" in answer.text
    assert shared.health()["orders"].state == "failed_over"

    again = act(ada, "mark_healthy", "orders", seen=AuditEntry.objects.latest("pk").pk)
    assert again.status_code == 302
    assert shared.health()["orders"].state == "healthy"


def test_what_one_did_oneself_or_to_another_entity_asks_nobody_again(pair, shared, as_role):
    ada, bob = as_role("operator"), as_role("administrator")
    act(bob, "fail_over", "payments", seen=0)
    act(ada, "fail_over", "orders", seen=0)

    assert act(ada, "release", "orders", seen=0).status_code == 302


@pytest.fixture
def queue(pair):
    return pair.backlog_queues.create(path="contoso/x-servicebus-transfer/0", index=0, seen_at="2026-11-02T03:00:00Z")


@pytest.mark.parametrize(
    "target", ["*", "contoso/x-servicebus-transfer/0", "orders"], ids=["pair", "queue", "destination"]
)
def test_a_pace_is_set_shown_and_lifted(pair, queue, shared, as_role, target):
    operator = as_role("operator")

    act(operator, "pace_syphon", target, rate="50")
    assert shared.paces()[target].rate == 50
    assert "50 a second, set by operator" in operator.get("/pairs/contoso/").text
    assert ("50 messages a second" in operator.get("/").text) == (target == "*")
    assert re.search(r'<small class="quiet">[^<]* at most 50 messages a second', operator.get("/audit/").text)

    act(operator, "pace_syphon", target, rate="")
    assert shared.paces() == {}
    assert [entry.outcome for entry in AuditEntry.objects.all()] == ["done", "done"]


def test_a_pace_that_redis_has_lost_can_be_lifted_and_set_again(pair, shared, as_role):
    operator = as_role("operator")
    act(operator, "pace_syphon", "orders", rate="5")
    shared.redis.flushall()

    act(operator, "pace_syphon", "orders", rate="5")
    assert shared.paces()["orders"].rate == 5
    shared.redis.flushall()
    act(operator, "pace_syphon", "orders", rate="")

    assert not SyphonPace.objects.exists()
    assert [entry.outcome for entry in AuditEntry.objects.all()] == ["done", "done", "done"]


@pytest.mark.parametrize("rate", ["0", "-1", "nan", "inf", "fast"])
def test_a_pace_that_is_none_is_refused(pair, shared, as_role, rate):
    assert act(as_role("operator"), "pace_syphon", "*", rate=rate).status_code == 400
    assert shared.paces() == {}


def test_the_way_home_to_one_entity_is_paused_and_resumed_on_its_page(pair, shared, as_role):
    operator, page = as_role("operator"), "/pairs/contoso/entities/orders/"
    assert "Pause the syphon to orders" in operator.get(page).text

    act(operator, "pause_syphon", "orders", reason="its receivers cannot keep up")
    assert set(shared.paused()) == {"orders"}
    assert "Resume the syphon to orders" in operator.get(page).text
    assert "its receivers cannot keep up" in as_role("viewer").get(page).text
    assert "1 part paused" in operator.get("/pairs/contoso/").text
    assert "Pause the syphon to payments" in operator.get("/pairs/contoso/entities/payments/").text

    act(operator, "resume_syphon", "orders")
    assert shared.paused() == {}

    act(operator, "pause_syphon", "*")
    assert "Resume syphon" in operator.get("/backlog/").text


def test_what_waits_for_an_entity_to_which_the_syphon_is_paused_does_not_stall(pair, queue, shared, as_role):
    message_counts.record_deliverable("contoso", {queue.path: {"orders": 1}}, timezone.now())
    queue.refresh_from_db()
    assert queue.deliverable_since

    act(as_role("operator"), "pause_syphon", "orders")
    message_counts.record_deliverable("contoso", {queue.path: {"orders": 1}}, timezone.now())
    queue.refresh_from_db()
    assert queue.deliverable_since is None


def test_a_pause_of_a_pair_is_one_line_however_many_queues_follow_it(pair, shared, as_role):
    act(as_role("operator"), "pause_syphon", "*")
    word = FailoverEvent.objects.get()
    for number in range(3):
        path = f"contoso/x-servicebus-transfer/{number}"
        FailoverEvent.objects.create(
            event_id=f"{number:032}", time=word.time, pair="contoso", entity=path, kind="syphon_paused"
        )

    shown, marks = lately(word.time - timedelta(minutes=1), timezone.now(), "contoso")

    assert [reported.event.entity for reported in shown] == ["*"]
    assert [mark.words for mark in marks["contoso"]] == ["Syphon paused by operator"]
