"""The API operations for actions on backlog queues and dead letters, built from their declarations."""

from typing import Annotated, Any

from django.http import Http404, HttpRequest
from ninja import Router
from pydantic import Field

from dashboard.access.declaration import Argument
from dashboard.access.rights import Right, may, require
from dashboard.api.fields import Body, Number, Path, Reason, Word, pair_or_404
from dashboard.api.idempotency import perform
from dashboard.api.operations import add_operation
from dashboard.api.problems import ApiError
from dashboard.backlog import cleanup
from dashboard.backlog.actions import LETTER_ACTIONS, QUEUE_ACTIONS, LetterAction, QueueAction
from dashboard.backlog.places import counted, place
from dashboard.models import Pair

router = Router(tags=["actions"])


class AboutQueue(Body):
    """The backlog queue and the reason. `dry_run` reports its current state in the namespace, without changes."""

    queue: Path
    reason: Reason
    dry_run: bool = False

    @property
    def arguments(self) -> dict[str, Any]:
        """The fields other than target and reason, as arguments of the action."""
        return {}


class DeleteQueue(AboutQueue):
    """Additionally `confirm` as a dry run returned it, so that only the queue in that state is deleted.

    A queue with messages requires the scope administer, and its full path in `typed`.
    """

    confirm: Annotated[str, Field(min_length=1, max_length=400, pattern=r"^[^\x00]*$")] | None = None
    typed: Word = ""

    @property
    def arguments(self) -> dict[str, Any]:
        return {"typed": self.typed, "confirmed": self.confirm or ""}


class AboutDeadLetters(AboutQueue):
    """Additionally the sequence numbers of the dead letters, or null for all current ones.

    The queue can also be a queue of the primary or `<topic>/Subscriptions/<name>`.
    """

    numbers: Annotated[list[Number], Field(min_length=1, max_length=1000)] | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        return {"numbers": self.numbers or ()}


class Resubmit(AboutDeadLetters):
    """Additionally the destination. If empty, each goes to its original entity, or back to its queue or topic."""

    destination: Word = ""

    @property
    def arguments(self) -> dict[str, Any]:
        return {"numbers": self.numbers or (), "destination": self.destination}


BODIES: dict[tuple[Argument, ...], type[AboutQueue]] = {
    (Argument.DESTINATION, Argument.NUMBERS): Resubmit,
    (Argument.NUMBERS, Argument.CONFIRMATION): AboutDeadLetters,
    (): AboutQueue,
}


def _on_queue(request: HttpRequest, action: QueueAction, pair: str, body: AboutQueue, key: str) -> dict[str, Any]:
    row = pair_or_404(pair)
    is_known = cleanup.known(row, body.queue)
    if body.dry_run or not is_known:
        require(request.user, action.right)  # of what is to be done, the audited path decides and records it
    if not is_known:
        raise Http404(f"{pair} has no such backlog queue.")
    if body.dry_run:
        return _preview(request, row, action, body.queue)
    if may(request.user, action.right):
        _require_confirmation(body)
    return perform(request, key, row, body.queue, body.reason, lambda wanted: action.run(wanted, **body.arguments))


def _require_confirmation(body: AboutQueue) -> None:
    if isinstance(body, DeleteQueue) and body.confirm is None:
        raise ApiError(
            409, "Send a dry run first, and repeat the `confirm` it returns: only the queue in that state is deleted."
        )


def _preview(request: HttpRequest, pair: Pair, action: QueueAction, queue: str) -> dict[str, Any]:
    look = cleanup.read(pair, queue) if action.proves else cleanup.read_rows(pair, queue)
    hindrance = action.hindrance(look, is_administrator=may(request.user, Right.ADMINISTER))
    changes = not hindrance and action.would_change(look)
    return {
        "outcome": "preview",
        "sentence": action.preview or f"{action.button}: {queue}.",
        "would_change": [queue] if changes else [],
        "would_not_change": [] if changes else [queue],
        "hindrance": hindrance,
        "counts": look.counts,
        "confirm": look.confirmation,
    }


def _on_letters(request: HttpRequest, action: LetterAction, pair: str, body: AboutQueue, key: str) -> dict[str, Any]:
    row = pair_or_404(pair)
    at, arguments = place(row, body.queue), body.arguments
    if body.dry_run or at is None:
        require(request.user, action.right)  # of what is to be done, the audited path decides and records it
    if at is None:
        raise Http404(f"{pair} has no such queue or subscription.")
    if body.dry_run:
        sentence = action.preview.format(it=arguments.get("destination") or at.home or "their own entities")
        return {"outcome": "preview", "sentence": sentence, "counts": _counts(row, body)}
    return perform(request, key, row, body.queue, body.reason, lambda wanted: action.run(wanted, **arguments))


def _counts(pair: Pair, body: AboutQueue) -> dict[str, int]:
    if not isinstance(body, AboutDeadLetters):
        return {}
    return {"dead_lettered": counted(pair, body.queue) if body.numbers is None else len(set(body.numbers))}


for _queue_action in QUEUE_ACTIONS:
    _body = DeleteQueue if Argument.CONFIRMATION in _queue_action.arguments else AboutQueue
    add_operation(router, _queue_action, _body, _on_queue)
for _letter_action in LETTER_ACTIONS:
    add_operation(router, _letter_action, BODIES[_letter_action.arguments], _on_letters)
