"""What the database refuses and what it takes, on SQLite and on PostgreSQL alike."""

import threading
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction

from dashboard import projection
from dashboard.fitting import fitted
from dashboard.models import AuditEntry, BacklogQueue, EntityHealth, FailoverEvent, Pair, SyphonPause, WaitingSample
from tests.dashboard.conftest import NOW, health
from tests.dashboard.test_projection import Queue, event

LONG = "orders/" + "x" * 400


def test_the_migrations_make_what_the_models_say(db):
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "asleep"},
        {"kind": "relay"},
        {"state": "failed_over", "since": None},
        {"state": "healthy", "since": NOW, "held_by": "ada"},
        {"path": "orders"},
    ],
    ids=["unknown state", "unknown kind", "state without a beginning", "held but healthy", "twice"],
)
def test_no_entity_is_in_a_wrong_state(pair, wrong):
    with pytest.raises(IntegrityError), transaction.atomic():
        EntityHealth.objects.create(**{"pair": pair, "path": "refunds", **wrong})


def test_no_pair_is_backed_by_itself(db):
    with pytest.raises(IntegrityError), transaction.atomic():
        Pair.objects.create(name="a", primary_namespace="one", secondary_namespace="one", synced_at=NOW)


def test_a_queue_is_paused_once(pair):
    SyphonPause.objects.create(pair=pair, queue="*", by="ada", at=NOW)

    with pytest.raises(IntegrityError), transaction.atomic():
        SyphonPause.objects.create(pair=pair, queue="*", by="bob", at=NOW)


def test_no_queue_holds_less_than_nothing(pair):
    with pytest.raises(IntegrityError), transaction.atomic():
        BacklogQueue.objects.create(pair=pair, path="a", seen_at=NOW, active=-1)


def test_what_is_too_long_is_stored_and_stays_apart(pair):
    facts = [
        event("a" * 32, entity=f"{LONG}a"),
        event("b" * 32, entity=f"{LONG}b", process="p" * 900, operator="o" * 900),
    ]

    assert projection.record_events(facts) == 2
    assert projection.record_events(facts) == 0
    assert FailoverEvent.objects.values("entity").distinct().count() == 2
    assert all(row.entity.startswith("orders/xxx") for row in FailoverEvent.objects.all())


def test_a_path_that_is_too_long_has_one_row(pair):
    projection.apply_health("contoso", health(LONG, version=1))
    projection.apply_health("contoso", health(LONG, state="healthy", version=2))
    projection.record_waiting("contoso", {LONG: 7}, NOW)

    row = EntityHealth.objects.get(path__startswith="orders/x")
    assert (row.state, row.waiting) == ("healthy", 7)


def test_text_that_no_database_takes_stops_nobody(pair):
    assert projection.record_events([event("a" * 32, reason="nul\x00byte"), event("b" * 32)]) == 2
    assert projection.apply_health("contoso", health(reason="nul\x00byte"))


def test_a_kind_of_event_from_tomorrow_is_kept(pair):
    assert projection.record_events([event(kind="gone_fishing"), event("b" * 32, kind="No kind, really!")]) == 2
    assert set(FailoverEvent.objects.values_list("kind", flat=True)) == {"gone_fishing", "no_kind_really"}


def test_json_comes_back_as_it_went(pair):
    projection.record_depths("contoso", [Queue(deviations={"LockDuration": ("PT1M", "PT30S")})], NOW)

    assert BacklogQueue.objects.filter(deviations__LockDuration__0="PT1M").count() == 1


def test_only_what_changed_is_sampled(pair):
    for number in range(3):
        projection.record_waiting("contoso", {"orders": 5 - 5 * (number > 0)}, NOW + timedelta(seconds=number))

    assert list(WaitingSample.objects.filter(entity__path="orders").values_list("waiting", flat=True)) == [5, 0]
    assert set(EntityHealth.objects.values_list("waiting_at", flat=True)) == {NOW + timedelta(seconds=2)}


def test_a_sample_of_a_thousand_entities_takes_few_statements(pair, django_assert_max_num_queries):
    EntityHealth.objects.bulk_create(EntityHealth(pair=pair, path=f"entity-{n}", waiting_at=NOW) for n in range(1000))

    with django_assert_max_num_queries(12):
        projection.record_waiting("contoso", {"orders": 5}, NOW + timedelta(seconds=1))


def at_once(*deeds):
    """Each on a thread and a connection of its own, all begun together; what they returned."""
    begin, results = threading.Barrier(len(deeds)), []

    def run(deed):
        begin.wait(30)
        try:
            results.append(deed())
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(deed,)) for deed in deeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


@pytest.fixture
def committed_pair(transactional_db):
    if connection.vendor == "sqlite":
        pytest.skip("SQLite's database for tests is in memory and has one connection; test_postgres.py runs this")
    row = Pair.objects.create(name="contoso", primary_namespace="a", secondary_namespace="b", synced_at=NOW)
    EntityHealth.objects.create(pair=row, path="orders")
    return row


def test_two_collectors_with_the_same_facts_store_each_once(committed_pair):
    facts = [event(f"{number:032}") for number in range(200)]

    at_once(*[lambda: projection.record_events(facts)] * 4)

    assert FailoverEvent.objects.count() == 200


def test_of_many_that_tell_the_same_change_one_is_first(committed_pair):
    changed = at_once(*[lambda: projection.apply_health("contoso", health(version=5))] * 4)

    assert sorted(changed) == [False, False, False, True]


def test_an_entity_first_heard_of_by_many_at_once_is_one_row(committed_pair):
    at_once(*[lambda: projection.apply_health("contoso", health("brand/new"))] * 4)

    assert EntityHealth.objects.filter(path="brand/new").count() == 1


def test_an_audit_entry_is_completed_once(committed_pair):
    AuditEntry.objects.create(request_id="r", at=NOW, operator="ada", verb="hold", pair="contoso")

    assert sorted(at_once(*[lambda: AuditEntry.complete("r", "done")] * 4)) == [False, False, False, True]


@pytest.mark.parametrize("length", [17, 20, 260])
def test_what_is_made_to_fit_fits(length):
    assert len(fitted("é" * 1000, length)) == length
