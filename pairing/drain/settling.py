"""How the messages of one receive are settled: written down first, and only while the queue is this syphon's."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from pairing.drain.backlog_queue import Item
from pairing.drain.ledger import Fate
from pairing.drain.queue_state import QueueState
from pairing.drive import Operation
from pairing.events import counted

_REASONS = {"dead_lettered": "CannotBeRestored", "set_aside": "SetAside", "expired": "TTLExpiredException"}


@dataclass(slots=True)
class Round:
    """Messages that are to be settled."""

    done: list[Item] = field(default_factory=list)
    postponed: list[Item] = field(default_factory=list)
    not_before: dict[int, float] = field(default_factory=dict)
    moved: int = 0


class Settling:
    """Completes sent messages, defers or releases waiting ones, and dead-letters those that cannot be restored."""

    def __init__(
        self,
        queue: QueueState,
        report: Callable[[str, str, str], None],
        may_send: Callable[[], bool],
        utc_now: Callable[[], datetime],
    ) -> None:
        self._queue, self._progress, self._ledger = queue, queue.progress, queue.ledger
        self._report, self._may_send, self._utc_now = report, may_send, utc_now

    def announce(self, items: Iterable[Item], fate: Fate) -> None:
        """These are about to be settled so: noted before they are sent, because Redis may be unavailable afterwards."""
        for item in items:
            if item.number:
                self._ledger.pending[item.number] = fate

    def complete(self, round_: Round) -> Operation[None]:
        """Complete the sent messages in the queue."""
        if not round_.done:
            return
        done, round_.done = round_.done, []
        self._ledger.used((item.path for item in done), self._utc_now())
        is_ours = yield from self._intend(done, "restored")
        if not is_ours:
            self._progress.locks_lost += len(done)
            return
        for items in filter(None, _by_kind(done)):
            outcomes = yield from self._queue.operations.settle("complete", items)
            for item, outcome in zip(items, outcomes, strict=True):
                if outcome == "done":
                    self._ledger.close(item.number, "restored")
                    self._queue.forget(item.number)
                else:  # it may be delivered again, with the same message_id
                    self._progress.locks_lost += 1
        round_.moved += len(done)
        self._progress.moved += len(done)
        self._progress.last_moved_at = self._utc_now()

    def _intend(self, items: list[Item], fate: Fate) -> Operation[bool]:
        """Record what is about to be settled; False if another syphon has taken over the queue."""
        self.announce(items, fate)
        return (yield from self._queue.recording.store())

    def postpone(self, round_: Round) -> Operation[None]:
        """Make room for others: received messages are deferred, deferred ones stay deferred."""
        for item in round_.postponed:
            self._ledger.pending.pop(item.number, None)
        fresh, fetched = _by_kind(round_.postponed)
        for item in fetched:
            self._note_deferred(item, round_)
        if fetched:
            yield from self._queue.operations.settle("abandon", fetched)
        if fresh and not self._may_send():  # the next syphon gets them immediately and in order, or this one later
            yield from self._queue.operations.settle("abandon", fresh)
        elif fresh:
            outcomes = yield from self._queue.operations.settle("defer", fresh)
            for item, outcome in zip(fresh, outcomes, strict=True):
                if outcome == "done":
                    self._note_deferred(item, round_)
                else:  # it may be deferred nevertheless: search for it as soon as there is time
                    self._queue.scanned_at = None
        self._queue.count_deferred()

    def _note_deferred(self, item: Item, round_: Round) -> None:
        self._queue.deferred.note(item.number, item.path, round_.not_before.get(item.number, 0.0))

    def dead_letter(self, items: list[Item], fate: Fate, reason: str) -> Operation[None]:
        """Dead-letters them in the backlog queue, and reports it."""
        is_ours = yield from self._intend(items, fate)
        if not is_ours:
            return
        if items[0].number and not self._queue.recording.may_send():  # the stored ledger may announce them as restored
            for item in items:
                self._ledger.pending.pop(item.number, None)
            yield from self._queue.operations.settle("abandon", items)
            return
        outcomes = yield from self._queue.operations.settle("dead_letter", items, _REASONS[fate], reason)
        gone = [item for item, outcome in zip(items, outcomes, strict=True) if outcome == "done"]
        for item in gone:
            if item.number:
                self._ledger.close(item.number, fate)
            else:
                self._queue.unnumbered += 1
            self._queue.forget(item.number)
        if gone:
            self._count_gone(gone, fate, reason)

    def _count_gone(self, gone: list[Item], fate: Fate, reason: str) -> None:
        is_aside = fate == "set_aside"
        if is_aside:
            self._queue.scanned_at = None
        self._progress.set_aside += len(gone) if is_aside else 0
        self._progress.dead_lettered += 0 if is_aside else len(gone)
        queue = self._progress.queue
        kind = "set_aside" if is_aside else "dead_lettered"
        self._report(kind, gone[0].path or queue, counted(len(gone), queue, reason))


def _by_kind(items: list[Item]) -> tuple[list[Item], list[Item]]:
    """Received and fetched messages: each kind is settled in its own way, whose failure says nothing of the other."""
    return [item for item in items if not item.fetched], [item for item in items if item.fetched]
