"""The actions on backlog queues and on dead letters, declared."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dashboard.access import audited
from dashboard.access.audited import ActionError, Outcome, Request, unchanged
from dashboard.access.declaration import Action, Argument, Command, Operation
from dashboard.access.rights import Right
from dashboard.backlog import cleanup, dead_letters, orphans
from dashboard.backlog.cleanup import Look
from pairing.fleet.coordination import SharedState


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAction(Action):
    """An action on one backlog queue.

    `check` decides from what was read, without a side effect: the outcome where it is so already, ActionError where it
    must not be, None where `change` is to do it.
    """

    check: Callable[[Look], Outcome | None]
    change: Callable[..., Outcome]
    proves: bool = True
    """It begins with a look at the queue in its namespace, which the question shows."""
    hinders: Callable[[Look, bool], str] = lambda look, is_administrator: ""
    """Why the question offers no button, beside what `check` says."""
    is_atomic: bool = False

    def run(self, request: Request, *, typed: str = "", confirmed: str = "") -> Outcome:
        """Carry it out for the queue that is the request's target."""
        more = {"typed": typed, "confirmed": confirmed} if Argument.CONFIRMATION in self.arguments else {}
        step = self._proven if self.proves else self._unproven

        def run(_: SharedState) -> Outcome:
            return step(request, more)

        return audited.perform(self.name, request, run, right=self.right, atomic=self.is_atomic)

    def hindrance(self, look: Look, *, is_administrator: bool) -> str:
        """Why it cannot be done now; empty where it can, or is so already."""
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
        """Whether it would change anything, of a look that nothing hinders."""
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
    """An action on dead letters. `prepare` raises ActionError where the request makes no sense."""

    choice: str
    """What the page's form calls it."""
    prepare: Callable[[Request, Sequence[int], str], dead_letters.Run]
    is_atomic: bool = False

    def run(self, request: Request, *, numbers: Sequence[int] = (), destination: str = "") -> Outcome:
        """Carry it out for the dead letters of the request's target: these, or all there are."""
        run = self.prepare(request, numbers, destination)
        return audited.perform(self.name, request, run, right=self.right, atomic=self.is_atomic)


def _is_used(look: Look, _: bool) -> str:
    return f"{look.use.belongs} So it is no orphan." if look.use.belongs else ""


def _hinders_drain(look: Look, is_administrator: bool) -> str:
    if look.proof and not look.proof.to_bring_home and not look.use.belongs:
        return "It holds nothing that could be brought home."
    return _is_used(look, is_administrator)


def _hinders_deletion(look: Look, is_administrator: bool) -> str:
    if look.use.served and not look.use.belongs:
        return f"{look.use.served} Wait for it, or stop the drain."
    if look.proof and not look.proof.is_empty and not is_administrator and not look.use.belongs:
        return "It holds messages. Drain them home first, or ask an administrator to delete it with them."
    return _is_used(look, is_administrator)


QUARANTINE_QUEUE = QueueAction(
    name="quarantine_queue",
    label="Quarantine",
    preview=(
        "Nobody can send to it any more; a process that still tries takes it out of its rotation and uses another. "
        "What it holds stays, and can be received and drained."
    ),
    undo="End quarantine",
    command=Command("quarantine", "let an orphan take no more messages; what is in it stays"),
    operation=Operation(
        "/pairs/{pair}/quarantine-queue",
        "quarantine_queue",
        "Let an orphan take no more messages; what is in it stays.",
    ),
    check=cleanup.check_quarantine,
    change=cleanup.quarantine,
    hinders=_is_used,
)
REOPEN_QUEUE = QueueAction(
    name="reopen_queue",
    label="End quarantine",
    title="End the quarantine",
    preview="It takes messages again.",
    undo="Quarantine",
    asks_reason=False,
    command=Command("reopen", "end a quarantine"),
    operation=Operation("/pairs/{pair}/reopen-queue", "reopen_queue", "End a quarantine."),
    check=cleanup.check_reopen,
    change=cleanup.reopen,
)
DRAIN_QUEUE = QueueAction(
    name="drain_queue",
    label="Drain home",
    preview=(
        "A worker brings its messages home, each to the entity it was meant for, and never loses one. Entities that "
        "are failed over are waited for. Dead letters stay: they are resubmitted or discarded by hand."
    ),
    undo="Stop drain",
    command=Command("drain", "let a worker bring home what an orphan holds"),
    operation=Operation("/pairs/{pair}/drain-queue", "drain_queue", "Let a worker bring home what an orphan holds."),
    check=cleanup.check_drain,
    change=cleanup.drain,
    hinders=_hinders_drain,
)
STOP_DRAIN = QueueAction(
    name="stop_drain",
    label="Stop drain",
    title="Stop the drain",
    button="Stop",
    preview="Within seconds no message is brought home any more; what is left stays in the queue.",
    undo="Drain home",
    asks_reason=False,
    command=Command("stop-drain", "let the drain of an orphan end"),
    operation=Operation(
        "/pairs/{pair}/stop-drain",
        "stop_drain",
        "Let the drain of an orphan end; what was not brought home stays in it.",
    ),
    check=cleanup.check_stop_drain,
    change=cleanup.stop_drain,
    proves=False,
    is_atomic=True,
)
TAKE_BACK = QueueAction(
    name="take_back",
    label="Take back",
    title="Take the deletion back",
    preview="The queue is not deleted; its quarantine ends.",
    undo="Delete",
    asks_reason=False,
    command=Command("take-back", "take a deletion back while its undo window lasts"),
    operation=Operation("/pairs/{pair}/take-back", "take_back", "Take a deletion back while its undo window lasts."),
    check=cleanup.check_take_back,
    change=cleanup.take_back,
    proves=False,
)
REPAIR_QUEUE = QueueAction(
    name="repair_queue",
    label="Repair",
    preview="It gets the properties that every backlog queue has. Its messages are not touched.",
    command=Command("repair", "give a backlog queue the properties it should have"),
    operation=Operation(
        "/pairs/{pair}/repair-queue",
        "repair_queue",
        "Give a queue the properties that every backlog queue has, as far as an update can.",
    ),
    check=cleanup.check_repair,
    change=cleanup.repair,
)
DELETE_QUEUE = QueueAction(
    name="delete_queue",
    label="Delete queue",
    title="Delete",
    button="Quarantine and delete",
    undo="Take back",
    arguments=(Argument.CONFIRMATION,),
    is_severe=True,
    command=Command("delete", "quarantine an orphan, and delete it after the undo window"),
    operation=Operation(
        "/pairs/{pair}/delete-queue",
        "delete_queue",
        "Quarantine an orphan at once, and delete it once the undo window is over if nothing has changed by then.",
    ),
    check=cleanup.check_delete,
    change=cleanup.delete,
    hinders=_hinders_deletion,
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
    command=Command("resubmit", "let a worker send dead letters again"),
    operation=Operation(
        "/pairs/{pair}/resubmit-dead-letters",
        "resubmit",
        "Let a worker send dead letters again, each to its own entity or all to one.",
    ),
    choice="resubmit",
    prepare=dead_letters.resubmit,
)
DISCARD = LetterAction(
    name="discard_dead_letters",
    label="Discard dead letters",
    preview="A worker would discard them for good.",
    right=Right.ADMINISTER,
    arguments=(Argument.NUMBERS, Argument.CONFIRMATION),
    is_severe=True,
    command=Command("discard", "let a worker take dead letters out for good"),
    operation=Operation(
        "/pairs/{pair}/discard-dead-letters",
        "discard",
        "Let a worker take dead letters out of their queue for good. What they were is kept, not what they said.",
    ),
    choice="discard",
    prepare=dead_letters.discard,
)
STOP_DEAD_LETTERS = LetterAction(
    name="stop_dead_letters",
    label="Stop dead letters",
    preview="Workers would leave the rest as it is.",
    command=Command("stop-dead-letters", "end what workers do to the dead letters of a queue"),
    operation=Operation(
        "/pairs/{pair}/stop-dead-letters",
        "stop_dead_letters",
        "End what workers do to the dead letters of a queue; what is not done yet stays a dead letter.",
        "Stop",
    ),
    choice="stop",
    prepare=dead_letters.stop,
    is_atomic=True,
)
LETTER_ACTIONS = (RESUBMIT, DISCARD, STOP_DEAD_LETTERS)
ACTIONS = (*QUEUE_ACTIONS, *LETTER_ACTIONS)
