"""The verbs about single backlog queues and their dead letters, as programs ask for them."""

from typing import Annotated, Any

from django.http import Http404, HttpRequest
from ninja import Router
from pydantic import Field

from dashboard.access.rights import Right, may, require
from dashboard.api.fields import Body, Number, Path, Reason, Word, pair_or_404
from dashboard.api.idempotency import Deed, Key, perform
from dashboard.api.problems import PROBLEMS, ApiError
from dashboard.backlog import cleanup, dead_letters
from dashboard.backlog.places import Place, counted, place
from dashboard.backlog.views.cleanup import QUEUE_ACTIONS, hindrance, known, looked
from dashboard.models import Pair

router = Router(tags=["actions"])


class AboutQueue(Body):
    """Which backlog queue, and why. `dry_run`: tell what the namespace says of it now, and change nothing."""

    queue: Path
    reason: Reason
    dry_run: bool = False


class DeleteQueue(AboutQueue):
    """Also: `confirm` as a dry run gave it, so that nothing else is deleted than was looked at.

    One that holds messages needs the scope administer, and its whole path once more in `typed`.
    """

    confirm: Annotated[str, Field(min_length=1, max_length=400, pattern=r"^[^\x00]*$")] | None = None
    typed: Word = ""


class AboutDeadLetters(AboutQueue):
    """Also: which; by sequence number, or null for all there are now.

    The queue may be one of the primary too, or `<topic>/Subscriptions/<name>`.
    """

    numbers: Annotated[list[Number], Field(min_length=1, max_length=1000)] | None = None


class Resubmit(AboutDeadLetters):
    """Also: where to; empty for each to the entity it was meant for, or back to the queue or topic it died in."""

    destination: Word = ""


@router.post("/pairs/{pair}/quarantine-queue", response={200: Deed, **PROBLEMS}, operation_id="quarantine_queue")
def quarantine_queue(request: HttpRequest, pair: str, body: AboutQueue, key: Key = "") -> dict[str, Any]:
    """Let an orphan take no more messages; what is in it stays."""
    return _queue(request, pair, "quarantine_queue", body, key)


@router.post("/pairs/{pair}/reopen-queue", response={200: Deed, **PROBLEMS}, operation_id="reopen_queue")
def reopen_queue(request: HttpRequest, pair: str, body: AboutQueue, key: Key = "") -> dict[str, Any]:
    """End a quarantine."""
    return _queue(request, pair, "reopen_queue", body, key)


@router.post("/pairs/{pair}/drain-queue", response={200: Deed, **PROBLEMS}, operation_id="drain_queue")
def drain_queue(request: HttpRequest, pair: str, body: AboutQueue, key: Key = "") -> dict[str, Any]:
    """Let a worker bring home what an orphan holds."""
    return _queue(request, pair, "drain_queue", body, key)


@router.post("/pairs/{pair}/stop-drain", response={200: Deed, **PROBLEMS}, operation_id="stop_drain")
def stop_drain(request: HttpRequest, pair: str, body: AboutQueue, key: Key = "") -> dict[str, Any]:
    """Let the drain of an orphan end; what was not brought home stays in it."""
    return _queue(request, pair, "stop_drain", body, key)


@router.post("/pairs/{pair}/repair-queue", response={200: Deed, **PROBLEMS}, operation_id="repair_queue")
def repair_queue(request: HttpRequest, pair: str, body: AboutQueue, key: Key = "") -> dict[str, Any]:
    """Give a queue the properties that every backlog queue has, as far as an update can."""
    return _queue(request, pair, "repair_queue", body, key)


@router.post("/pairs/{pair}/take-back", response={200: Deed, **PROBLEMS}, operation_id="take_back")
def take_back(request: HttpRequest, pair: str, body: AboutQueue, key: Key = "") -> dict[str, Any]:
    """Take a deletion back while its undo window lasts."""
    return _queue(request, pair, "take_back", body, key)


@router.post("/pairs/{pair}/delete-queue", response={200: Deed, **PROBLEMS}, operation_id="delete_queue")
def delete_queue(request: HttpRequest, pair: str, body: DeleteQueue, key: Key = "") -> dict[str, Any]:
    """Quarantine an orphan at once, and delete it once the undo window is over if nothing has changed by then."""
    require(request.user, Right.OPERATE)
    if not body.dry_run and body.confirm is None:
        raise ApiError(
            409, "Ask with dry_run first, and send back the `confirm` it tells: then nothing else is deleted."
        )
    return _queue(request, pair, "delete_queue", body, key, {"typed": body.typed, "confirmed": body.confirm or ""})


@router.post("/pairs/{pair}/resubmit-dead-letters", response={200: Deed, **PROBLEMS}, operation_id="resubmit")
def resubmit(request: HttpRequest, pair: str, body: Resubmit, key: Key = "") -> dict[str, Any]:
    """Let a worker send dead letters again, each to its own entity or all to one."""
    require(request.user, Right.OPERATE)
    row, at = _holder(pair, body.queue)
    if body.dry_run:
        there = body.destination or at.home or "their own entities"
        return _letters(row, body, f"A worker would send them to {there}.")

    return perform(
        request, key, row, body.queue, body.reason,
        lambda wish: dead_letters.resubmit(wish, body.numbers or (), body.destination),
    )  # fmt: skip


@router.post("/pairs/{pair}/discard-dead-letters", response={200: Deed, **PROBLEMS}, operation_id="discard")
def discard(request: HttpRequest, pair: str, body: AboutDeadLetters, key: Key = "") -> dict[str, Any]:
    """Let a worker take dead letters out of their queue for good. What they were is kept, not what they said."""
    require(request.user, Right.ADMINISTER)
    row, _ = _holder(pair, body.queue)
    if body.dry_run:
        return _letters(row, body, "A worker would discard them for good.")
    return perform(
        request, key, row, body.queue, body.reason, lambda wish: dead_letters.discard(wish, body.numbers or ())
    )


@router.post("/pairs/{pair}/stop-dead-letters", response={200: Deed, **PROBLEMS}, operation_id="stop_dead_letters")
def stop(request: HttpRequest, pair: str, body: AboutQueue, key: Key = "") -> dict[str, Any]:
    """End what workers do to the dead letters of a queue; what is not done yet stays a dead letter."""
    require(request.user, Right.OPERATE)
    row, _ = _holder(pair, body.queue)
    if body.dry_run:
        return {"outcome": "preview", "sentence": "Workers would leave the rest as it is."}
    return perform(request, key, row, body.queue, body.reason, dead_letters.stop)


def _queue(
    request: HttpRequest, pair: str, verb: str, body: AboutQueue, key: str, more: dict[str, str] | None = None
) -> dict[str, Any]:
    require(request.user, Right.OPERATE)
    row = _known(pair, body.queue)
    if body.dry_run:
        return _preview(request, row, verb, body.queue)
    what = QUEUE_ACTIONS[verb]
    return perform(request, key, row, body.queue, body.reason, lambda wish: what.deed(wish, **more or {}))


def _known(pair: str, queue: str) -> Pair:
    row = pair_or_404(pair)
    if not known(row, queue):
        raise Http404(f"{pair} has no such backlog queue.")
    return row


def _holder(pair: str, path: str) -> tuple[Pair, Place]:
    row = pair_or_404(pair)
    if (at := place(row, path)) is None:
        raise Http404(f"{pair} has no such queue or subscription.")
    return row, at


def _preview(request: HttpRequest, pair: Pair, verb: str, queue: str) -> dict[str, Any]:
    what = QUEUE_ACTIONS[verb]
    told: dict[str, Any] = {"outcome": "preview", "sentence": what.preview or f"{what.button}: {queue}."}
    if not what.proves:
        return told
    proof, use, trouble = looked(pair, queue)
    hindered = trouble or hindrance(what, proof, use, may(request.user, Right.ADMINISTER))
    counts, confirm = (dict(proof.counts), cleanup.summary(proof)) if proof else ({}, "")
    return told | {"hindrance": hindered, "counts": counts, "confirm": confirm}


def _letters(pair: Pair, body: AboutDeadLetters, sentence: str) -> dict[str, Any]:
    count = counted(pair, body.queue) if body.numbers is None else len(set(body.numbers))
    return {"outcome": "preview", "sentence": sentence, "counts": {"dead_lettered": count}}
