"""Operations on single backlog queues: quarantine, drain, delete, cancel a deletion, repair.

A dry run and its action read the same `Look` and call the same check, which has no side effects. Long operations are
rows that workers process. The actions are declared in `dashboard.backlog.actions`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from azure.core.exceptions import ResourceNotFoundError
from django.utils import timezone

from dashboard.access.audited import ActionError, Outcome, Request, done, unchanged
from dashboard.access.rights import Right, require
from dashboard.backlog import deletions, orphans
from dashboard.backlog.deletions import describe_counts, undo_window
from dashboard.backlog.orphans import REPAIRABLE, Proof, Use, meant_for
from dashboard.fleet.pairs.namespaces import Namespace, NamespaceError, namespace
from dashboard.models import BacklogQueue, Pair, QueueDeletion, QueueDrain
from dashboard.site.redis import RedisError
from pairing.ends import Role

GONE = "The queue no longer exists in the namespace."
REDIS_SILENT = "Redis does not answer, so the users of the queue are unknown. Try again when it is available."
NOBODY = Use()


@dataclass(frozen=True, slots=True)
class Look:
    """The state of a queue: its proof from the namespace, its users, and pending operations on it."""

    pair: Pair
    path: str
    proof: Proof | None = None
    use: Use = NOBODY
    deletion: QueueDeletion | None = None
    is_draining: bool = False
    trouble: str = ""
    """Why the state is unknown."""

    @property
    def counts(self) -> dict[str, int]:
        return dict(self.proof.counts) if self.proof else {}

    @property
    def confirmation(self) -> str:
        """What the operator confirms: the queue's identity and counts in one line; empty if it was not read."""
        return summary(self.proof) if self.proof else ""


def known(pair: Pair, path: str) -> bool:
    """Whether the queue is known to the database; unknown paths are not looked up in the namespace."""
    seen = BacklogQueue.objects.filter(pair=pair, path=path).exists()
    return seen or QueueDeletion.open_ones().filter(pair=pair, path=path).exists()


def read_rows(pair: Pair, path: str) -> Look:
    """The state of a queue from the database alone."""
    deletion = QueueDeletion.open_ones().filter(pair=pair, path=path).select_related("pair").first()
    is_draining = QueueDrain.open_ones().filter(pair=pair, path=path).exists()
    return Look(pair, path, deletion=deletion, is_draining=is_draining)


def read_with(here: Namespace, pair: Pair, path: str) -> Look:
    """The current state of a queue from database, namespace and fleet. Raises NamespaceError and RedisError."""
    rows, proof = read_rows(pair, path), orphans.look(here, path)
    if proof is None:
        return Look(pair, path, deletion=rows.deletion, is_draining=rows.is_draining, trouble=GONE)
    return Look(pair, path, proof, orphans.use_of(pair, path), rows.deletion, rows.is_draining)


def read(pair: Pair, path: str) -> Look:
    """The current state, without writing anything; errors are reported in `trouble`."""
    try:
        with namespace(pair.name) as here:
            return read_with(here, pair, path)
    except NamespaceError as error:
        return Look(pair, path, trouble=str(error))
    except RedisError:
        return Look(pair, path, trouble=REDIS_SILENT)


def read_and_remember(pair: Pair, path: str) -> Look:
    """The current state; the list of queues is updated with it."""
    look = read(pair, path)
    if look.proof is not None:
        orphans.remember(pair, look.proof)
    return look


@contextmanager
def reached(pair: Pair, role: Role = "secondary") -> Iterator[Namespace]:
    """A namespace of a pair; its errors become ActionError."""
    try:
        with namespace(pair.name, role) as here:
            yield here
    except NamespaceError as error:
        raise ActionError(f"{error} Nothing was changed.") from error
    except ResourceNotFoundError as error:
        raise ActionError(GONE) from error


def summary(proof: Proof) -> str:
    """What the operator confirms: the queue's identity and counts in one line."""
    return f"{proof.created_at} " + " ".join(f"{name}={count}" for name, count in proof.counts.items())


# Checks: an outcome if there is nothing to do, None to proceed; ActionError if not allowed ----------------------------


def check_quarantine(look: Look) -> Outcome | None:
    if look.proof and look.proof.is_quarantined:
        return unchanged(f"{look.path} was already in quarantine.")
    _require_nobody(look.use.belongs)
    return None


def check_reopen(look: Look) -> Outcome | None:
    if look.proof and not look.proof.is_quarantined:
        return unchanged(f"{look.path} is not in quarantine.")
    if look.deletion is not None:
        raise ActionError(f"{look.path} is about to be deleted. Cancel the deletion: that also ends the quarantine.")
    return None


def check_repair(look: Look) -> Outcome | None:
    if look.deletion is not None:
        raise ActionError(f"{look.path} is about to be deleted. Cancel the deletion first.")
    if look.proof and not any(name in REPAIRABLE for name in look.proof.deviations):
        return unchanged(f"{look.path} needs no repair.{_rest(list(look.proof.deviations))}")
    return None


def check_drain(look: Look) -> Outcome | None:
    if look.is_draining:
        return unchanged(f"{look.path} is already being drained.")
    if look.use.belongs:
        raise ActionError(f"{look.use.belongs} The syphon of its pair drains it.")
    if other := meant_for(look.pair, look.path):
        raise ActionError(
            f"Its messages are for {other}, and {look.pair.name} would send them to "
            f"{look.pair.primary_namespace}. Add the pair of {other} to PAIRS_FILE again."
        )
    if look.proof and not look.proof.to_bring_home:
        return unchanged(f"{look.path} holds nothing that a syphon can drain.")
    return None


def check_stop_drain(look: Look) -> Outcome | None:
    return None if look.is_draining else unchanged(f"{look.path} is not being drained.")


def check_delete(look: Look) -> Outcome | None:
    if look.deletion is not None:
        return unchanged(f"The deletion of {look.path} is already pending.")
    _require_nobody(look.use.belongs, look.use.served)
    return None


def check_take_back(look: Look) -> Outcome | None:
    if look.deletion is None:
        return unchanged(f"{look.path} is not about to be deleted.")
    if not look.deletion.is_revocable:
        raise ActionError(_too_late(look.path))
    return None


# Changes: called after the check has passed ---------------------------------------------------------------------------


def quarantine(request: Request, here: Namespace, look: Look) -> Outcome:
    """Stop sends to an orphan; its messages stay and can be received."""
    orphans.set_status(here, look.path, orphans.QUARANTINED)
    _look_again(look, here)
    return done(f"{look.path} is in quarantine: sends to it fail, and its messages stay.")


def reopen(request: Request, here: Namespace, look: Look) -> Outcome:
    """End a quarantine."""
    orphans.set_status(here, look.path, "Active")
    _look_again(look, here)
    return done(f"{look.path} is out of quarantine: it accepts messages again.")


def repair(request: Request, here: Namespace, look: Look) -> Outcome:
    """Set the properties of a deviating queue to those of a backlog queue, as far as an update can."""
    mended, fixed = orphans.repair(here, look.path)
    _look_again(look, here)
    if not mended:
        return unchanged(f"{look.path} needs no repair.{_rest(fixed)}")
    return done(f"{look.path} is repaired: {_listed(mended)}.{_rest(fixed)}")


def drain(request: Request, here: Namespace, look: Look) -> Outcome:
    """Let a worker drain an orphan."""
    waiting = look.proof.to_bring_home if look.proof else 0
    if not QueueDrain(**request.errand, waiting=waiting).begin():
        return unchanged(f"{look.path} is already being drained.")
    return done(f"A worker drains {waiting:,} messages of {look.path}, each to its entity.")


def stop_drain(request: Request, look: Look) -> Outcome:
    """Stop the drain of an orphan; the remaining messages stay in it."""
    drains = QueueDrain.open_ones().filter(pair=look.pair, path=look.path)
    if not drains.update(ended_at=timezone.now(), detail=f"Stopped by {request.operator}."):
        return unchanged(f"{look.path} is not being drained.")
    return done(f"The drain of {look.path} ends within seconds; the remaining messages stay in it.")


def delete(request: Request, here: Namespace, look: Look, *, typed: str = "", confirmed: str = "") -> Outcome:
    """Quarantine an orphan immediately, and delete it after the undo window if it is still as confirmed.

    Deleting an orphan with messages requires an administrator and its typed path. `confirmed`: the counts shown.
    """
    proof = look.proof
    if proof is None:
        raise ActionError(GONE)
    if confirmed and confirmed != summary(proof):
        raise ActionError(f"{look.path} has changed since: it holds {describe_counts(proof.counts)}. Check it again.")
    if not proof.is_empty:
        require(request.user, Right.ADMINISTER)
        if typed.strip() != look.path:
            raise ActionError(f"It holds {describe_counts(proof.counts)}: type its full path to delete it with them.")
    return _delete(request, proof)


def take_back(request: Request, look: Look) -> Outcome:
    """Cancel a deletion during its undo window and restore the queue's previous state."""
    row, stage = look.deletion, QueueDeletion.Stage
    if row is None:
        return unchanged(f"{look.path} is not about to be deleted.")
    mine = QueueDeletion.open_ones().filter(pk=row.pk, stage__in=(stage.WANTED, stage.QUARANTINED))
    if not mine.update(
        stage=stage.RETURNING,
        returns_as=stage.TAKEN_BACK,
        detail=f"Cancelled by {request.operator}.",
        claimed_by="",
        claimed_until=None,
    ):
        raise ActionError(_too_late(look.path))
    row.refresh_from_db()
    deletions.carry_on(row, timezone.now())
    row.refresh_from_db()
    later = "" if row.ended_at else f" Workers end its quarantine as soon as possible: {row.detail}"
    return done(f"{look.path} is kept in its previous state.{later}")


def _delete(request: Request, proof: Proof) -> Outcome:
    row = QueueDeletion(
        **request.errand,
        due_at=timezone.now() + undo_window(),
        status_before=proof.status,
        queue_created_at=proof.created_at,
        counts=dict(proof.counts),
    )
    if not row.begin():
        return unchanged(f"The deletion of {request.target} is already pending.")
    deletions.carry_on(row, timezone.now())
    row.refresh_from_db()
    seconds = round(undo_window().total_seconds())
    if row.stage == QueueDeletion.Stage.WANTED:
        return done(f"{request.target} will be quarantined and deleted; now: {row.detail}")
    return done(
        f"{request.target} is in quarantine and will be deleted in {seconds} s if it does not change. It holds "
        f"{describe_counts(proof.counts)}. Until then the deletion can be cancelled."
    )


def _look_again(look: Look, here: Namespace) -> None:
    proof = orphans.look(here, look.path)
    if proof is not None:
        orphans.remember(look.pair, proof)


def _require_nobody(*uses: str) -> None:
    if needed := next(filter(None, uses), ""):
        raise ActionError(f"{needed} So it is not an orphan. Nothing was changed.")


def _too_late(path: str) -> str:
    return f"It is too late: {path} is currently being deleted or restored."


def _rest(fixed: list[str]) -> str:
    return f" Only a new queue can change {_listed(fixed)}: drain and delete it." if fixed else ""


def _listed(names: list[str]) -> str:
    return ", ".join(name.replace("_", " ") for name in names)
