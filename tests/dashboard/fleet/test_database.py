"""What the database refuses and what it takes, on SQLite and on PostgreSQL alike."""

import json
import os
import subprocess
import sys
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction

from dashboard.fleet.pruning import prune
from dashboard.fleet.state import message_counts, projection
from dashboard.models import (
    Alert,
    ApiToken,
    AuditEntry,
    BacklogQueue,
    DeadLetterJob,
    DepthPeak,
    EntityHealth,
    FailoverEvent,
    Pair,
    PrunedCount,
    QueueDeletion,
    TopicSubscription,
    WaitingSample,
)
from dashboard.site.fitting import LONGEST, fitted
from pairing.fleet.presence import ReportedStates
from pairing.fleet.shared_health import PingRecord
from tests.dashboard.conftest import NOW, health, program_of
from tests.dashboard.fleet.test_projection import Queue, event
from tests.dashboard.together import ONLY_POSTGRESQL, at_once

pytestmark = pytest.mark.postgres

LONG = "orders/" + "x" * 400


def test_the_migrations_make_what_the_models_say(db):
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


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
    projection.apply_all_health("contoso", [health(LONG, version=1)])
    projection.apply_all_health("contoso", [health(LONG, state="healthy", version=2)])
    message_counts.record_waiting("contoso", {LONG: 7}, NOW)

    row = EntityHealth.objects.get(path__startswith="orders/x")
    assert (row.state, row.waiting) == ("healthy", 7)


def test_a_kind_of_event_from_tomorrow_is_kept(pair):
    assert projection.record_events([event(kind="gone_fishing"), event("b" * 32, kind="No kind, really!")]) == 2
    assert set(FailoverEvent.objects.values_list("kind", flat=True)) == {"gone_fishing", "no_kind_really"}


def test_json_comes_back_as_it_went(pair):
    message_counts.record_depths("contoso", [Queue(deviations={"LockDuration": ("PT1M", "PT30S")})], NOW)

    assert BacklogQueue.objects.filter(deviations__LockDuration__0="PT1M").count() == 1


def test_only_what_changed_is_sampled(pair):
    for number in range(3):
        message_counts.record_waiting("contoso", {"orders": 5 - 5 * (number > 0)}, NOW + timedelta(seconds=number))

    assert list(WaitingSample.objects.filter(entity__path="orders").values_list("waiting", flat=True)) == [5, 0]
    assert set(EntityHealth.objects.values_list("waiting_at", flat=True)) == {NOW + timedelta(seconds=2)}


def test_a_sample_of_a_thousand_entities_takes_few_statements(pair, django_assert_max_num_queries):
    EntityHealth.objects.bulk_create(EntityHealth(pair=pair, path=f"entity-{n}", waiting_at=NOW) for n in range(1000))

    with django_assert_max_num_queries(12):
        message_counts.record_waiting("contoso", {"orders": 5}, NOW + timedelta(seconds=1))


@pytest.fixture
def committed_pair(transactional_db):
    if connection.vendor == "sqlite":
        pytest.skip(ONLY_POSTGRESQL)
    row = Pair.objects.create(name="contoso", primary_namespace="a", secondary_namespace="b", synced_at=NOW)
    EntityHealth.objects.create(pair=row, path="orders")
    return row


def test_two_collectors_with_the_same_facts_store_each_once(committed_pair):
    facts = [event(f"{number:032}") for number in range(200)]

    at_once(lambda: projection.record_events(facts))

    assert FailoverEvent.objects.count() == 200


def test_of_many_that_report_the_same_change_one_is_first(committed_pair):
    changed = at_once(lambda: projection.apply_all_health("contoso", [health(version=5)]), 4)

    assert sorted(changed) == [False, False, False, True]


def test_an_entity_first_heard_of_by_many_at_once_is_one_row(committed_pair):
    at_once(lambda: projection.apply_all_health("contoso", [health("brand/new")]))

    assert EntityHealth.objects.filter(path="brand/new").count() == 1


def test_an_audit_entry_is_completed_once(committed_pair):
    AuditEntry.objects.create(request_id="r", at=NOW, operator="ada", verb="hold", pair="contoso")

    assert sorted(at_once(lambda: AuditEntry.complete("r", "done"), 4)) == [False, False, False, True]


def test_two_that_prune_at_once_count_each_row_once(committed_pair):
    projection.record_events([event(f"{number:032}", time=NOW - timedelta(days=500)) for number in range(200)])

    at_once(lambda: prune(NOW))

    assert list(PrunedCount.objects.values_list("counter", "count")) == [("failover_events_total", 200)]


FREEZES = """
import os, signal
import django
django.setup()
from django.db import transaction
from dashboard.models import Pair
with transaction.atomic():
    Pair.objects.select_for_update().get()
    os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_what_a_frozen_worker_had_locked_is_free_after_a_while(committed_pair):
    with connection.cursor() as cursor:
        cursor.execute("show idle_in_transaction_session_timeout")
        assert cursor.fetchone() == ("1min",)
    url = "postgres://{USER}:{PASSWORD}@{HOST}:{PORT}/{NAME}".format(**connection.settings_dict)
    sooner = {"DATABASE_URL": f"{url}?options=-c%20idle_in_transaction_session_timeout=500ms"}
    settings = {"DJANGO_SETTINGS_MODULE": "dashboard.settings"}
    with subprocess.Popen([sys.executable, "-c", FREEZES], env={**os.environ, **settings, **sooner}) as worker:
        os.waitpid(worker.pid, os.WUNTRACED)
        assert worker.poll() is None, "it has ended instead"
        try:
            assert Pair.objects.update(primary_namespace="c") == 1
        finally:
            worker.kill()


@pytest.mark.parametrize("length", [17, 20, 260])
def test_what_is_made_to_fit_fits(length):
    assert len(fitted("é" * 1000, length)) == length


WRONG = {
    "a queue that is gone and holds messages": lambda pair: BacklogQueue.objects.create(
        pair=pair, path="contoso/x-servicebus-transfer/0", seen_at=NOW, is_gone=True, active=3
    ),
    "a queue that is gone and could deliver": lambda pair: BacklogQueue.objects.create(
        pair=pair, path="contoso/x-servicebus-transfer/0", seen_at=NOW, is_gone=True, deliverable_since=NOW
    ),
    "a hold that nobody has and that expires": lambda pair: pair.entities.filter(path="orders").update(
        state="failed_over", since=NOW, expires=NOW
    ),
    "a ping without an answer": lambda pair: pair.entities.filter(path="orders").update(last_ping_at=NOW),
    "an answer without a ping": lambda pair: pair.entities.filter(path="orders").update(last_ping_accepted=True),
    "an oldest message where none waits": lambda pair: pair.entities.filter(path="orders").update(
        waiting=0, oldest_waiting_at=NOW
    ),
    "a deletion that is taken back as what nobody knows": lambda pair: QueueDeletion.objects.create(
        pair=pair, path="a", by="ada", at=NOW, request_id="r", stage="returning", due_at=NOW, counts={}
    ),
    "a peak of no time": lambda pair: DepthPeak.objects.create(pair=pair, step_s=0, at=NOW, peak=1, last=1),
    "an alert that nobody acknowledged": lambda pair: Alert.objects.create(
        key="a", kind="backlog", severity="info", began_at=NOW, opened_at=NOW, acknowledged_at=NOW
    ),
    "a token that nobody revoked": lambda pair: ApiToken.objects.create(
        owner=User.objects.create_user("ada"), prefix="pn_a", scope="read", made_at=NOW, expires_at=NOW, revoked_at=NOW
    ),
    "a subscription counted twice": lambda pair: TopicSubscription.objects.bulk_create(
        TopicSubscription(topic=pair.entities.get(path="orders"), name="a", dead_lettered=0, counted_at=NOW)
        for _ in range(2)
    ),
    "a subscription without a name": lambda pair: TopicSubscription.objects.create(
        topic=pair.entities.get(path="orders"), name="", dead_lettered=0, counted_at=NOW
    ),
    "more processes that failed over than there are": lambda pair: pair.entities.filter(path="orders").update(
        processes=3, failed_over_in=4
    ),
    "failed over in one of an unknown number": lambda pair: pair.entities.filter(path="orders").update(
        processes=None, failed_over_in=1
    ),
    "an origin that nobody knows": lambda pair: pair.entities.filter(path="orders").update(origin="fate"),
    "an outcome that nobody knows": lambda pair: AuditEntry.objects.create(
        request_id="r", at=NOW, operator="ada", verb="hold", pair="contoso", outcome="maybe"
    ),
    "a pair that is backed by itself": lambda _: Pair.objects.create(
        name="a", primary_namespace="one", secondary_namespace="one", synced_at=NOW
    ),
    "a queue paused twice": lambda pair: [pair.pauses.create(queue="*", by=name, at=NOW) for name in ("ada", "bob")],
    "a queue that holds less than nothing": lambda pair: pair.backlog_queues.create(path="a", seen_at=NOW, active=-1),
    "a pair that never pings": lambda pair: Pair.objects.filter(pk=pair.pk).update(ping_primary_interval_s=0),
    "dead letters discarded to somewhere": lambda pair: DeadLetterJob.objects.create(
        pair=pair, path="q", by="ada", at=NOW, request_id="r", kind="discard", destination="orders", upto=1
    ),
    "dead letters that something else is done to": lambda pair: DeadLetterJob.objects.create(
        pair=pair, path="q", by="ada", at=NOW, request_id="r", kind="forget", upto=1
    ),
}


WRONG_ENTITIES = (
    {"state": "asleep"},
    {"kind": "relay"},
    {"state": "failed_over", "since": None},
    {"state": "healthy", "since": NOW, "held_by": "ada"},
    {"path": "orders"},
)


def is_refused(change) -> bool:
    try:
        with transaction.atomic():
            change()
    except IntegrityError:
        return True
    return False


def test_a_wrong_state_is_refused_by_the_database(pair):
    assert [name for name, wrong in WRONG.items() if not is_refused(lambda: wrong(pair))] == []  # noqa: B023
    entity = {"pair": pair, "path": "refunds"}
    taken = [one for one in WRONG_ENTITIES if not is_refused(lambda: EntityHealth.objects.create(**entity | one))]  # noqa: B023
    assert taken == []


def test_one_request_sent_many_times_at_once_is_one_action(committed_pair, people, redis_here):
    """A program that does not wait for its answer, with the key that makes it one request."""
    client = program_of(people["operator"], **{"Idempotency-Key": "one-request"})
    body = json.dumps({"paths": ["orders"], "reason": "x"})

    def request_of():
        return client.post("/api/v1/pairs/contoso/fail-over", body, "application/json").status_code

    assert set(at_once(request_of)) <= {200, 409}
    assert FailoverEvent.objects.filter(kind="forced").count() == 1
    assert AuditEntry.objects.get(verb="fail_over").outcome == "done"


ENDLESS = "x\0\ud800" * 100_000
"""What somebody may write into Redis where a reason or a name is expected."""


@pytest.mark.parametrize(("said", "kept"), [(-1, 0), (2**62, 2**31 - 1)])
def test_a_count_of_pings_that_fits_no_column_keeps_back_no_other(pair, said, kept):
    pings = {"orders": PingRecord(NOW, True, "", said, None), "refunds": PingRecord(NOW, True, "", 3, None)}

    assert projection.record_pings("contoso", pings) == 2
    counts = dict(EntityHealth.objects.values_list("path", "ping_count"))
    assert (counts["orders"], counts["refunds"]) == (kept, 3)


def test_whatever_length_and_letters_reports_have_they_are_stored_short(pair):
    """One that is not must not keep back what is reported others."""
    reported = projection.record_events([event(entity=ENDLESS, reason=ENDLESS, process=ENDLESS, operator=ENDLESS)])
    states = [health(path, reason=ENDLESS, held_by=ENDLESS, process=ENDLESS) for path in ("orders", ENDLESS)]
    ping = PingRecord(NOW, True, ENDLESS, 1, None)

    states += [health("odd", held_by=None, expires=NOW), health("odder", "healthy", held_by="ada", expires=NOW)]

    assert reported
    assert projection.apply_all_health("contoso", states) == 4
    assert projection.record_pings("contoso", {"orders": ping, ENDLESS: ping}) == 2
    projection.record_heartbeat(ENDLESS, ENDLESS, NOW, {ENDLESS: ENDLESS})
    projection.record_reported_states("contoso", ReportedStates(1, {ENDLESS: 1}))
    message_counts.record_depths("contoso", [], NOW)
    orders = EntityHealth.objects.get(path="orders")
    assert max(map(len, (orders.reason, orders.last_ping_reason, FailoverEvent.objects.get().reason))) <= LONGEST
