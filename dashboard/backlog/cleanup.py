"""What is done to single backlog queues: quarantine, drain, delete, take back, repair.

A dry run and its action read the same `Look` and ask the same check, which has no side effect. What takes long is a row
that workers carry on. The actions themselves are declared in `dashboard.backlog.actions`.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from azure.core.exceptions import ResourceNotFoundError
from django.db import IntegrityError, transaction
from django.utils import timezone

from dashboard.access.audited import ActionError, Outcome, Request, done, unchanged
from dashboard.access.rights import Right, require
from dashboard.backlog import deletions, orphans
from dashboard.backlog.deletions import describe_counts, undo_window
from dashboard.backlog.orphans import REPAIRABLE, Proof, Use, meant_for
from dashboard.fleet.namespaces import Namespace, NamespaceError, namespace
from dashboard.models import BacklogQueue, Pair, QueueDeletion, QueueDrain
from dashboard.site.redis import RedisError

GONE = "The namespace has no such queue any more."
REDIS_SILENT = "Redis does not answer, so nobody knows who uses the queue. Try again when it is back."
NOBODY = Use()


@dataclass(frozen=True, slots=True)
class Look:
    """What was read of a queue: its proof from the namespace, who uses it, and what is wanted of it already."""

    pair: Pair
    path: str
    proof: Proof | None = None
    use: Use = NOBODY
    deletion: QueueDeletion | None = None
    is_draining: bool = False
    trouble: str = ""
    """Why nothing can be said of it."""

    @property
    def counts(self) -> dict[str, int]:
        return dict(self.proof.counts) if self.proof else {}

    @property
    def confirmation(self) -> str:
        """What a person confirms: the queue's identity and its counts, in one line; empty where it was not read."""
        return summary(self.proof) if self.proof else ""


def known(pair: Pair, path: str) -> bool:
    """Whether the sampler or an operator has seen such a queue; a link to another one is not followed."""
    seen = BacklogQueue.objects.filter(pair=pair, path=path).exists()
    return seen or QueueDeletion.open_ones().filter(pair=pair, path=path).exists()


def read_rows(pair: Pair, path: str) -> Look:
    """What the database knows of a queue; no namespace is asked."""
    deletion = QueueDeletion.open_ones().filter(pair=pair, path=path).select_related("pair").first()
    is_draining = QueueDrain.open_ones().filter(pair=pair, path=path).exists()
    return Look(pair, path, deletion=deletion, is_draining=is_draining)


def read_with(here: Namespace, pair: Pair, path: str) -> Look:
    """What the namespace and the fleet say of a queue now, too. Raises NamespaceError and RedisError."""
    rows, proof = read_rows(pair, path), orphans.look(here, path)
    if proof is None:
        return Look(pair, path, deletion=rows.deletion, is_draining=rows.is_draining, trouble=GONE)
    return Look(pair, path, proof, orphans.use_of(pair, path), rows.deletion, rows.is_draining)


def read(pair: Pair, path: str) -> Look:
    """The same, and nothing is written; `trouble` says why nothing can be said if so."""
    try:
        with namespace(pair.name) as here:
            return read_with(here, pair, path)
    except NamespaceError as error:
        return Look(pair, path, trouble=str(error))
    except RedisError:
        return Look(pair, path, trouble=REDIS_SILENT)


def read_and_remember(pair: Pair, path: str) -> Look:
    """The same, and the list of queues is brought up to date with it."""
    look = read(pair, path)
    if look.proof is not None:
        orphans.remember(pair, look.proof)
    return look


@contextmanager
def reached(pair: Pair) -> Iterator[Namespace]:
    """The secondary namespace of a pair; what it cannot do is an ActionError."""
    try:
        with namespace(pair.name) as here:
            yield here
    except NamespaceError as error:
        raise ActionError(f"{error} Nothing was changed.") from error
    except ResourceNotFoundError as error:
        raise ActionError(GONE) from error


def summary(proof: Proof) -> str:
    """What a person confirms: the queue's identity and its counts, in one line."""
    return f"{proof.created_at} " + " ".join(f"{name}={count}" for name, count in proof.counts.items())


# Checks: the outcome where it is so already, None where it is to be done; ActionError where it must not be ------------


def check_quarantine(look: Look) -> Outcome | None:
    if look.proof and look.proof.is_quarantined:
        return unchanged(f"{look.path} was in quarantine already.")
    _require_nobody(look.use.belongs)
    return None


def check_reopen(look: Look) -> Outcome | None:
    if look.proof and not look.proof.is_quarantined:
        return unchanged(f"{look.path} is not in quarantine.")
    if look.deletion is not None:
        raise ActionError(f"{look.path} is about to be deleted. Take the deletion back: that ends both.")
    return None


def check_repair(look: Look) -> Outcome | None:
    if look.deletion is not None:
        raise ActionError(f"{look.path} is about to be deleted. Take the deletion back first.")
    if look.proof and not any(name in REPAIRABLE for name in look.proof.deviations):
        return unchanged(f"There was nothing to repair at {look.path}.{_rest(list(look.proof.deviations))}")
    return None


def check_drain(look: Look) -> Outcome | None:
    if look.is_draining:
        return unchanged(f"{look.path} is being drained already.")
    if look.use.belongs:
        raise ActionError(f"{look.use.belongs} Its pair's own syphon brings it home.")
    if other := meant_for(look.pair, look.path):
        raise ActionError(
            f"Its messages are for {other}, and {look.pair.name} would bring them to "
            f"{look.pair.primary_namespace}. Put the pair of {other} back into PAIRS_FILE."
        )
    if look.proof and not look.proof.to_bring_home:
        return unchanged(f"{look.path} holds nothing that a syphon could bring home.")
    return None


def check_stop_drain(look: Look) -> Outcome | None:
    return None if look.is_draining else unchanged(f"{look.path} is not being drained.")


def check_delete(look: Look) -> Outcome | None:
    if look.deletion is not None:
        return unchanged(f"{look.path} is to be deleted already.")
    _require_nobody(look.use.belongs, look.use.served)
    return None


def check_take_back(look: Look) -> Outcome | None:
    if look.deletion is None:
        return unchanged(f"{look.path} is not about to be deleted.")
    if not look.deletion.is_revocable:
        raise ActionError(_too_late(look.path))
    return None


# Changes: what is done once the check has let it pass -----------------------------------------------------------------


def quarantine(request: Request, here: Namespace, look: Look) -> Outcome:
    """Let an orphan take no more messages; what is in it stays, and can be received."""
    orphans.set_status(here, look.path, orphans.QUARANTINED)
    _look_again(look, here)
    return done(f"{look.path} is in quarantine: nobody can send to it, what it holds stays.")


def reopen(request: Request, here: Namespace, look: Look) -> Outcome:
    """End a quarantine."""
    orphans.set_status(here, look.path, "Active")
    _look_again(look, here)
    return done(f"{look.path} is out of quarantine: it takes messages again.")


def repair(request: Request, here: Namespace, look: Look) -> Outcome:
    """Give a deviating queue the properties of a backlog queue, as far as an update can."""
    mended, fixed = orphans.repair(here, look.path)
    _look_again(look, here)
    if not mended:
        return unchanged(f"There was nothing to repair at {look.path}.{_rest(fixed)}")
    return done(f"{look.path} is repaired: {_listed(mended)}.{_rest(fixed)}")


def drain(request: Request, here: Namespace, look: Look) -> Outcome:
    """Let a worker bring home what an orphan holds."""
    waiting = look.proof.to_bring_home if look.proof else 0
    if not _saved(QueueDrain(**_errand(request), waiting=waiting)):
        return unchanged(f"{look.path} is being drained already.")
    return done(f"A worker brings {waiting:,} messages of {look.path} home, each to its entity.")


def stop_drain(request: Request, look: Look) -> Outcome:
    """Let the drain of an orphan end; what was not brought home stays in it."""
    drains = QueueDrain.open_ones().filter(pair=look.pair, path=look.path)
    if not drains.update(ended_at=timezone.now(), detail=f"Stopped by {request.operator}."):
        return unchanged(f"{look.path} is not being drained.")
    return done(f"The drain of {look.path} ends within seconds; what is left stays in it.")


def delete(request: Request, here: Namespace, look: Look, *, typed: str = "", confirmed: str = "") -> Outcome:
    """Quarantine an orphan at once, and delete it once the undo window is over if it is then as confirmed.

    One with messages is for administrators who type its path. `confirmed` are the counts the person was shown.
    """
    proof = look.proof
    if proof is None:
        raise ActionError(GONE)
    if confirmed and confirmed != summary(proof):
        raise ActionError(f"{look.path} has changed since: it holds {describe_counts(proof.counts)}. Look again.")
    if not proof.is_empty:
        require(request.user, Right.ADMINISTER)
        if typed.strip() != look.path:
            raise ActionError(f"It holds {describe_counts(proof.counts)}: type its whole path to delete it with them.")
    return _delete(request, proof)


def take_back(request: Request, look: Look) -> Outcome:
    """Take a deletion back while its undo window lasts; the queue is as it was before."""
    row, stage = look.deletion, QueueDeletion.Stage
    if row is None:
        return unchanged(f"{look.path} is not about to be deleted.")
    mine = QueueDeletion.open_ones().filter(pk=row.pk, stage__in=(stage.WANTED, stage.QUARANTINED))
    if not mine.update(
        stage=stage.RETURNING,
        returns_as=stage.TAKEN_BACK,
        detail=f"Taken back by {request.operator}.",
        claimed_by="",
        claimed_until=None,
    ):
        raise ActionError(_too_late(look.path))
    row.refresh_from_db()
    deletions.carry_on(row, timezone.now())
    row.refresh_from_db()
    later = "" if row.ended_at else f" Workers end its quarantine as soon as they can: {row.detail}"
    return done(f"{look.path} is kept, as it was before.{later}")


def _delete(request: Request, proof: Proof) -> Outcome:
    row = QueueDeletion(
        **_errand(request),
        due_at=timezone.now() + undo_window(),
        status_before=proof.status,
        queue_created_at=proof.created_at,
        counts=dict(proof.counts),
    )
    if not _saved(row):
        return unchanged(f"{request.target} is to be deleted already.")
    deletions.carry_on(row, timezone.now())
    row.refresh_from_db()
    seconds = round(undo_window().total_seconds())
    if row.stage == QueueDeletion.Stage.WANTED:
        return done(f"{request.target} will be quarantined and deleted; now: {row.detail}")
    return done(
        f"{request.target} is in quarantine, and deleted in {seconds} s if nothing changes. It holds "
        f"{describe_counts(proof.counts)}. Until then it can be taken back."
    )


def _look_again(look: Look, here: Namespace) -> None:
    proof = orphans.look(here, look.path)
    if proof is not None:
        orphans.remember(look.pair, proof)


def _require_nobody(*uses: str) -> None:
    if needed := next(filter(None, uses), ""):
        raise ActionError(f"{needed} So it is no orphan, and nothing was changed.")


def _too_late(path: str) -> str:
    return f"It is too late: {path} is being deleted at this moment, or given back."


def _rest(fixed: list[str]) -> str:
    return f" Only a queue made anew could change {_listed(fixed)}: drain and delete it." if fixed else ""


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
