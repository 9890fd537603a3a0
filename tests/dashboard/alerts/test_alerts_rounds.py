"""Alerts in the database: what is opened, resolved and written into the outbox by a look at what the fleet reported."""

from datetime import timedelta

import pytest
from django.db import DatabaseError

from dashboard.alerts import notices
from dashboard.alerts.rounds import look
from dashboard.fleet.state import projection
from dashboard.fleet.usage import metered
from dashboard.models import Alert, AlertRule, BudgetAlert, EntityHealth, FailoverEvent, Notice, Readiness
from tests.dashboard.conftest import NOW, health
from tests.dashboard.fleet import test_projection
from tests.dashboard.sample_outage import sent

pytestmark = [pytest.mark.django_db, pytest.mark.postgres_nightly]
S, M = timedelta(seconds=1), timedelta(minutes=1)
LAST = NOW - 10 * M
QUEUE = "contoso/x-servicebus-transfer/0"


def event(kind, identity="a" * 32, **changes):
    return test_projection.event(identity, kind, **changes)


def rule(**changes):
    known = {"name": f"rule {AlertRule.objects.count()}", "channels": ["mail"], "changed_at": NOW}
    return AlertRule.objects.create(**{**known, **changes})


def backlog_queue(pair, **changes):
    known = {"path": QUEUE, "index": 0, "seen_at": NOW, "size_bytes": 0, "max_size_bytes": 5 * 2**30}
    row, _ = pair.backlog_queues.update_or_create(path=QUEUE, defaults={**known, **changes})
    return row


def titles(phase="opened"):
    return list(Notice.objects.filter(phase=phase).order_by("alert__title").values_list("alert__title", flat=True))


def fail_over(*paths, at=NOW, version=1, reason="amqp:internal-error"):
    projection.apply_all_health("contoso", [health(path, since=at, version=version, reason=reason) for path in paths])


def recover(*paths, at, version=2):
    projection.apply_all_health("contoso", [health(path, "healthy", since=at, version=version) for path in paths])


def test_an_entity_that_comes_back_and_fails_over_again_between_two_looks_has_a_second_alert(pair):
    rule()
    projection.record_events([event("failed_over", time=NOW)])
    look(NOW + S)
    again = event("failed_over", identity="c" * 32, time=NOW + 13 * S)
    projection.record_events([event("recovered", identity="b" * 32, time=NOW + 12 * S), again])

    look(NOW + 15 * S)

    known = list(Alert.objects.order_by("began_at").values_list("began_at", "ended_at"))
    assert known == [(NOW, NOW + 12 * S), (NOW + 13 * S, None)]
    assert sorted(Notice.objects.values_list("phase", flat=True)) == ["opened", "opened", "resolved"]
    assert not FailoverEvent.objects.filter(alerted_at=None).exists()


def test_a_forced_failover_says_who_forced_it(pair):
    fail_over_by_hand = health(origin="forced", held_by="ada", reason="maintenance")
    projection.apply_all_health("contoso", [fail_over_by_hand])
    look(NOW + S)

    alert = Alert.objects.get()
    assert (alert.title, alert.severity, alert.detail) == ("orders was failed over by ada", "warning", "maintenance")


def test_what_happened_is_lost_with_no_power_cut(pair, monkeypatch):
    """The alert, what is to be reported and the note on the event are one transaction."""
    rule()
    projection.record_events([event("failed_over", time=NOW)])
    with monkeypatch.context() as broken:
        broken.setattr(notices, "notify", lambda *_: (_ for _ in ()).throw(DatabaseError))
        with pytest.raises(DatabaseError):
            look(NOW + S)
    assert (Alert.objects.count(), Notice.objects.count()) == (0, 0)

    look(NOW + 2 * S)

    assert titles() == ["orders failed over"]


def test_a_primary_that_is_down_is_one_alert_instead_of_those_of_its_entities(pair):
    rule()
    pair.entities.create(path="full", state="failed_over", origin="organic", since=NOW, reason="quota reached")
    fail_over("orders", "payments", at=NOW + 30 * S, reason="no answer for 5 s")
    look(NOW + 31 * S)
    of_entities = ["full failed over", "orders failed over", "payments failed over"]
    metered.store([sent(NOW, "full", "send", 1)], NOW)  # in the minute of the failovers, before or after them
    look(NOW + 150 * S)  # no later minute is reported
    assert titles() == of_entities

    metered.store([sent(NOW + M, "orders", "send_backlog", 1)], NOW)
    look(NOW + 149 * S)
    assert titles("resolved") == []
    look(NOW + 150 * S)
    alert = Alert.objects.get(entity="*", resolved_at=None)
    assert (alert.title, alert.began_at) == ("The primary of contoso is down", NOW + 30 * S)
    assert "2 of 3 entities proven" in alert.detail
    assert titles("resolved") == of_entities[1:]

    pair.entities.create(path="late", state="failed_over", origin="organic", since=NOW + 3 * M, reason="no answer")
    look(NOW + 3 * M)
    metered.roll_up(NOW + 180 * M)
    look(NOW + 3 * M)
    assert "late failed over" not in titles()
    recover("orders", "payments", at=NOW + 4 * M)
    look(NOW + 4 * M)
    assert {*titles()} == {"The primary of contoso is down", "late failed over", *of_entities}
    assert {*titles("resolved")} == {"The primary of contoso is down", *of_entities[1:]}
    assert len(titles()) == 5


def test_a_backlog_over_the_threshold_of_a_rule_is_reported_until_it_is_well_below(pair):
    rule(threshold=100, kinds=["backlog"])
    rule(threshold=None, channels=["other"])
    for minute, active in enumerate((99, 100, 120, 95, 79)):
        backlog_queue(pair, active=active)
        look(NOW + minute * M)

    alert = Alert.objects.get(kind="backlog")
    assert (alert.opened_at, alert.resolved_at) == (NOW + M, NOW + 4 * M)
    assert set(Notice.objects.values_list("channel", flat=True)) == {"mail"}


def test_a_threshold_for_entities_is_about_each_of_them(pair):
    rule(threshold=10, entity="ord*", kinds=["backlog"])
    EntityHealth.objects.update(waiting=50)
    look(NOW)

    assert list(Alert.objects.values_list("entity", flat=True)) == ["orders"]


def test_a_queue_that_is_nearly_full_is_critical(pair):
    backlog_queue(pair, size_bytes=4 * 2**30)
    look(NOW)
    backlog_queue(pair, size_bytes=4 * 2**30 + 2**29)
    look(NOW + M)

    alert = Alert.objects.get()
    assert (alert.kind, alert.severity, alert.detail) == ("capacity", "critical", "90% of 5.0 GB are used.")


def test_the_fleets_word_that_a_queue_will_be_full_is_reported_for_half_an_hour(pair):
    backlog_queue(pair, size_bytes=2**30)
    projection.record_events([event("capacity_warning", entity=QUEUE, time=NOW)])
    look(NOW + S)
    assert Alert.objects.get().title == f"Backlog queue {QUEUE} is filling up"

    look(NOW + 31 * M)

    assert Alert.objects.get().resolved_at


def unbalanced(pair):
    known = {"queue": QUEUE, "ended_at": NOW, "enqueued": 5, "moved_at": NOW, "seen_at": NOW}
    pair.ledgers.create(began_at=NOW, home=3, missing=2, **known)
    pair.ledgers.create(began_at=NOW - M, missing=0, **known)


def spent(pair):
    known = {"month": "2026-11", "pair": "contoso", "currency": "EUR", "raised_at": NOW}
    BudgetAlert.objects.create(percent=80, cents=8123, budget_cents=10_000, **known)


def silent(pair):
    projection.record_heartbeat("one", "pings, syphons", LAST)
    projection.record_heartbeat("two", "pings", NOW)


def unready(pair):
    reasons = [{"name": "syphon", "result": "bad", "reason": "No syphon is alive.", "todo": ""}]
    known = {"pair": pair, "previous_score": 100, "fell_at": NOW, "checked_at": NOW, "reasons": reasons}
    for entity, score in (("orders", 40), ("payments", 70)):
        Readiness.objects.create(entity=entity, score=score, **known)


@pytest.mark.parametrize(
    ("happens", "severity", "title", "detail"),
    [
        (unbalanced, "critical", f"The ledger of {QUEUE} does not balance", "2 of 5 messages are not accounted for."),
        (spent, "warning", "80 % of the budget for contoso in 2026-11 is spent", "81.23 of 100.00 EUR."),
        (silent, "critical", "No worker serves syphons", f"The last heartbeat was at {LAST:%F %T} UTC."),
        (unready, "critical", "Readiness of 2 entities of contoso fell", "orders is at 40 of 100. No syphon is alive."),
    ],
    ids=["ledgers that do not add up", "a budget", "work that no worker does", "readiness"],
)
def test_a_condition_is_one_alert_that_says_what_is_so(pair, happens, severity, title, detail):
    happens(pair)
    look(NOW + S)

    alert = Alert.objects.get()
    assert (alert.severity, alert.title, alert.detail) == (severity, title, detail)
    if happens is unbalanced:
        look(NOW + timedelta(days=1, seconds=1))
        assert Alert.objects.get().resolved_at, "a day is enough"


def test_dead_letters_are_reported_once_however_many_come(pair):
    for minute, dead in enumerate((1, 2, 3)):
        backlog_queue(pair, dead_lettered=dead)
        look(NOW + minute * M)

    assert Alert.objects.get().detail == "3 messages could not be delivered."


def test_a_syphon_that_brings_nothing_home_is_reported(pair):
    backlog_queue(pair, active=5, deliverable_since=NOW - 10 * M)
    pair.ledgers.create(queue=QUEUE, began_at=NOW - 20 * M, enqueued=5, home=0, moved_at=NOW - 10 * M, seen_at=NOW)
    look(NOW)
    assert Alert.objects.get().kind == "stalled"

    pair.pauses.create(queue="*", by="ada", at=NOW)
    look(NOW + S)

    assert Alert.objects.get().resolved_at, "it was paused: that is what somebody wants"


def test_a_hold_that_ends_soon_is_reported_before(pair):
    projection.apply_all_health("contoso", [health(held_by="ada", origin="forced", expires=NOW + 15 * M)])
    look(NOW)
    assert not Alert.objects.filter(kind="forced_expiring").exists()

    look(NOW + 6 * M)

    assert Alert.objects.get(kind="forced_expiring").title.startswith("The failover of orders that ada forced ends at")


def readiness(pair, score, at):
    reasons = [{"name": "queues", "result": "bad", "reason": "Queues are missing.", "todo": ""}]
    known = {"score": score, "previous_score": 100, "fell_at": at, "checked_at": at, "reasons": reasons}
    Readiness.objects.update_or_create(pair=pair, entity="orders", defaults=known)
    look(at)


def test_readiness_that_falls_further_is_reported_anew_to_those_whom_it_concerns_now(pair):
    rule(channels=["all"])
    rule(channels=["phone"], least_severity="critical")
    readiness(pair, 85, NOW)
    readiness(pair, 0, NOW + M)

    assert list(Alert.objects.order_by("pk").values_list("severity", "resolved_at")) == [
        ("warning", NOW + M),
        ("critical", None),
    ]
    assert sorted(Notice.objects.values_list("channel", "phase", "alert__severity")) == [
        ("all", "opened", "critical"),
        ("all", "opened", "warning"),
        ("phone", "opened", "critical"),
    ]


def test_readiness_that_is_less_bad_is_reported_to_nobody_until_it_is_as_it_was(pair):
    rule()
    readiness(pair, 20, NOW)
    readiness(pair, 60, NOW + M)

    alert = Alert.objects.get()
    assert (alert.severity, alert.detail) == ("warning", "orders is at 60 of 100. Queues are missing.")
    Readiness.objects.update(fell_at=None)
    look(NOW + 2 * M)

    assert list(Notice.objects.order_by("pk").values_list("phase", flat=True)) == ["opened", "resolved"]


def test_of_a_failover_each_channel_hears_once_by_the_rules_that_are_on_and_of_the_end_if_one_of_them_says_so(pair):
    rule()
    rule(kinds=["failover"], notifies_resolved=False)
    rule(channels=["beginning"], notifies_resolved=False)
    rule(channels=["off"], is_enabled=False)
    fail_over("orders")
    for second in (1, 6, 11):
        look(NOW + second * S)
    recover("orders", at=NOW + M)
    for second in (61, 66):
        look(NOW + second * S)

    alert = Alert.objects.get()
    assert (alert.kind, alert.severity, alert.began_at, alert.ended_at) == ("failover", "critical", NOW, NOW + M)
    found = [("mail", "opened"), ("beginning", "opened"), ("mail", "resolved")]
    assert list(Notice.objects.order_by("pk").values_list("channel", "phase")) == found


MANY = 1_000


def many(pair, **changes):
    rows = [EntityHealth(pair=pair, path=f"queue-{n}", applied_at=NOW, **changes) for n in range(MANY)]
    EntityHealth.objects.bulk_create(rows)


def test_the_questions_of_a_look_do_not_grow_with_the_failovers_it_opens_reports_and_ends(
    pair, django_assert_max_num_queries
):
    """A statement writes some 75 rows here; none is written or asked for by itself."""
    rule()
    many(pair, state="failed_over", since=NOW)
    with django_assert_max_num_queries(MANY // 15):
        assert len(look(NOW).opened) == MANY
    with django_assert_max_num_queries(30):
        look(NOW + 21 * M)
    EntityHealth.objects.update(state="healthy", since=NOW + 22 * M, applied_at=NOW + 22 * M)

    with django_assert_max_num_queries(MANY // 10):
        assert len(look(NOW + 22 * M).resolved) == MANY
    assert Notice.objects.count() == 2 * MANY


def test_nor_with_the_backlogs_over_a_threshold_whose_counts_change(pair, django_assert_max_num_queries):
    rule(entity="queue-*", threshold=100, kinds=["backlog"])
    many(pair, state="healthy", since=NOW, waiting=500)
    look(NOW)
    EntityHealth.objects.update(waiting=501)

    with django_assert_max_num_queries(MANY // 20):
        look(NOW + 5 * S)
    assert set(Alert.objects.values_list("detail", flat=True)) == {"501 now."}
    EntityHealth.objects.update(waiting=0)
    with django_assert_max_num_queries(MANY // 15):
        look(NOW + 10 * S)

    assert not Alert.objects.filter(resolved_at__isnull=True).exists()
    assert set(Alert.objects.values_list("ended_at", flat=True)) == {NOW + 10 * S}
