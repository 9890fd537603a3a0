"""Workers find orphans, drain them home and carry deletions out, on real local namespaces.

docs/specification.md, section 12.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusMessage
from django.utils import timezone

from dashboard.backlog import dead_letter_links, dead_letter_progress
from dashboard.backlog.dead_letter_links import DeadLetterLinks
from dashboard.backlog.dead_letter_run import DeadLetterRun
from dashboard.fleet.depth import sampling
from dashboard.models import (
    BacklogQueue,
    DeadLetterJob,
    DiscardedMessage,
    Pair,
    QueueDeletion,
    QueueDrain,
    ResubmittedMessage,
)
from pairing.drain.ledger import Ledger
from pairing.drain.shared.dead_letter_results import SharedDecisions
from pairing.fleet.presence import Presence, Presences
from tests.contract.worlds import take
from tests.dashboard.secondary import ORPHAN, OWN, Secondary
from tests.workers.conftest import Begin, end_worker
from workers import errands, watchers

pytestmark = pytest.mark.django_db(transaction=True)
PAIRS = """
[pairs.contoso]
primary = { connection_string_env = "CONTOSO_PRIMARY", namespace = "contoso" }
secondary = { connection_string_env = "CONTOSO_SECONDARY", namespace = "contoso-dr" }
backlog_queue_count = 2
entities = ["orders", "payments"]
"""


@pytest.fixture
def secondary(strings: dict[str, str], worker_of: Begin) -> Iterator[Secondary]:
    """A worker process of the pair, whose secondary holds nothing yet but the pair's own queues."""
    worker_of(strings, PAIRS)
    with Secondary.of(strings) as here:
        yield here
        end_worker()
        empty(here)


def empty(here: Secondary) -> None:
    for entity in ("orders", "payments"):
        here.received(entity, 0)


def errand(model: type, **more: object) -> object:
    reported = {"path": ORPHAN, "by": "ada", "at": timezone.now(), "request_id": f"{model.__name__}-{len(more)}"}
    return model.objects.create(pair=Pair.objects.get(), **reported, **more)


def job(**more: object) -> DeadLetterJob:
    wanted = {"kind": "resubmit", "upto": 2**60, "total": 3} | more
    row = errand(DeadLetterJob, **wanted)
    assert isinstance(row, DeadLetterJob)
    return row


def carried_out(row: DeadLetterJob) -> DeadLetterJob:
    errands.carry_out(row.pk)
    row.refresh_from_db()
    return row


def test_the_sampler_finds_queues_beyond_the_count_and_of_unpaired_primaries(secondary):
    secondary.make(ORPHAN)
    secondary.make("fabrikam/x-servicebus-transfer/0")
    secondary.administration.create_queue("no-backlog-queue")

    watchers.sample("contoso")

    found = dict(BacklogQueue.objects.values_list("path", "is_orphan"))
    assert found == {
        OWN: False,
        "contoso/x-servicebus-transfer/1": False,
        ORPHAN: True,
        "fabrikam/x-servicebus-transfer/0": True,
    }


def test_what_a_live_process_uses_is_not_shown_as_an_orphan(secondary, fleet):
    secondary.make(ORPHAN)
    there = Presence(sends=True, rotation=(ORPHAN,))
    Presences(watchers.shared_state("contoso")).report("far-away:1:bbbb", there)

    watchers.sample("contoso")

    assert BacklogQueue.objects.get(path=ORPHAN).is_orphan is False


@pytest.mark.parametrize(
    ("paths", "paired", "found"),
    [
        (["contoso/x-servicebus-transfer/0"], ["Contoso"], []),
        (["fabrikam/x-servicebus-transfer/0", "fabrikam/x-servicebus-transfer/1"], ["contoso"], ["fabrikam"]),
        (["fabrikam/x-servicebus-transfer/one", "orders"], ["contoso"], []),
    ],
    ids=["paired, in another case", "two of one primary", "no backlog queues at all"],
)
def test_unpaired_primaries_are_known_by_the_names_of_backlog_queues(paths, paired, found):
    assert sampling.unpaired(paths, paired) == found


def test_an_orphan_in_quarantine_is_drained_home_and_the_row_shows_how_many(secondary, monkeypatch):
    monkeypatch.setattr(errands, "LOOK_S", 0.2)  # the counts of a local namespace do not lag behind
    secondary.make(ORPHAN)
    secondary.fill(ORPHAN, "one", "two", entity="orders")
    secondary.fill(ORPHAN, "three", entity="payments")
    queue = secondary.administration.get_queue(ORPHAN)
    queue.status = "SendDisabled"
    secondary.administration.update_queue(queue)
    row = errand(QueueDrain, waiting=3)

    errands.drain_queue(row.pk)

    done = QueueDrain.objects.get()
    assert (done.ended_at is not None, done.moved, done.waiting) == (True, 3, 0)
    assert secondary.received("orders", 2) == ["one", "two"]
    assert secondary.received("payments", 1) == ["three"]


def test_a_drain_that_was_stopped_is_not_begun(secondary):
    secondary.make(ORPHAN)
    secondary.fill(ORPHAN, "one")
    row = errand(QueueDrain, ended_at=timezone.now())

    errands.drain_queue(row.pk)

    assert secondary.administration.get_queue_runtime_properties(ORPHAN).active_message_count == 1


def test_a_due_deletion_is_carried_out_by_a_worker(secondary):
    secondary.make(ORPHAN)
    created = secondary.administration.get_queue_runtime_properties(ORPHAN).created_at_utc
    counts = dict.fromkeys(("active", "scheduled", "dead_lettered", "transfer", "transfer_dead_lettered"), 0)
    row = errand(QueueDeletion, due_at=timezone.now(), queue_created_at=str(created), counts=counts)
    QueueDeletion.objects.update(request_id="11111111222243338444555555555555")

    errands.delete(row.pk)
    QueueDeletion.objects.update(due_at=timezone.now() - timedelta(seconds=1))
    errands.delete(row.pk)

    assert QueueDeletion.objects.get().stage == "deleted"
    assert secondary.status(ORPHAN) is None


@pytest.fixture
def dead(secondary: Secondary) -> Secondary:
    """Three dead letters meant for `orders`, with the sequence numbers 1 to 3 or so."""
    secondary.make(ORPHAN)
    secondary.fill(ORPHAN, "one", "two", "three", entity="orders")
    secondary.dead_letter(ORPHAN, 3)
    return secondary


def numbers(here: Secondary) -> list[int]:
    with here.client.get_queue_receiver(ORPHAN, sub_queue="deadletter") as receiver:
        return [message.sequence_number or 0 for message in receiver.peek_messages(100)]


def test_all_dead_letters_are_sent_where_they_were_meant_for_and_stay_where_the_destination_is_unknown(dead):
    row = carried_out(job(destination="nowhere"))
    assert (row.done, len(numbers(dead))) == (0, 3)
    DeadLetterJob.objects.update(ended_at=timezone.now())

    row = carried_out(job())

    assert (row.done, row.failed, row.ended_at is not None) == (3, 0, True)
    assert dead.received("orders", 3) == ["one", "two", "three"]
    assert numbers(dead) == []


@pytest.mark.parametrize("confirmed", [3, 1], ids=["as many as there are", "fewer than there are"])
def test_a_job_ends_with_the_last_one_and_does_not_wait_for_more(dead, monkeypatch, confirmed):
    received, real = [], DeadLetterLinks.receive

    def receives(one: DeadLetterLinks) -> list[object]:
        received.append(real(one))
        return received[-1]

    monkeypatch.setattr(dead_letter_links, "BATCH", 1)
    monkeypatch.setattr(dead_letter_links, "_WAIT_S", 60.0)
    monkeypatch.setattr(DeadLetterLinks, "receive", receives)

    row = carried_out(job(kind="discard", total=confirmed))

    assert (row.done, row.ended_at is not None, numbers(dead)) == (3, True, [])
    assert [len(messages) for messages in received] == [1, 1, 1]


def test_chosen_ones_go_elsewhere_on_record_and_the_others_stay_free_for_everybody(dead):
    first, second, third = numbers(dead)
    before = datetime.now(UTC)
    with dead.client.get_queue_receiver(ORPHAN, sub_queue="deadletter") as receiver:
        enqueued = {one.sequence_number: one.enqueued_time_utc for one in receiver.peek_messages(10)}

    row = carried_out(job(numbers=[second], destination="payments", total=1))

    assert (row.done, row.failed) == (1, 0)
    assert dead.received("payments", 1) == ["two"]
    kept = ResubmittedMessage.objects.get()
    assert (kept.number, kept.entity, kept.enqueued_at, kept.at >= before) == (second, "orders", enqueued[second], True)
    with dead.client.get_queue_receiver(ORPHAN, sub_queue="deadletter") as receiver:
        left = take(receiver, 2)
    assert [message.sequence_number for message in left] == [first, third]


def test_what_does_not_say_where_it_was_meant_for_is_reported_and_stays(dead):
    with dead.client.get_queue_sender(ORPHAN) as sender:
        sender.send_messages(ServiceBusMessage("whose am I?"))
    dead.dead_letter(ORPHAN, 1)

    row = carried_out(job(total=4))

    assert (row.done, row.failed) == (3, 1)
    assert "x-ms-path is missing; choose a destination" in row.detail
    assert len(numbers(dead)) == 1


def test_what_was_confirmed_is_discarded_on_record_with_a_digest_and_nothing_that_came_after(dead):
    _, second, third = numbers(dead)

    row = carried_out(job(kind="discard", upto=second, total=2))

    assert (row.done, numbers(dead), DiscardedMessage.objects.count()) == (2, [third], 2)
    kept = DiscardedMessage.objects.order_by("number").first()
    assert (kept.message_id, kept.entity, kept.dead_letter_reason) == ("id-of-one", "orders", "RestoreFailed")
    assert kept.sha256 == "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"


@pytest.mark.parametrize(("kind", "decision"), [("discard", "discarded"), ("resubmit", "restored")])
def test_the_ledgers_of_the_queue_say_what_became_of_its_dead_letters(dead, kind, decision):
    first, *others = numbers(dead)
    ledger = Ledger(ORPHAN)
    for number in (first, *others):
        ledger.close(number, "dead_lettered")

    carried_out(job(kind=kind, numbers=others, total=2))

    assert SharedDecisions(watchers.shared_state("contoso"), ORPHAN).apply(ledger) == 1
    assert (ledger.count("dead_lettered"), ledger.count(decision)) == (1, 2)


class PowerFailed(BaseException):
    """Nothing after this line is executed."""


@pytest.mark.sampled
@pytest.mark.parametrize("chosen", [False, True], ids=["all", "chosen ones"])
@pytest.mark.parametrize("step", ["_send", "_settled", "_complete", "_keep", "_report_to_ledger"])
def test_a_worker_killed_anywhere_loses_nothing_doubles_only_by_the_same_id_and_counts_each_once(
    dead, monkeypatch, step, chosen
):
    row, real = job(numbers=numbers(dead) if chosen else []), getattr(DeadLetterRun, step)

    def fails(*arguments: object, **keywords: object) -> None:
        real(*arguments, **keywords)
        raise PowerFailed

    with monkeypatch.context() as power:
        power.setattr(DeadLetterRun, step, fails)
        with pytest.raises(PowerFailed):
            errands.carry_out(row.pk)
    DeadLetterJob.objects.update(claimed_until=None)

    row = carried_out(row)

    assert (row.ended_at is not None, row.done, row.detail) == (True, 3, "3 sent again.")
    assert numbers(dead) == []
    assert set(dead.received("orders", 3)) == {"one", "two", "three"}
    assert ResubmittedMessage.objects.filter(job=row).count() == 3


def one_at_a_time(power: pytest.MonkeyPatch, then: Callable[[DeadLetterRun], object]) -> None:
    """Dead letters are received singly, and something happens after each."""
    real = DeadLetterRun._take

    def takes(one: DeadLetterRun, wanted: list[object]) -> None:
        real(one, wanted)
        then(one)

    power.setattr(dead_letter_links, "BATCH", 1)
    power.setattr(DeadLetterRun, "_take", takes)


@pytest.mark.parametrize("kind", ["discard", "resubmit"])
def test_chosen_ones_that_take_several_slices_are_all_counted_and_the_rest_is_not_received(dead, monkeypatch, kind):
    first, second, third = numbers(dead)
    row = job(kind=kind, numbers=[first, second], total=2)
    with monkeypatch.context() as slow:
        one_at_a_time(slow, lambda one: one._stop.set())
        carried_out(row)
        assert (row.done, row.ended_at) == (1, None)

        row = carried_out(row)

    carried_out(row)

    reported = "discarded" if kind == "discard" else "sent again"
    assert (row.done, row.ended_at is not None, row.detail) == (2, True, f"2 {reported}.")
    assert numbers(dead) == [third]


def test_what_others_took_away_meanwhile_is_reported(dead):
    first, second, third = numbers(dead)
    with dead.client.get_queue_receiver(ORPHAN, sub_queue="deadletter") as other:
        (taken,) = other.receive_messages(max_message_count=1, max_wait_time=60)
        other.complete_message(taken)

    row = carried_out(job(numbers=[first, second]))

    assert row.detail == "1 sent again. 1 no longer existed."
    assert numbers(dead) == [third]


@pytest.mark.parametrize("limit", ["MOST_HELD", "MOST_HELD_BYTES", "REACH_S"])
def test_what_lies_behind_more_than_can_be_kept_locked_is_reported_as_out_of_reach(dead, monkeypatch, limit):
    first, second, third = numbers(dead)
    monkeypatch.setattr(dead_letter_links, "BATCH", 1)
    monkeypatch.setattr(dead_letter_progress, limit, 0 if limit == "REACH_S" else 1)
    row = job(numbers=[first, third], total=2)
    while not row.ended_at:
        row = carried_out(row)

    assert row.detail == "1 sent again. 1 could not be reached behind 1 others: process these first."
    assert numbers(dead) == [second, third]


def test_more_that_cannot_be_sent_than_can_be_kept_locked_do_not_hold_a_job_up_for_ever(dead, monkeypatch):
    with dead.client.get_queue_sender(ORPHAN) as sender:
        sender.send_messages([ServiceBusMessage("whose am I?") for _ in range(3)])
    dead.dead_letter(ORPHAN, 3)
    monkeypatch.setattr(dead_letter_links, "BATCH", 1)
    monkeypatch.setattr(dead_letter_progress, "MOST_HELD", 2)
    row = job(total=6)
    while not row.ended_at:
        row = carried_out(row)

    assert (row.done, row.failed, len(numbers(dead))) == (3, 2, 3)
    assert row.detail.endswith("Some could not be reached behind 2 others: process these first.")


def test_what_was_done_until_a_job_was_stopped_counts(dead, monkeypatch):
    row = job()
    one_at_a_time(monkeypatch, lambda one: DeadLetterJob.objects.update(ended_at=timezone.now(), detail="Stopped."))

    carried_out(row)

    assert (row.done, row.detail, len(numbers(dead))) == (1, "Stopped.", 2)


@pytest.mark.parametrize("chosen", [False, True], ids=["all", "chosen ones"])
def test_what_another_has_locked_is_waited_for_and_not_left_behind(dead, chosen):
    """As a worker that was killed has: its locks stand for a minute."""
    row = job(numbers=numbers(dead) if chosen else [])
    with dead.client.get_queue_receiver(ORPHAN, sub_queue="deadletter") as other:
        (locked,) = other.receive_messages(max_message_count=1, max_wait_time=60)
        carried_out(row)
        assert (row.done, row.ended_at) == (2, None)
        assert "Another receiver has locked some of them" in row.detail
        other.abandon_message(locked)
    DeadLetterJob.objects.update(claimed_until=None)

    row = carried_out(row)

    assert (row.done, row.ended_at is not None) == (3, True)
    assert sorted(dead.received("orders", 3)) == ["one", "three", "two"]


def test_a_job_that_was_stopped_sends_nothing_more(dead):
    row = job()
    DeadLetterJob.objects.update(ended_at=timezone.now())

    errands.carry_out(row.pk)

    assert len(numbers(dead)) == 3
