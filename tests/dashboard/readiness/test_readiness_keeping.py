"""Readiness from what the database and Redis know, and how it is written down.

docs/readiness.md.
"""

from datetime import timedelta

import pytest
from django.utils import timezone

from dashboard.alerts.watching.conditions_now import less_ready
from dashboard.fleet import pruning
from dashboard.fleet.state import entity_rows, projection
from dashboard.models import (
    BacklogQueue,
    Charge,
    ChargeRun,
    EntityHealth,
    Invoice,
    PairDepth,
    PairReadiness,
    Readiness,
    ReadinessChange,
    SyphonPause,
)
from dashboard.readiness.facts import Answer, Probe
from dashboard.readiness.gathering import message_bytes, pair_facts
from dashboard.readiness.storing import keep
from pairing.fleet.presence import Presence, Presences

pytestmark = pytest.mark.postgres_nightly

PATHS = ("contoso/x-servicebus-transfer/0", "contoso/x-servicebus-transfer/1")


def allowed():
    return Probe(Answer.ALLOWED, timezone.now()).as_json()


def probes():
    return {"administration": allowed(), "queues": {path: {"send": allowed(), "listen": allowed()} for path in PATHS}}


def rotate(shared, paths):
    Presences(shared).report("app:1:bbbb", Presence(sends=True, rotation=paths))


@pytest.fixture
def ready_pair(pair, shared, alive):
    """A pair of two backlog queues of which everything is as it should be, and known to be."""
    now = timezone.now()
    pair.backlog_queue_count = 2
    pair.save()
    PairDepth.objects.create(pair=pair, at=now, messages=0)
    for index, path in enumerate(PATHS):
        BacklogQueue.objects.create(pair=pair, path=path, index=index, seen_at=now, max_size_bytes=5 * 2**30)
        shared.acquire_lease(path, "host:1:aaaa", 60)
    rotate(shared, PATHS)
    return pair


def checked(pair, reported=None, at=None):
    """One round, as a worker makes it."""
    row, _ = PairReadiness.objects.get_or_create(pair=pair, defaults={"due_at": timezone.now()})
    return keep(row, pair_facts(pair, probes() if reported is None else reported, at or timezone.now()))


def at_home(pair):
    """Every entity's primary takes what workers send, and its messages are small."""
    Readiness.objects.filter(pair=pair).update(probe=allowed(), probed_at=timezone.now())
    run = ChargeRun.objects.create(month="2026-10", started_at=timezone.now(), heard_at=timezone.now())
    invoice = Invoice.objects.create(
        run=run, month="2026-10", scope="s", rule="published", allocation="time", currency="USD", cents=0, exact="0",
        units=0,
    )  # fmt: skip
    for entity in pair.entities.all():
        Charge.objects.create(
            invoice=invoice, pair=pair.name, namespace="contoso", entity=entity.path, kind="send", operations=4,
            messages=4, bytes=4_000, billing_units=4, included_units=4, quantity="4", exact="0", cents=0,
        )  # fmt: skip


def faults(entity="orders"):
    return [reason["name"] for reason in Readiness.objects.get(entity=entity).reasons]


def test_an_entity_is_ready_once_its_primary_was_tried_and_lowers_no_score_of_its_pair(ready_pair):
    checked(ready_pair)
    assert faults() == ["home", "sizes"]
    assert (PairReadiness.objects.get().score, Readiness.objects.get(entity="orders").score) == (100, 85)

    at_home(ready_pair)
    checked(ready_pair)

    assert {row.entity: row.score for row in Readiness.objects.all()} == {"orders": 100, "payments": 100}
    assert faults() == []


def test_the_fall_of_an_entity_that_is_gone_troubles_nobody(ready_pair):
    checked(ready_pair)
    Readiness.objects.filter(entity="orders").update(fell_at=timezone.now())
    assert [one.kind for one in less_ready(timezone.now())] == ["readiness"]

    entity_rows.record_listed("contoso", ["payments"], timezone.now())
    checked(ready_pair)

    assert list(less_ready(timezone.now())) == []


def test_a_fall_lasts_until_the_score_is_as_high_again(ready_pair, shared):
    checked(ready_pair)
    at_home(ready_pair)
    checked(ready_pair)
    fell = []
    for rotation, reported in (((), None), (PATHS, {}), ((), None), (PATHS, None)):
        rotate(shared, rotation)
        checked(ready_pair, reported)
        row = Readiness.objects.get(entity="orders")
        fell.append((row.score, row.previous_score, row.fell_at is not None))

    assert fell == [(20, 100, True), (60, 100, True), (20, 100, True), (100, 20, False)]


def test_what_has_not_changed_is_reported_as_such_and_only_dated(ready_pair):
    assert checked(ready_pair) is True
    later = timezone.now() + timedelta(seconds=5)

    assert checked(ready_pair, at=later) is False

    assert set(Readiness.objects.values_list("checked_at", flat=True)) == {later}
    assert ReadinessChange.objects.count() == 3


def test_a_change_of_the_pair_is_one_row_of_history_and_few_questions_however_many_entities_it_has(
    ready_pair, django_assert_max_num_queries
):
    EntityHealth.objects.bulk_create(EntityHealth(pair=ready_pair, path=f"many/{n}") for n in range(1_000))
    checked(ready_pair)
    before = ReadinessChange.objects.count()
    SyphonPause.objects.create(pair=ready_pair, by="ada", at=timezone.now())

    with django_assert_max_num_queries(25):
        checked(ready_pair)

    assert ReadinessChange.objects.count() == before + 1
    assert ReadinessChange.objects.latest("at").entity == "*"
    assert set(Readiness.objects.values_list("previous_score", flat=True)) == {85}


def test_entities_that_change_each_in_its_own_way_take_few_questions_too(
    ready_pair, shared, django_assert_max_num_queries
):
    EntityHealth.objects.bulk_create(EntityHealth(pair=ready_pair, path=f"many/{n}") for n in range(150))
    checked(ready_pair)
    at_home(ready_pair)
    for n, charge in enumerate(sent := list(Charge.objects.filter(entity__startswith="many/"))):
        charge.bytes = 4 * (230_000 + n)  # a mean size, and so a reason, of its own
    Charge.objects.bulk_update(sent, ["bytes"], batch_size=100)

    with django_assert_max_num_queries(30):
        checked(ready_pair)

    reported = {row.reasons[0]["reason"] for row in Readiness.objects.filter(entity__startswith="many/")}
    assert len(reported) == 150
    row = Readiness.objects.get(entity="many/7")
    assert (row.score, row.previous_score, row.fell_at) == (97, 85, None)


def test_an_entity_that_is_gone_is_not_reported_any_more(ready_pair):
    checked(ready_pair)
    EntityHealth.objects.filter(path="payments").delete()

    checked(ready_pair)

    assert [row.entity for row in Readiness.objects.all()] == ["orders"]


def test_a_missing_queue_is_found_by_its_name_and_one_that_nobody_has_looked_at_lately_is_not_known(ready_pair):
    def queues():
        checked(ready_pair)
        return next(check for check in PairReadiness.objects.get().checks if check["name"] == "queues")

    BacklogQueue.objects.filter(path=PATHS[1]).update(is_gone=True)
    missing = queues()
    assert missing["result"] == "weak"
    assert PATHS[1] in missing["reason"]

    PairDepth.objects.update(at=timezone.now() - timedelta(hours=1))
    assert queues()["result"] == "unknown"


def test_a_process_that_does_not_send_is_no_sender_but_has_a_clock(ready_pair, shared):
    Presences(shared).report("worker:1:cccc", Presence(sends=False))

    facts = pair_facts(ready_pair, {}, timezone.now())

    assert facts.senders == {"app:1:bbbb": 2}
    assert set(facts.clocks) == {"app:1:bbbb", "worker:1:cccc"}


def test_sizes_are_means_of_what_was_sent(ready_pair):
    at_home(ready_pair)

    assert message_bytes(ready_pair) == {"orders": 1_000, "payments": 1_000}


def test_an_entity_that_is_away_is_not_blamed_for_its_primary(ready_pair):
    from tests.dashboard.conftest import health

    checked(ready_pair)
    refused = Probe(Answer.REFUSED, timezone.now(), "no").as_json()
    Readiness.objects.update(probe=refused, probed_at=timezone.now())
    checked(ready_pair)
    assert Readiness.objects.get(entity="orders").own["home"] == "bad"

    projection.apply_all_health("contoso", [health()])
    checked(ready_pair)

    assert Readiness.objects.get(entity="orders").own["home"] == "unknown"


def test_a_check_is_taken_by_one_and_due_again_an_interval_later(pair):
    now, interval = timezone.now(), timedelta(seconds=60)

    assert PairReadiness.claim(pair, now, interval) is not None
    assert PairReadiness.claim(pair, now, interval) is None
    assert PairReadiness.claim(pair, now + timedelta(seconds=61), interval) is not None


def test_history_is_kept_for_thirty_days(ready_pair):
    checked(ready_pair)
    ReadinessChange.objects.update(at=timezone.now() - timedelta(days=31))

    pruning.prune(timezone.now())

    assert not ReadinessChange.objects.exists()
