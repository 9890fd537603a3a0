"""What an empty receive leaves open: messages that others have deferred, settled in doubt, or that never come."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from pairing.drain.backlog_queue import Failed
from pairing.drain.queue_state import QueueState
from pairing.drain.sorting import path_of
from pairing.drive import Operation

_RESCAN_S = 600.0
_ASK_AGAIN_S = 5.0
_LONGEST_ASK_AGAIN_S = 60.0  # what a process that died had not sent stays in doubt for as long as it is deferred
_SEARCH_AGAIN_S = 15.0  # after a search that failed, or a message that another process has locked
_KEEP_AGAIN_S = 30.0
_EMPTY_S = 900.0  # a sent message may take this long to be visible


class Search:
    """Looks for what a drain has not been given."""

    def __init__(
        self,
        queue: QueueState,
        report: Callable[[str, str, str], None],
        may_work: Callable[[], bool],
        now: Callable[[], float],
        utc_now: Callable[[], datetime],
    ) -> None:
        self.empty_since: float | None = None
        """Since when receives have been empty."""
        self._queue, self._progress, self._ledger = queue, queue.progress, queue.ledger
        self._report, self._may_work, self._now, self._utc_now = report, may_work, now, utc_now
        self._peek_from = 1
        self._asked_at = self._kept_at = 0.0
        self._asked_up_to = 0
        self._ask_pause_s = _ASK_AGAIN_S
        self._search_at = float("-inf")

    def received_some(self) -> None:
        """The queue is not empty."""
        self.empty_since, self._ask_pause_s = None, _ASK_AGAIN_S

    def find_deferred(self, pages: int) -> Operation[None]:
        """Search for messages that another process has deferred."""
        for _ in range(pages):
            if not self._may_work():
                return
            found = yield from self._queue.operations.peek(self._peek_from)
            if isinstance(found, Failed):  # it may hold a message that cannot be decoded, which must be set aside first
                self._progress.last_error = found.text
                self._search_at = self._now() + _SEARCH_AGAIN_S
                return
            if not found:
                self._peek_from, self._queue.scanned_at = 1, self._now()
                return
            self.note_deferred(found)
            self._peek_from = found[-1].sequence_number + 1

    @property
    def is_under_way(self) -> bool:
        """Whether parts of the queue were not searched yet."""
        return self._queue.scanned_at is None or self._peek_from > 1

    def go_on(self) -> Operation[None]:
        """Search one page further, in a fifth of the time, because messages are moved meanwhile."""
        began = self._now()
        if self.is_under_way and began >= self._search_at:
            yield from self.find_deferred(1)
            self._search_at = max(self._search_at, self._now() + 4 * (self._now() - began))

    def look_for(self, missing: set[int]) -> Operation[None]:
        """Deferred messages that could not be fetched: those still in the queue are locked, by a process that died."""
        found = yield from self._queue.operations.peek(min(missing))
        there = set() if isinstance(found, Failed) else {message.sequence_number for message in found}
        for number in missing:
            if isinstance(found, Failed) or number in there or number > max(there, default=number):
                self._queue.deferred.postpone(number, self._now() + _SEARCH_AGAIN_S)
            else:
                self._queue.forget(number)

    def note_deferred(self, found: Iterable[Any]) -> None:
        """Note which of these messages, seen in the queue, are deferred."""
        deferred = self._queue.deferred
        for message in found:
            self._ledger.see(message.sequence_number, message.enqueued_time_utc)
            if getattr(message.state, "name", "") == "DEFERRED" and message.sequence_number not in deferred:
                deferred.note(message.sequence_number, path_of(message))
        self._queue.count_deferred()

    def idle(self) -> Operation[None]:
        """The queue returned nothing: the remaining messages may be deferred by others, or undecodable for the SDK."""
        now = self._now()
        self.empty_since = self.empty_since or now
        scanned_at = self._queue.scanned_at
        if scanned_at is not None and now - scanned_at > _RESCAN_S:
            self._queue.scanned_at = None
        elif self._ledger.pending and now - self._asked_at > self._ask_pause_s:
            self._asked_at = now
            yield from self._settle_doubts()
        elif now - self._kept_at > _KEEP_AGAIN_S and self._ledger.gaps(1):
            self._kept_at = now
            yield from self._queue.recording.store()  # a predecessor may have left its own, which fills the gaps
        elif self._queue.unnumbered and not self.is_under_way:
            self._number_the_rest()
        elif now - self.empty_since > _EMPTY_S:
            self.empty_since = now
            yield from self._doubt_emptiness()
        elif self._is_over() and self._ledger.drained(self._utc_now()):
            yield from self._queue.recording.store()

    def _is_over(self) -> bool:
        return not (self.is_under_way or self._queue.deferred or self._ledger.pending)

    def _settle_doubts(self) -> Operation[None]:
        """Resolve settlements without an answer: their messages are not in the queue any more.

        One page at a time, because messages that are still there may be far from each other, and a page may be short.
        """
        pending = self._ledger.pending
        first = min((number for number in pending if number > self._asked_up_to), default=min(pending))
        found = yield from self._queue.operations.peek(first)
        if isinstance(found, Failed):
            return
        present = {message.sequence_number for message in found}
        last = self._asked_up_to = max(present, default=max(pending))
        gone = [number for number in pending if first <= number <= last and number not in present]
        for number in gone:
            self._ledger.close(number, pending[number])
            self._queue.forget(number)
        is_vain = not gone and last >= max(pending)
        self._ask_pause_s = min(2 * self._ask_pause_s, _LONGEST_ASK_AGAIN_S) if is_vain else _ASK_AGAIN_S
        if gone:
            yield from self._queue.recording.store()

    def _number_the_rest(self) -> None:
        """Assign numbers to undecodable messages: the unexplained ones, if there are equally many."""
        gaps = [number for number in self._ledger.gaps() if number not in self._queue.deferred]
        if len(gaps) == self._queue.unnumbered:
            for number in gaps:
                self._ledger.close(number, "set_aside")
        self._queue.unnumbered = 0

    def _doubt_emptiness(self) -> Operation[None]:
        """An empty receive is no proof, because the counts may include messages that are never received."""
        waiting = yield from self._queue.operations.count()
        deferred = len(self._queue.deferred)
        if not isinstance(waiting, Failed) and waiting > deferred:
            self._progress.last_error = f"receives nothing, {waiting - deferred} waiting"
            self._report("set_aside", self._progress.queue, self._progress.last_error)
