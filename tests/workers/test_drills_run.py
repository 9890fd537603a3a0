"""A drill carried out in a worker process, on real local namespaces with a real syphon and real pings.

docs/readiness.md.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.management import ServiceBusAdministrationClient

from dashboard.access.audited import Request
from dashboard.drills import actions as wanting
from dashboard.drills import hands
from dashboard.drills.actions import begin_if_due
from dashboard.drills.canary import CANARY, Canary, Moment
from dashboard.drills.course import Course
from dashboard.drills.hands import Exercise
from dashboard.fleet.state import projection
from dashboard.models import AuditEntry, Drill, EntityHealth, Pair, SyphonPause
from pairing import emulator_transport
from pairing.fleet.coordination import SharedState
from tests.pace import Stopwatch
from tests.workers.conftest import Begin
from workers import errands, pingers, syphons

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
PAIRS = """
[pairs.contoso]
primary = { connection_string_env = "CONTOSO_PRIMARY", namespace = "contoso" }
secondary = { connection_string_env = "CONTOSO_SECONDARY", namespace = "contoso-dr" }
backlog_queue_count = 2
ping_primary_interval_s = 1
entities = ["orders", "payments"]
drill = { entity = "pairing-canary", every_days = 30 }
"""
Strings = Mapping[str, str]


@pytest.fixture
def primary(strings: Strings) -> Iterator[ServiceBusAdministrationClient]:
    """The primary, with an empty canary in it."""
    text = strings["CONTOSO_PRIMARY"]
    with ServiceBusAdministrationClient.from_connection_string(text, transport=emulator_transport()) as primary:
        primary.create_queue(CANARY)
        yield primary
        for delete in (primary.delete_queue, primary.delete_topic):
            with suppress(ResourceNotFoundError):
                delete(CANARY)


@pytest.fixture
def pair(strings: Strings, worker_of: Begin, monkeypatch: pytest.MonkeyPatch) -> Pair:
    """A worker process of the pair that brings home and pings."""
    monkeypatch.setattr(hands, "cost", lambda *_: None)
    monkeypatch.setattr("pairing.fleet.coordination._RECONCILE_S", 0.5)  # a process tells of itself so often
    monkeypatch.setattr("pairing.drain.flow._SLICE_S", 0.2)  # a syphon sees so often that it is to stop
    monkeypatch.setattr(syphons, "_LOOK_S", 0.1)
    # Threads that share SQLite's database of tests, which is in memory, do not wait for each other's tables.
    monkeypatch.setattr(pingers, "catch_up", lambda *_: None)
    worker_of(strings, PAIRS)
    syphons.host("contoso")
    return Pair.objects.get()


def begun(pair: Pair, path: str = CANARY, **more: Any) -> Drill:
    identity = more.pop("request_id", f"{id(pair):032x}")
    request = Request(wanting.delegate("ada"), pair, path, reason="a test", request_id=identity)
    what = wanting.Wanted(**{"messages": 9, **more})
    wanting.start(request, Canary(path, is_there=not what.creates, kind=what.kind), Moment(), what, is_marked=True)
    return Drill.open_ones().get(pair=pair)


def carried_out(row: Drill) -> Drill:
    """The drill at its end, with somebody who pings as long as it takes."""
    over = threading.Event()

    def ping() -> None:
        while not over.wait(0.2):
            if pingers.away("contoso"):
                pingers.watch("contoso")

    pinging = threading.Thread(target=ping)
    pinging.start()
    try:
        while row.ended_at is None:
            errands.run_drill(row.pk)
            row.refresh_from_db()
    finally:
        over.set()
        pinging.join()
    return row


def state_of(fleet: redis.Redis, path: str = CANARY) -> str:
    known = SharedState(fleet, "contoso").health_of(path)
    return known.state if known else "healthy"


def test_a_drill_goes_through_the_backlog_and_comes_home_whole(pair, primary, fleet):
    with Stopwatch() as watch:
        row = carried_out(begun(pair))

    assert (row.outcome, row.detail) == ("passed", "All 9 messages arrived; 3 went through the backlog.")
    reported = row.report["messages"]
    assert (reported["received"], reported["lost"], reported["duplicates"], reported["seen_in_backlog"]) == (
        9,
        [],
        [],
        3,
    )
    assert reported["in_order"]["before"]
    times = row.report["times_s"]
    assert 0 < times["until_the_first_diverted_send"] < 20 + watch.withheld
    assert None not in times.values()
    assert row.report["operations"]["send_backlog"] == 3
    spread = row.report["propagation"]
    assert (spread["processes"], spread["reported"]) == (1, 1)
    assert 0 <= spread["p50_s"] == spread["max_s"] < 20 + watch.withheld
    assert state_of(fleet) == "healthy"
    assert primary.get_queue_runtime_properties(CANARY).active_message_count == 0


@pytest.mark.parametrize("kind", ["session_queue", "topic"])
def test_a_canary_of_any_kind_is_made_where_that_was_wanted_and_drilled_on(pair, primary, fleet, kind):
    primary.delete_queue(CANARY)

    row = carried_out(begun(pair, creates=True, kind=kind))

    assert (row.outcome, row.detail) == ("passed", "All 9 messages arrived; 3 went through the backlog.")
    assert row.report["messages"]["seen_in_backlog"] == 3
    assert state_of(fleet) == "healthy"
    actions = [(verb, "ada", CANARY, "done") for verb in ("fail_over", "release", "drill_ended")]
    assert list(AuditEntry.objects.order_by("pk").values_list("verb", "operator", "target", "outcome")) == actions
    assert all(f"drill {row.pk}:" in one.reason for one in AuditEntry.objects.exclude(verb="drill_ended"))
    if kind == "topic":
        left = primary.get_subscription_runtime_properties(CANARY, CANARY).active_message_count
    else:
        assert primary.get_queue(CANARY).requires_session
        left = primary.get_queue_runtime_properties(CANARY).active_message_count
    assert left == 0


def test_a_canary_that_was_made_for_one_drill_is_deleted_in_the_end_and_counts_nowhere(pair, primary, settings):
    primary.delete_queue(CANARY)
    settings.PAIRS_FILE.write_text(PAIRS.replace("drill =", "# drill ="))
    before = list(EntityHealth.objects.present().values_list("path", flat=True))

    row = begun(pair, creates=True)
    assert list(EntityHealth.objects.present().values_list("path", flat=True)) == before
    row = carried_out(row)

    assert (row.outcome, row.detail) == ("passed", "All 9 messages arrived; 3 went through the backlog.")
    assert CANARY not in [queue.name for queue in primary.list_queues()]
    assert list(EntityHealth.objects.present().values_list("path", flat=True)) == before == ["orders", "payments"]


def test_a_missing_canary_fails_the_drill_before_anything_is_done(pair, primary, fleet):
    primary.delete_queue(CANARY)

    row = carried_out(begun(pair, request_id=f"{7:032x}-1"))  # as the second try of a request is called

    assert (row.outcome, row.detail) == ("failed", f"There is no queue or topic {CANARY}.")
    assert row.report["messages"]["accepted"] == 0
    assert state_of(fleet) == "healthy"
    assert AuditEntry.objects.get().verb == "drill_ended"


def test_messages_of_others_are_left_alone(pair, primary, strings):
    with (
        ServiceBusClient.from_connection_string(strings["CONTOSO_PRIMARY"]) as client,
        client.get_queue_sender(CANARY) as sender,
    ):
        sender.send_messages(ServiceBusMessage("not yours"))

    row = carried_out(begun(pair))

    assert row.outcome == "failed"
    assert "that no drill has sent" in row.detail
    assert primary.get_queue_runtime_properties(CANARY).active_message_count == 1


def test_a_drill_that_is_called_off_is_rolled_back_with_nothing_left_behind(pair, primary, fleet, monkeypatch):
    row, real = begun(pair), Exercise.look

    def called_off(running: Exercise, course: Course) -> int | None:
        Drill.objects.update(abort_wanted_by="bob")
        return real(running, course)

    monkeypatch.setattr(Exercise, "look", called_off)

    row = carried_out(row)

    assert (row.outcome, row.detail) == ("aborted", "Aborted by bob.")
    assert state_of(fleet) == "healthy"
    assert primary.get_queue_runtime_properties(CANARY).active_message_count == 0
    assert row.report["messages"]["lost"] == []


def test_a_drill_does_not_run_beside_an_outage(pair, primary):
    EntityHealth.objects.filter(path="orders").update(state="failing", since=datetime.now(UTC))

    row = carried_out(begun(pair))

    assert (row.outcome, "drills require a healthy pair" in row.detail) == ("failed", True)


def test_a_drill_whose_worker_has_died_fails_and_its_hold_expires_by_itself(pair, primary, fleet, monkeypatch):
    """A killed worker does nothing more: no rollback, no renewed claim."""
    row = begun(pair)

    def killed(*_: object) -> None:
        raise SystemExit

    monkeypatch.setattr(Exercise, "release", killed)
    with pytest.raises(SystemExit):
        errands.run_drill(row.pk)
    assert state_of(fleet) == "failed_over"
    known = SharedState(fleet, "contoso").health_of(CANARY)
    assert known.expires is not None
    assert abs(known.expires - row.expires_at) < timedelta(seconds=1)

    errands.run_drill(row.pk)
    row.refresh_from_db()
    assert row.ended_at is None  # the drill belongs to the dead worker until its claim is over
    Drill.objects.update(claimed_until=datetime.now(UTC) - timedelta(seconds=1))
    errands.drills()

    row.refresh_from_db()
    assert (row.outcome, row.step) == ("failed", "ended")
    assert "The worker that ran it has ended. A forced failover expires at" in row.detail
    assert AuditEntry.objects.filter(verb="drill_ended").count() == 1


def test_a_worker_that_was_frozen_past_its_claim_heals_the_canary_and_does_nothing_more(
    pair, primary, fleet, monkeypatch
):
    row, real = begun(pair), Exercise.look

    def frozen(running: Exercise, course: Course) -> int | None:
        hands.fail(Drill.objects.select_related("pair").get(), "The worker that ran it has ended.")
        return real(running, course)

    monkeypatch.setattr(Exercise, "look", frozen)

    errands.run_drill(row.pk)

    row.refresh_from_db()
    assert (row.outcome, row.detail[:32]) == ("failed", "The worker that ran it has ended")
    assert state_of(fleet) == "healthy"


def test_a_drill_of_a_pair_that_is_configured_no_more_ends(pair, primary, monkeypatch):
    row = begun(pair)
    monkeypatch.setattr(errands, "pairs", dict)

    errands.run_drill(row.pk)

    row.refresh_from_db()
    assert row.outcome == "failed"
    assert "contoso is no longer in PAIRS_FILE" in row.detail


def test_the_schedule_begins_a_drill_once_an_interval(pair, primary, fleet):
    now = datetime.now(UTC)
    projection.record_heartbeat("host:1:aaaa", "pings", now)

    begin_if_due("contoso", CANARY, 30, now)
    fleet.delete("workers:drill-asked:contoso")
    begin_if_due("contoso", CANARY, 30, now)

    first = Drill.objects.get()
    assert (first.is_scheduled, first.by) == (True, "schedule")
    assert AuditEntry.objects.get().operator == "schedule"
    Drill.objects.update(at=now - timedelta(days=31), ended_at=now, outcome="passed")
    fleet.delete("workers:drill-asked:contoso")
    begin_if_due("contoso", CANARY, 30, now)
    assert Drill.open_ones().exists()


def test_the_schedule_waits_while_something_speaks_against_and_asks_once_a_minute(pair, primary, fleet):
    now = datetime.now(UTC)
    projection.record_heartbeat("host:1:aaaa", "pings", now)
    pause = SyphonPause.objects.create(pair=pair, by="ada", at=now)

    begin_if_due("contoso", CANARY, 30, now)
    pause.delete()
    begin_if_due("contoso", CANARY, 30, now)  # it was asked a moment ago
    assert not Drill.objects.exists()
    fleet.delete("workers:drill-asked:contoso")
    begin_if_due("contoso", CANARY, 30, now)
    assert Drill.objects.exists()
