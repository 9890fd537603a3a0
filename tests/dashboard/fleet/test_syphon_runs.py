"""Runs of syphons, read out of leases and ledgers: who served a queue, what came home, why it ended."""

import json
from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from dashboard.fleet import pruning
from dashboard.fleet.state import ledgers, projection, syphon_runs
from dashboard.models import SyphonPause, SyphonRun
from pairing.drain.ledger import Ledger
from tests.dashboard.conftest import NOW
from tests.dashboard.fleet.test_projection import event

pytestmark = pytest.mark.postgres_nightly

QUEUE, OTHER = "contoso/x-servicebus-transfer/0", "contoso/x-servicebus-transfer/1"
FIRST, SECOND = "host:1:aaaa", "host:2:bbbb"


def at(seconds: float):
    return NOW + timedelta(seconds=seconds)


def ledger_texts(holder: str, restored: int, dead: int = 0, discarded: int = 0) -> dict[str, str]:
    """What the holder tells of one filling."""
    ledger = Ledger(QUEUE, "2026-11-01T00:00:00Z")
    ledger.reporter = holder
    for number in range(1, restored + dead + discarded + 1):
        ledger.see(number, NOW)
        is_late = "discarded" if number > restored + dead else "dead_lettered"
        ledger.close(number, "restored" if number <= restored else is_late)
    return {QUEUE: json.dumps(ledger.to_json())}


def look(second: float, holder: str | None, reported: dict[str, str] | None = None) -> None:
    """What a worker does every five seconds."""
    syphon_runs.look("contoso", {QUEUE: holder} if holder else {}, at(second))
    ledgers.keep("contoso", reported or {}, at(second))
    syphon_runs.seen("contoso", at(second))


def test_a_run_begins_with_a_lease_and_counts_what_its_holder_brought_home(pair):
    look(0, FIRST)
    look(5, FIRST, ledger_texts(FIRST, 100))
    look(10, FIRST, ledger_texts(FIRST, 150, dead=2, discarded=1))
    look(60, FIRST, ledger_texts(FIRST, 150, dead=2, discarded=1))

    run = SyphonRun.objects.get()
    assert (run.holder, run.moved, run.dead_lettered, run.otherwise) == (FIRST, 150, 2, 1)
    assert (run.started_at, run.ended_at, run.pace) == (at(0), None, 15.0)


def test_a_run_ends_when_another_process_has_the_lease_and_each_has_what_it_moved(pair):
    look(0, FIRST)
    look(5, FIRST, ledger_texts(FIRST, 100))
    look(10, SECOND, ledger_texts(SECOND, 130))

    first, second = SyphonRun.objects.order_by("started_at")
    assert (first.moved, second.moved) == (100, 30)
    assert (first.ended_at, second.ended_at) == (at(10), None)
    assert first.ended_because == f"Its lease has expired: {SECOND} took over the queue."


def test_the_last_ledgers_of_a_process_that_has_lost_its_lease_are_its_own(pair):
    look(0, FIRST)
    look(5, SECOND, ledger_texts(FIRST, 7))

    assert dict(SyphonRun.objects.values_list("holder", "moved")) == {FIRST: 7, SECOND: 0}


@pytest.mark.parametrize(
    ("facts", "reported"),
    [
        ("", "Its lease has expired, and no process holds the queue yet."),
        ("stopped", "It was asked to stop."),
        ("paused", "Paused by ada: a drill"),
    ],
)
def test_why_a_run_ended_is_reported(pair, facts, reported):
    look(0, FIRST)
    if facts == "stopped":
        projection.record_events([event(kind="syphon_stopped", entity="*", process=FIRST, time=at(3))])
    if facts == "paused":
        SyphonPause.objects.create(pair=pair, queue="*", by="ada", reason="a drill", at=at(1))
    look(5, None)

    assert SyphonRun.objects.get().ended_because == reported


def test_what_is_reported_twice_or_by_a_worker_that_was_frozen_counts_once(pair):
    look(0, FIRST)
    look(5, FIRST, ledger_texts(FIRST, 100))
    look(5, FIRST, ledger_texts(FIRST, 100))
    look(6, FIRST, ledger_texts(FIRST, 40))
    look(10, FIRST, ledger_texts(FIRST, 110))

    assert SyphonRun.objects.get().moved == 110


def test_a_run_that_others_have_seen_end_does_not_begin_again_in_a_worker_that_was_frozen(pair):
    look(0, FIRST)
    look(10, None)

    assert syphon_runs.look("contoso", {QUEUE: FIRST}, at(5)) == 0
    assert SyphonRun.objects.get().ended_at == at(10)


def test_a_worker_that_freezes_between_reading_the_runs_and_ending_one_ends_none_that_was_seen_meanwhile(pair):
    look(0, FIRST)
    read = SyphonRun.objects.get()
    look(10, FIRST)

    assert syphon_runs._end(read, SECOND, at(5)) == 0
    assert SyphonRun.objects.get().ended_at is None


def test_leases_of_other_things_are_no_runs(pair):
    assert syphon_runs.look("contoso", {"something-else": FIRST}, NOW) == 0


def test_two_processes_cannot_serve_a_queue_in_the_ledgers(pair):
    look(0, FIRST)
    with pytest.raises(IntegrityError), transaction.atomic():
        SyphonRun.objects.create(pair=pair, queue=QUEUE, holder=SECOND, started_at=at(1), seen_at=at(1))


@pytest.mark.parametrize(("ended", "why"), [(at(1), ""), (None, "It was asked to stop."), (at(-1), "It was asked to.")])
def test_a_run_that_is_over_has_a_reason_and_an_end_after_its_beginning(pair, ended, why):
    with pytest.raises(IntegrityError), transaction.atomic():
        SyphonRun.objects.create(
            pair=pair, queue=QUEUE, holder=FIRST, started_at=at(0), seen_at=at(0), ended_at=ended, ended_because=why
        )


def test_the_pair_s_page_shows_them(pair, redis_here, alive, as_role):
    look(0, FIRST)
    look(5, FIRST, ledger_texts(FIRST, 1234, dead=3))
    look(10, SECOND)

    page = as_role("viewer").get("/pairs/contoso/").text

    assert "Syphon runs" in page
    assert "1,234" in page
    assert f"Its lease has expired: {SECOND} took over the queue." in page


def test_old_runs_are_forgotten_and_open_ones_are_not(pair):
    look(0, FIRST)
    syphon_runs.look("contoso", {QUEUE: SECOND}, at(1))
    pruning.prune(NOW + timedelta(days=500))

    assert SyphonRun.objects.get().holder == SECOND
