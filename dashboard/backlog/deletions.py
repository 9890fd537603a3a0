"""Deleting a backlog queue without losing a message: quarantine, undo window, proof, deletion.

The queue is first set SendDisabled, so that nothing is added after the confirmation. After the undo window everything
is read again, and only a queue that is exactly as confirmed is deleted; any other is restored. The row stores the
stage: if a worker is killed, the next one continues (docs/specification.md, section 12;
docs/design/deleting-queues.md).
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from azure.core.exceptions import ResourceNotFoundError
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from dashboard.access.audited import Request
from dashboard.access.declaration import Verb
from dashboard.access.idempotency import following
from dashboard.backlog.orphans import QUARANTINED, Proof, Use, forget, look, remember, set_status, use_of
from dashboard.fleet.pairs.namespaces import Namespace, NamespaceError, namespace
from dashboard.models import BacklogQueue, QueueDeletion
from dashboard.site.redis import RedisError, announce_change

Stage = QueueDeletion.Stage
CLAIM_S = 120.0
RETRY_S = 15.0
SETTLE = timedelta(seconds=5)  # until every gateway of a namespace applies SendDisabled
ANOTHER = "It was deleted and created again in the meantime: this is another queue."
ENDS = {
    Stage.DELETED: Verb(name="queue_deleted", label="Queue deleted"),
    Stage.KEPT: Verb(name="queue_kept", label="Queue not deleted"),
    Stage.TAKEN_BACK: Verb(name="queue_returned", label="Deletion cancelled"),
}


def due(now: datetime) -> list[QueueDeletion]:
    """The deletions that are due at `now`."""
    waiting = QueueDeletion.unclaimed(now).exclude(stage=Stage.QUARANTINED, due_at__gt=now)
    return list(waiting.select_related("pair").order_by("at"))


def undo_window() -> timedelta:
    """How long a confirmed deletion can be cancelled."""
    return max(timedelta(seconds=settings.UNDO_WINDOW_S), SETTLE)


def carry_on(row: QueueDeletion, now: datetime) -> None:
    """Execute the due stages. An outage is stored on the row, and the stage is retried some seconds later."""
    if not row.claim(now, CLAIM_S):
        return
    token = row.claimed_by
    try:
        with namespace(row.pair.name) as here:
            while _step(row, here, now):
                pass
    except (NamespaceError, RedisError, ResourceNotFoundError) as error:
        if row.claimed_by == token:  # else the claim of another worker, which is not ours to change
            row.keep(detail=_trouble(error), claimed_until=now + timedelta(seconds=RETRY_S), claimed_by="")
    else:
        if row.claimed_by == token:
            row.lay_down()
    announce_change()


def why_kept(row: QueueDeletion, proof: Proof, use: Use) -> str:
    """Why a queue must not be deleted although it was confirmed; empty if it may be deleted. Pure."""
    if proof.created_at != row.queue_created_at:
        return ANOTHER
    if use.belongs or use.served:
        return use.belongs or use.served
    if proof.status != QUARANTINED:
        return f"Its quarantine was ended: its status is {proof.status}."
    if dict(proof.counts) != row.counts:
        confirmed, now = describe_counts(row.counts), describe_counts(proof.counts)
        return f"It held {confirmed} when the deletion was confirmed, and now {now}."
    if proof.peeked and not row.messages:
        return "Its counts are 0, but a peek finds a message."
    return ""


def describe_counts(counts: Mapping[str, int]) -> str:
    """The counts as text."""
    there = [f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if count]
    return ", ".join(there) or "no message"


def _step(row: QueueDeletion, here: Namespace, now: datetime) -> bool:
    """Execute one stage. Returns whether another can follow immediately."""
    match row.stage:
        case Stage.WANTED:
            return _quarantine(row, here)
        case Stage.QUARANTINED:
            return row.due_at <= now and _move(row, Stage.DELETING)
        case Stage.DELETING:
            return _delete(row, here)
        case Stage.RETURNING:
            return _return(row, here)
    return False


def _quarantine(row: QueueDeletion, here: Namespace) -> bool:
    proof = look(here, row.path)
    if proof is not None and proof.created_at != row.queue_created_at:
        return _move(row, Stage.RETURNING, returns_as=Stage.KEPT, detail=ANOTHER)
    try:
        set_status(here, row.path, QUARANTINED)
    except ResourceNotFoundError:
        return _end(row, Stage.DELETED, "It no longer existed.")
    if _move(row, Stage.QUARANTINED, due_at=timezone.now() + undo_window(), detail=""):
        BacklogQueue.objects.filter(pair=row.pair, path=row.path).update(status=QUARANTINED)
        return True
    if row.stage not in (Stage.QUARANTINED, Stage.DELETING):  # else another worker goes on with it, and needs it
        set_status(here, row.path, row.status_before)  # cancelled while it was being quarantined
    return False


def _delete(row: QueueDeletion, here: Namespace) -> bool:
    proof = look(here, row.path)
    if proof is None:
        return _end(row, Stage.DELETED, f"It no longer exists. It held {describe_counts(row.counts)}.")
    if why := why_kept(row, proof, use_of(row.pair, row.path)):
        return _move(row, Stage.RETURNING, returns_as=Stage.KEPT, detail=why)
    if not row.keep(claimed_until=timezone.now() + timedelta(seconds=CLAIM_S)):
        return False
    with here.asked() as administration:
        administration.delete_queue(row.path)
    return _end(row, Stage.DELETED, f"It is deleted. It held {describe_counts(row.counts)}.")


def _return(row: QueueDeletion, here: Namespace) -> bool:
    """Restore the queue's previous status. A queue that was created again in the meantime is not changed."""
    proof = look(here, row.path)
    if proof is not None and proof.created_at == row.queue_created_at and proof.status == QUARANTINED:
        set_status(here, row.path, row.status_before)
        proof = look(here, row.path)
    if proof is not None:
        remember(row.pair, proof)
    return _end(row, Stage(row.returns_as), row.detail or "The deletion was cancelled.")


def _move(row: QueueDeletion, stage: Stage, **changes: object) -> bool:
    """Store the next stage, unless the claim has expired or the deletion was cancelled."""
    mine = QueueDeletion.open_ones().filter(pk=row.pk, claimed_by=row.claimed_by, stage=row.stage)
    moved = bool(mine.update(stage=stage, **changes))
    row.refresh_from_db()
    return moved


def _end(row: QueueDeletion, stage: Stage, detail: str) -> bool:
    now = timezone.now()
    with transaction.atomic():
        if not _move(row, stage, ended_at=now, detail=detail):
            return False
        by = Request(User(username=row.by), row.pair, row.path, row.reason, following(row.request_id, "end"), at=now)
        ENDS[stage].record(by, detail)
        if stage is Stage.DELETED:
            forget(row.pair, row.path)
    return False


def _trouble(error: Exception) -> str:
    if isinstance(error, RedisError):
        return "Redis does not answer, so the users of the queue are unknown. The deletion will be retried."
    if isinstance(error, NamespaceError):
        return f"{error} The deletion will be retried."
    return "The queue no longer exists."
