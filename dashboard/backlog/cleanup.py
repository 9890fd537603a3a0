"""The actions on single backlog queues: quarantine, drain, delete, take back, repair. As in dashboard.actions.control,
each is permission-checked, audited, and safe to click twice; what takes long is a row that workers carry on.
"""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from azure.core.exceptions import ResourceNotFoundError
from django.db import IntegrityError, transaction
from django.utils import timezone

from dashboard.access.rights import Right, require
from dashboard.actions.control import ControlError, Outcome, Request, perform
from dashboard.backlog import deletions, orphans
from dashboard.backlog.deletions import told, undo_window
from dashboard.backlog.orphans import Proof, Use, meant_for
from dashboard.fleet.namespaces import Namespace, NamespaceError, namespace
from dashboard.models import QueueDeletion, QueueDrain
from pairing.fleet.coordination import SharedState

Deed = Callable[[Namespace, Proof, Use], Outcome]
GONE = "The namespace has no such queue any more."


def quarantine_queue(request: Request) -> Outcome:
    """Let an orphan take no more messages; what is in it stays, and can be received."""

    def deed(here: Namespace, proof: Proof, use: Use) -> Outcome:
        if proof.is_quarantined:
            return Outcome("unchanged", f"{request.target} was in quarantine already.")
        _require_nobody(use.belongs)
        orphans.set_status(here, request.target, orphans.QUARANTINED)
        _look_again(request, here)
        return Outcome("done", f"{request.target} is in quarantine: nobody can send to it, what it holds stays.")

    return _perform("quarantine_queue", request, deed)


def reopen_queue(request: Request) -> Outcome:
    """End a quarantine."""

    def deed(here: Namespace, proof: Proof, _: Use) -> Outcome:
        if not proof.is_quarantined:
            return Outcome("unchanged", f"{request.target} is not in quarantine.")
        if _open_deletion(request) is not None:
            raise ControlError(f"{request.target} is about to be deleted. Take the deletion back: that ends both.")
        orphans.set_status(here, request.target, "Active")
        _look_again(request, here)
        return Outcome("done", f"{request.target} is out of quarantine: it takes messages again.")

    return _perform("reopen_queue", request, deed)


def repair_queue(request: Request) -> Outcome:
    """Give a deviating queue the properties of a backlog queue, as far as an update can."""

    def deed(here: Namespace, proof: Proof, _: Use) -> Outcome:
        if _open_deletion(request) is not None:
            raise ControlError(f"{request.target} is about to be deleted. Take the deletion back first.")
        mended, fixed = orphans.repair(here, request.target)
        _look_again(request, here)
        rest = f" Only a queue made anew could change {_listed(fixed)}: drain and delete it." if fixed else ""
        if not mended:
            return Outcome("unchanged", f"There was nothing to repair at {request.target}.{rest}")
        return Outcome("done", f"{request.target} is repaired: {_listed(mended)}.{rest}")

    return _perform("repair_queue", request, deed)


def drain_queue(request: Request) -> Outcome:
    """Let a worker bring home what an orphan holds."""

    def deed(here: Namespace, proof: Proof, use: Use) -> Outcome:
        if QueueDrain.open_ones().filter(pair=request.pair, path=request.target).exists():
            return Outcome("unchanged", f"{request.target} is being drained already.")
        if use.belongs:
            raise ControlError(f"{use.belongs} Its pair's own syphon brings it home.")
        if other := meant_for(request.pair, request.target):
            raise ControlError(
                f"Its messages are for {other}, and {request.pair.name} would bring them to "
                f"{request.pair.primary_namespace}. Put the pair of {other} back into PAIRS_FILE."
            )
        if not proof.to_bring_home:
            return Outcome("unchanged", f"{request.target} holds nothing that a syphon could bring home.")
        waiting = proof.to_bring_home
        row = QueueDrain(**_errand(request), waiting=waiting)
        if not _saved(row):
            return Outcome("unchanged", f"{request.target} is being drained already.")
        return Outcome("done", f"A worker brings {waiting:,} messages of {request.target} home, each to its entity.")

    return _perform("drain_queue", request, deed)


def stop_drain(request: Request) -> Outcome:
    """Let the drain of an orphan end; what was not brought home stays in it."""

    def deed(_: SharedState) -> Outcome:
        drains = QueueDrain.open_ones().filter(pair=request.pair, path=request.target)
        if not drains.update(ended_at=timezone.now(), detail=f"Stopped by {request.operator}."):
            return Outcome("unchanged", f"{request.target} is not being drained.")
        return Outcome("done", f"The drain of {request.target} ends within seconds; what is left stays in it.")

    return perform("stop_drain", request, deed)


def delete_queue(request: Request, *, typed: str = "", confirmed: str = "") -> Outcome:
    """Quarantine an orphan at once, and delete it once the undo window is over if it is then as confirmed.

    One with messages is for administrators who type its path. `confirmed` are the counts the person was shown.
    """

    def deed(here: Namespace, proof: Proof, use: Use) -> Outcome:
        if _open_deletion(request) is not None:
            return Outcome("unchanged", f"{request.target} is to be deleted already.")
        _require_nobody(use.belongs, use.served)
        if confirmed and confirmed != summary(proof):
            raise ControlError(f"{request.target} has changed since: it holds {told(proof.counts)}. Look again.")
        if not proof.is_empty:
            require(request.user, Right.ADMINISTER)
            if typed.strip() != request.target:
                raise ControlError(f"It holds {told(proof.counts)}: type its whole path to delete it with them.")
        return _delete(request, proof)

    return _perform("delete_queue", request, deed)


def take_back(request: Request) -> Outcome:
    """Take a deletion back while its undo window lasts; the queue is as it was before."""

    def deed(_: SharedState) -> Outcome:
        row = _open_deletion(request)
        if row is None:
            return Outcome("unchanged", f"{request.target} is not about to be deleted.")
        stage = QueueDeletion.Stage
        mine = QueueDeletion.open_ones().filter(pk=row.pk, stage__in=(stage.WANTED, stage.QUARANTINED))
        if not mine.update(
            stage=stage.RETURNING,
            returns_as=stage.TAKEN_BACK,
            detail=f"Taken back by {request.operator}.",
            claimed_by="",
            claimed_until=None,
        ):
            raise ControlError(f"It is too late: {request.target} is being deleted at this moment, or given back.")
        row.refresh_from_db()
        deletions.carry_on(row, timezone.now())
        row.refresh_from_db()
        later = "" if row.ended_at else f" Workers end its quarantine as soon as they can: {row.detail}"
        return Outcome("done", f"{request.target} is kept, as it was before.{later}")

    return perform("take_back", request, deed, atomic=False)


def summary(proof: Proof) -> str:
    """What a person confirms: the queue's identity and its counts, in one line."""
    return f"{proof.created_at} " + " ".join(f"{name}={count}" for name, count in proof.counts.items())


def _delete(request: Request, proof: Proof) -> Outcome:
    row = QueueDeletion(
        **_errand(request),
        due_at=timezone.now() + undo_window(),
        status_before=proof.status,
        queue_created_at=proof.created_at,
        counts=dict(proof.counts),
    )
    if not _saved(row):
        return Outcome("unchanged", f"{request.target} is to be deleted already.")
    deletions.carry_on(row, timezone.now())
    row.refresh_from_db()
    seconds = round(undo_window().total_seconds())
    if row.stage == QueueDeletion.Stage.WANTED:
        return Outcome("done", f"{request.target} will be quarantined and deleted; now: {row.detail}")
    return Outcome(
        "done",
        f"{request.target} is in quarantine, and deleted in {seconds} s if nothing changes. It holds "
        f"{told(proof.counts)}. Until then it can be taken back.",
    )


def _perform(verb: str, request: Request, deed: Deed) -> Outcome:
    """A verb that begins with a look at the queue."""

    def looked(_: SharedState) -> Outcome:
        with _reached(request) as here:
            proof = orphans.look(here, request.target)
            if proof is None:
                orphans.forget(request.pair, request.target)
                return Outcome("unchanged", GONE)
            return deed(here, proof, orphans.use_of(request.pair, request.target))

    return perform(verb, request, looked, atomic=False)


@contextmanager
def _reached(request: Request) -> Iterator[Namespace]:
    try:
        with namespace(request.pair.name) as here:
            yield here
    except NamespaceError as error:
        raise ControlError(f"{error} Nothing was changed.") from error
    except ResourceNotFoundError as error:
        raise ControlError(GONE) from error


def _look_again(request: Request, here: Namespace) -> None:
    proof = orphans.look(here, request.target)
    if proof is not None:
        orphans.remember(request.pair, proof)


def _require_nobody(*uses: str) -> None:
    if needed := next(filter(None, uses), ""):
        raise ControlError(f"{needed} So it is no orphan, and nothing was changed.")


def _open_deletion(request: Request) -> QueueDeletion | None:
    return QueueDeletion.open_ones().filter(pair=request.pair, path=request.target).select_related("pair").first()


def _errand(request: Request) -> dict[str, object]:
    return {
        "pair": request.pair,
        "path": request.target,
        "by": request.operator,
        "reason": request.reason,
        "at": timezone.now(),
        "request_id": request.request_id or uuid.uuid4().hex,
    }


def _saved(row: QueueDeletion | QueueDrain) -> bool:
    """False where somebody else was faster: there is one of a queue at a time."""
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:
        return False
    return True


def _listed(names: list[str]) -> str:
    return ", ".join(name.replace("_", " ") for name in names)
