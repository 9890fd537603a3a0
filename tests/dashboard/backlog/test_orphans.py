"""Orphan backlog queues on a real local namespace: proof, quarantine, deletion and undo.

docs/specification.md, section 12.
"""

from datetime import timedelta

import pytest
from django.utils import timezone

from dashboard.access.audited import ActionError, Request
from dashboard.access.rights import Refused
from dashboard.backlog import actions, deletions
from dashboard.backlog.orphans import Proof, Use, decide_use, look
from dashboard.fleet.pairs.namespaces import namespace
from dashboard.models import AuditEntry, BacklogQueue, QueueDeletion, QueueDrain
from pairing.fleet.presence import Presence, Presences
from tests.dashboard.conftest import NOW
from tests.dashboard.secondary import ORPHAN, OWN

Stage = QueueDeletion.Stage


@pytest.fixture
def request_of(pair, people):
    def make(target=ORPHAN, role="operator", **more):
        return Request(user=people[role], pair=pair, target=target, reason="the count was lowered", **more)

    return make


def proof_of(path: str = ORPHAN) -> Proof | None:
    with namespace("contoso") as here:
        return look(here, path)


def later() -> None:
    """The undo window is over, and a worker looks."""
    now = timezone.now() + timedelta(hours=1)
    for row in deletions.due(now):
        deletions.carry_on(row, now)


@pytest.mark.parametrize(("bodies", "dead"), [((), 0), (("one",), 0), (("one",), 1)], ids=["empty", "active", "dead"])
def test_a_single_message_of_any_kind_disproves_that_a_queue_is_empty(reachable, bodies, dead):
    assert proof_of() is None, "there is no queue"
    reachable.fill(reachable.make(), *bodies)
    reachable.dead_letter(ORPHAN, dead)

    found = proof_of()

    assert (found.is_empty, found.status, found.messages) == (not bodies, "Active", len(bodies))


@pytest.mark.parametrize(
    ("path", "rotations", "leases", "use"),
    [
        (ORPHAN, [], [], Use()),
        (OWN, [], [], Use(belongs="It is one of the 2 backlog queues of contoso.")),
        (OWN.upper(), [], [], Use(belongs="It is one of the 2 backlog queues of contoso.")),
        ("fabrikam/x-servicebus-transfer/0", [], [], Use()),
        (ORPHAN, [("host:1", [OWN])], [(OWN, "host:1")], Use()),
        (ORPHAN, [], [(ORPHAN, "host:1")], Use(served="A syphon is draining it, at host:1.")),
    ],
    ids=["nobody's", "its pair's", "in another case", "an unpaired primary's", "others are used", "being drained"],
)
def test_a_queue_is_an_orphan_when_no_pair_and_no_process_needs_it(pair, path, rotations, leases, use):
    pair.backlog_queue_count = 2

    assert decide_use(path, [pair], rotations, leases) == use


def test_a_quarantine_and_its_end_are_seen_in_the_namespace_the_page_and_the_trail(reachable, pair, request_of):
    reachable.make()
    BacklogQueue.objects.create(pair=pair, path=ORPHAN, seen_at=NOW)

    assert actions.QUARANTINE_QUEUE.run(request_of()).outcome == "done"
    assert actions.QUARANTINE_QUEUE.run(request_of()).outcome == "unchanged"
    assert (reachable.status(ORPHAN), BacklogQueue.objects.get().status) == ("SendDisabled", "SendDisabled")

    assert actions.REOPEN_QUEUE.run(request_of()).outcome == "done"
    assert reachable.status(ORPHAN) == "Active"
    assert list(AuditEntry.objects.order_by("pk").values_list("verb", "outcome")) == [
        ("quarantine_queue", "done"),
        ("quarantine_queue", "unchanged"),
        ("reopen_queue", "done"),
    ]


@pytest.mark.parametrize("action", [actions.QUARANTINE_QUEUE, actions.DELETE_QUEUE, actions.DRAIN_QUEUE])
def test_what_a_pair_uses_is_left_alone(reachable, request_of, action):
    reachable.fill(reachable.make(OWN), "one")

    with pytest.raises(ActionError, match="one of the 2 backlog queues"):
        action.run(request_of(OWN))

    assert reachable.status(OWN) == "Active"


def test_what_a_live_process_uses_is_left_alone(reachable, request_of, shared):
    reachable.make()
    Presences(shared).report("far-away:1:bbbb", Presence(sends=True, rotation=(ORPHAN,)))

    with pytest.raises(ActionError, match="far-away:1:bbbb has it in its rotation"):
        actions.DELETE_QUEUE.run(request_of())

    assert reachable.status(ORPHAN) == "Active"


def test_an_empty_orphan_is_quarantined_at_once_and_deleted_after_the_undo_window(reachable, request_of, settings):
    settings.UNDO_WINDOW_S = 30
    reachable.make()

    outcome = actions.DELETE_QUEUE.run(request_of())

    assert "deleted in 30 s" in outcome.sentence
    assert reachable.status(ORPHAN) == "SendDisabled"
    assert deletions.due(timezone.now() + timedelta(seconds=29)) == []
    later()
    assert reachable.status(ORPHAN) is None
    assert QueueDeletion.objects.get().stage == Stage.DELETED
    assert AuditEntry.objects.get(verb="queue_deleted").operator == "operator"


def test_one_with_messages_is_deleted_by_administrators_who_type_its_path(reachable, request_of):
    reachable.fill(reachable.make(), "one", "two", "three")
    reachable.dead_letter(ORPHAN, 1)

    with pytest.raises(Refused, match="administrator"):
        actions.DELETE_QUEUE.run(request_of(), typed=ORPHAN)
    with pytest.raises(ActionError, match="2 active, 1 dead lettered: type its full path"):
        actions.DELETE_QUEUE.run(request_of(role="administrator"), typed="contoso")
    assert reachable.status(ORPHAN) == "Active"

    actions.DELETE_QUEUE.run(request_of(role="administrator"), typed=ORPHAN)
    later()

    assert reachable.status(ORPHAN) is None
    assert "2 active, 1 dead lettered" in AuditEntry.objects.get(verb="queue_deleted").detail


def test_a_deletion_can_be_taken_back_while_the_window_lasts(reachable, request_of):
    reachable.make()
    actions.DELETE_QUEUE.run(request_of())

    assert actions.TAKE_BACK.run(request_of()).outcome == "done"
    later()

    assert reachable.status(ORPHAN) == "Active"
    assert QueueDeletion.objects.get().stage == Stage.TAKEN_BACK
    assert actions.TAKE_BACK.run(request_of()).outcome == "unchanged"


@pytest.mark.parametrize("request_id", ["7", f"{7:032x}-1"], ids=["of a shell", "of a try again"])
@pytest.mark.parametrize("verb", ["queue_deleted", "queue_returned"])
def test_a_deletion_ends_on_record_whatever_its_request_is_called(reachable, request_of, request_id, verb):
    reachable.make()
    actions.DELETE_QUEUE.run(request_of(request_id=request_id))
    if verb == "queue_returned":
        assert actions.TAKE_BACK.run(request_of()).outcome == "done"

    later()

    assert AuditEntry.objects.get(verb=verb).target == ORPHAN
    assert QueueDeletion.objects.get().ended_at is not None


def reopened(secondary) -> None:
    """As somebody does in the portal."""
    queue = secondary.administration.get_queue(ORPHAN)
    queue.status = "Active"
    secondary.administration.update_queue(queue)


def filled_in_spite_of_the_quarantine(secondary) -> None:
    reopened(secondary)
    secondary.fill(ORPHAN, "late")
    queue = secondary.administration.get_queue(ORPHAN)
    queue.status = "SendDisabled"
    secondary.administration.update_queue(queue)


def made_anew(secondary) -> None:
    secondary.administration.delete_queue(ORPHAN)
    secondary.make()


@pytest.mark.parametrize(
    ("happens", "why"),
    [(filled_in_spite_of_the_quarantine, "and now 1 active"), (reopened, ""), (made_anew, ""), (None, "far-away")],
)
def test_a_queue_that_is_not_as_it_was_confirmed_is_kept_and_active(reachable, request_of, shared, happens, why):
    reachable.make()
    actions.DELETE_QUEUE.run(request_of())
    if happens:
        happens(reachable)
    else:
        Presences(shared).report("far-away:1:bbbb", Presence(sends=True, rotation=(ORPHAN,)))

    later()

    row = QueueDeletion.objects.get()
    assert (row.stage, reachable.status(ORPHAN), why in row.detail) == (Stage.KEPT, "Active", True)
    assert AuditEntry.objects.filter(verb="queue_kept").count() == 1


def test_an_outage_is_reported_on_the_row_and_tried_again(reachable, request_of, settings, tmp_path):
    reachable.make()
    actions.DELETE_QUEUE.run(request_of())
    good, settings.PAIRS_FILE = settings.PAIRS_FILE, tmp_path / "none.toml"

    later()
    assert "be retried" in QueueDeletion.objects.get().detail

    settings.PAIRS_FILE = good
    now = timezone.now() + timedelta(hours=2)
    for row in deletions.due(now):
        deletions.carry_on(row, now)
    assert reachable.status(ORPHAN) is None


def test_a_drain_is_wanted_once_where_there_is_something_to_drain_and_stopped_once(reachable, request_of):
    reachable.make()
    assert actions.DRAIN_QUEUE.run(request_of()).outcome == "unchanged"
    reachable.fill(ORPHAN, "one")

    assert actions.DRAIN_QUEUE.run(request_of()).outcome == "done"
    assert actions.DRAIN_QUEUE.run(request_of()).outcome == "unchanged"
    assert QueueDrain.objects.get().waiting == 1

    assert actions.STOP_DRAIN.run(request_of()).outcome == "done"
    assert actions.STOP_DRAIN.run(request_of()).outcome == "unchanged"


def test_a_deviating_queue_is_repaired_as_far_as_an_update_can(reachable, request_of):
    reachable.make(lock_duration=timedelta(seconds=30), max_delivery_count=10, requires_session=True)

    outcome = actions.REPAIR_QUEUE.run(request_of())

    assert outcome.outcome == "done"
    assert "lock duration" in outcome.sentence
    assert "requires session" in outcome.sentence
    found = proof_of()
    assert set(found.deviations) == {"requires_session"}


def test_a_queue_about_to_be_deleted_is_neither_repaired_nor_reopened_and_in_the_end_not_taken_back(
    reachable, request_of
):
    reachable.make(max_delivery_count=10)
    actions.DELETE_QUEUE.run(request_of())

    for action in (actions.REPAIR_QUEUE, actions.REOPEN_QUEUE):
        with pytest.raises(ActionError, match="about to be deleted"):
            action.run(request_of())
    QueueDeletion.objects.update(stage=Stage.DELETING)
    with pytest.raises(ActionError, match="too late"):
        actions.TAKE_BACK.run(request_of())
