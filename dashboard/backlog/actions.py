"""The declarations of the actions on backlog queues and dead letters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dashboard.access.audited import ActionError, Outcome, Request, unchanged
from dashboard.access.declaration import Action, Argument, ListAction, Operation, of_pair
from dashboard.access.rights import Right
from dashboard.backlog import cleanup, dead_letters, deletions, orphans
from dashboard.backlog.cleanup import Look
from dashboard.models import BacklogQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAction(Action):
    """An action on one backlog queue.

    `check` decides from the current state, without side effects. It returns an outcome if there is nothing to do, None
    if `change` is to be called, and raises ActionError if the action is not allowed.
    """

    check: Callable[[Look], Outcome | None]
    change: Callable[..., Outcome]
    proves: bool = True
    """Whether the queue is read from its namespace first, for the preview."""
    hinders: Callable[[Look, bool], str] = lambda look, is_administrator: ""
    """Why the preview offers no button, in addition to the result of `check`."""
    hinders_listed: Callable[[BacklogQueue], str] = lambda queue: ""
    """Why it would be refused for a queue of a list, estimated from the last sample. The action reads the namespace."""
    is_atomic: bool = False

    def run(self, request: Request, *, typed: str = "", confirmed: str = "") -> Outcome:
        """Execute the action for the queue that is the request's target."""
        more = {"typed": typed, "confirmed": confirmed} if Argument.CONFIRMATION in self.arguments else {}
        step = self._proven if self.proves else self._unproven
        return self.execute(request, lambda: step(request, more))

    def hindrance(self, look: Look, *, is_administrator: bool) -> str:
        """Why the action cannot be executed now; empty if it can, or if there is nothing to do."""
        if look.trouble:
            return look.trouble
        if special := self.hinders(look, is_administrator):
            return special
        try:
            self.check(look)
        except ActionError as error:
            return str(error)
        return ""

    def would_change(self, look: Look) -> bool:
        """Whether the action would change anything, if it can be executed."""
        return self.check(look) is None

    def _proven(self, request: Request, more: dict[str, str]) -> Outcome:
        with cleanup.reached(request.pair) as here:
            look = cleanup.read_with(here, request.pair, request.target)
            if look.proof is None:
                orphans.forget(request.pair, request.target)
                return unchanged(cleanup.GONE)
            return self.check(look) or self.change(request, here, look, **more)

    def _unproven(self, request: Request, more: dict[str, str]) -> Outcome:
        look = cleanup.read_rows(request.pair, request.target)
        return self.check(look) or self.change(request, look, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterAction(Action):
    """An action on dead letters."""

    choice: str
    """Its value in the page's form."""
    change: Callable[[Request, Sequence[int], str], Outcome]
    is_atomic: bool = False

    def run(self, request: Request, *, numbers: Sequence[int] = (), destination: str = "") -> Outcome:
        """Execute the action for these dead letters of the request's target, or for all."""
        return self.execute(request, lambda: self.change(request, numbers, destination))


def _is_used(look: Look, _: bool) -> str:
    return f"{look.use.belongs} So it is not an orphan." if look.use.belongs else ""


def _hinders_drain(look: Look, is_administrator: bool) -> str:
    if look.proof and not look.proof.to_bring_home and not look.use.belongs:
        return "It holds nothing that can be drained."
    return _is_used(look, is_administrator)


def _hinders_deletion(look: Look, is_administrator: bool) -> str:
    if look.use.served and not look.use.belongs:
        return f"{look.use.served} Wait until it is empty, or stop the drain."
    if look.proof and not look.proof.is_empty and not is_administrator and not look.use.belongs:
        return "It holds messages. Drain it first, or ask an administrator to delete it with its messages."
    return _is_used(look, is_administrator)


def _hinders_listed_deletion(queue: BacklogQueue) -> str:
    held = queue.messages + queue.dead_lettered + queue.transfer + queue.transfer_dead_lettered
    if queue.is_gone:
        return "It no longer exists."
    if not queue.is_orphan:
        return "It is not an orphan: a configured pair or a live process uses it."
    return f"It holds {held:,} messages. To delete them too, type its path on its own page." if held else ""


QUARANTINE_QUEUE = QueueAction(
    name="quarantine_queue",
    label="Quarantine",
    preview=(
        "Sends to it fail; a process that still tries pulls it from its rotation and uses another queue. "
        "Its messages stay, and can be received and drained."
    ),
    undo="End quarantine",
    operation=of_pair("quarantine_queue", "Stop sends to an orphan; its messages stay."),
    check=cleanup.check_quarantine,
    change=cleanup.quarantine,
    hinders=_is_used,
)
REOPEN_QUEUE = QueueAction(
    name="reopen_queue",
    label="End quarantine",
    title="End the quarantine",
    preview="It accepts messages again.",
    undo="Quarantine",
    asks_reason=False,
    operation=of_pair("reopen_queue", "End a quarantine."),
    check=cleanup.check_reopen,
    change=cleanup.reopen,
)
DRAIN_QUEUE = QueueAction(
    name="drain_queue",
    label="Drain queue",
    preview=(
        "A worker drains it: each message is sent to its entity, and none is lost. The drain waits for entities that "
        "are failed over. Dead letters stay; resubmit or discard them separately."
    ),
    undo="Stop drain",
    operation=of_pair("drain_queue", "Have a worker drain an orphan."),
    check=cleanup.check_drain,
    change=cleanup.drain,
    hinders=_hinders_drain,
)
STOP_DRAIN = QueueAction(
    name="stop_drain",
    label="Stop drain",
    title="Stop the drain",
    button="Stop",
    preview="The drain stops within seconds; the remaining messages stay in the queue.",
    undo="Drain queue",
    asks_reason=False,
    operation=of_pair("stop_drain", "Stop the drain of an orphan; the remaining messages stay in it."),
    check=cleanup.check_stop_drain,
    change=cleanup.stop_drain,
    proves=False,
    is_atomic=True,
)
TAKE_BACK = QueueAction(
    name="take_back",
    label="Cancel deletion",
    title="Cancel the deletion",
    preview="The queue is not deleted; its quarantine ends.",
    undo="Delete",
    asks_reason=False,
    operation=of_pair("take_back", "Cancel a deletion during its undo window."),
    check=cleanup.check_take_back,
    change=cleanup.take_back,
    proves=False,
)
REPAIR_QUEUE = QueueAction(
    name="repair_queue",
    label="Repair",
    preview="The properties of the queue are set to the expected values. Its messages do not change.",
    operation=of_pair(
        "repair_queue", "Set the properties of a backlog queue to the expected values, as far as an update can."
    ),
    check=cleanup.check_repair,
    change=cleanup.repair,
)
DELETE_QUEUE = QueueAction(
    name="delete_queue",
    label="Delete queue",
    title="Delete",
    button="Quarantine and delete",
    undo="Cancel deletion",
    arguments=(Argument.CONFIRMATION,),
    is_severe=True,
    operation=of_pair(
        "delete_queue", "Quarantine an orphan immediately, and delete it after the undo window if it has not changed."
    ),
    administration=ListAction(
        "delete_empty_orphans",
        "Delete the empty orphans among these…",
        "Delete empty orphans",
    ),
    check=cleanup.check_delete,
    change=cleanup.delete,
    hinders=_hinders_deletion,
    hinders_listed=_hinders_listed_deletion,
)
QUEUE_ACTIONS = (
    QUARANTINE_QUEUE,
    REOPEN_QUEUE,
    DRAIN_QUEUE,
    STOP_DRAIN,
    REPAIR_QUEUE,
    TAKE_BACK,
    DELETE_QUEUE,
)

RESUBMIT = LetterAction(
    name="resubmit_dead_letters",
    label="Resubmit dead letters",
    preview="A worker would send them to {it}.",
    arguments=(Argument.DESTINATION, Argument.NUMBERS),
    operation=Operation(
        "/pairs/{pair}/resubmit-dead-letters",
        "resubmit",
        "Have a worker send dead letters again, each to its own entity or all to one.",
    ),
    choice="resubmit",
    change=dead_letters.resubmit,
)
DISCARD = LetterAction(
    name="discard_dead_letters",
    label="Discard dead letters",
    preview="A worker would discard them permanently.",
    right=Right.ADMINISTER,
    arguments=(Argument.NUMBERS, Argument.CONFIRMATION),
    is_severe=True,
    operation=Operation(
        "/pairs/{pair}/discard-dead-letters",
        "discard",
        "Have a worker discard dead letters permanently. A record of each is kept, without its body.",
    ),
    choice="discard",
    change=dead_letters.discard,
)
STOP_DEAD_LETTERS = LetterAction(
    name="stop_dead_letters",
    label="Stop dead-letter job",
    preview="The remaining messages would stay dead letters.",
    operation=of_pair(
        "stop_dead_letters",
        "Stop the job on the dead letters of a queue; the remaining messages stay dead letters.",
        "Stop",
    ),
    choice="stop",
    change=dead_letters.stop,
    is_atomic=True,
)
DOWNLOAD = Action(
    name="download",
    label="Download messages",
    preview="Messages with their bodies are read, and stay where they are.",
    is_atomic=False,
    asks_reason=False,
)
LETTER_ACTIONS = (RESUBMIT, DISCARD, STOP_DEAD_LETTERS)
ACTIONS = (*QUEUE_ACTIONS, *deletions.ENDS.values(), *LETTER_ACTIONS, DOWNLOAD)
