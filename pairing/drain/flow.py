"""The drain of one backlog queue: the rules of the syphon.

A message is completed in the backlog only after its send to the primary was acknowledged (docs/specification.md,
section 8; docs/syphon.md). Messages for a destination that accepts none are deferred, so that others can
pass, and fetched by their sequence numbers, in turn with new ones, when it accepts sends again. The rules do no I/O:
they get the queue as a ``BacklogQueue``.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Any

from pairing.drain.backlog_queue import BATCH, BacklogQueue, Failed, Progress
from pairing.drain.destinations import LONGEST_PAUSE_S, Destinations
from pairing.drain.queue_state import QueueState
from pairing.drain.search import Search
from pairing.drain.sending import Sending
from pairing.drain.settling import Settling
from pairing.drain.sorting import Sorted, sort
from pairing.drive import Operation

_SLICE_S = 1.0
_REST_S = 0.25
_GLANCE_S = 0.05
_FIRST_PAGES = 10


class DrainFlow:
    """Drains one backlog queue into the primary while ``may_work`` allows it."""

    def __init__(
        self,
        queue: BacklogQueue,
        progress: Progress,
        destinations: Destinations,
        report: Callable[[str, str, str], None],
        *,
        may_work: Callable[[], bool],
        now: Callable[[], float],
        utc_now: Callable[[], datetime],
        first_pause_s: float = 1.0,
        max_attempts: int = 10,
        remaining_ttl: bool = False,
    ) -> None:
        self.progress = progress
        self.in_turn: Callable[[list[int]], list[int]] = lambda numbers: numbers
        """Selects the deferred messages without an older message of their session."""
        self._ledger = progress.ledger
        self._operations = queue
        self._queue = QueueState(queue, progress, now)
        self._settling = Settling(self._queue, report, self._may_send, utc_now)
        self._search = Search(self._queue, report, self._may_work, now, utc_now)
        self._sending = Sending(
            self._queue,
            destinations,
            self._settling,
            lambda numbers: self.in_turn(numbers),
            self._may_send,
            now,
            first_pause_s=first_pause_s,
            max_attempts=max_attempts,
        )
        self._destinations = destinations
        self._has_leave, self._now, self._utc_now = may_work, now, utc_now
        self._first_pause_s = first_pause_s
        self._remaining_ttl = remaining_ttl
        self._pause_s = self._paused_until = 0.0
        self._no_new_before = 0.0
        self._is_turn_of_deferred = True

    def _may_work(self) -> bool:
        return not self._queue.recording.is_refused and self._has_leave()

    def _may_send(self) -> bool:
        return self._may_work() and self._queue.recording.may_send()

    def note_deferred(self, found: Iterable[Any]) -> None:
        """Note which of these messages, seen in the queue, are deferred."""
        self._search.note_deferred(found)

    def run(self) -> Operation[None]:
        """Drain until ``may_work`` ends, and finish what was started if possible."""
        yield from self._search.find_deferred(_FIRST_PAGES)
        while self._may_work():
            yield from self._step()
        while self._sending.lanes:
            yield from self._sending.go_on(_REST_S)
        yield from self._settle()
        self._ledger.recent.clear()  # from here on the process that moved it reports its usage
        yield from self._queue.recording.store()

    def _step(self) -> Operation[None]:
        """Wait for answers that are due at once; otherwise settle what was answered, and fetch or receive more."""
        if wait_s := self._sending.holds_up():
            yield from self._sending.go_on(wait_s)
            return
        yield from self._sending.go_on(0.0)
        yield from self._settle()
        if not self._queue.recording.may_send():
            yield from self._wait_for_redis()
        elif self._now() < self._paused_until:
            yield from self._sending.go_on(_REST_S)
        else:
            yield from self._search.go_on()
            yield from self._get()

    def _get(self) -> Operation[None]:
        """Fetch deferred messages that can be sent now, in turn with receiving new ones."""
        numbers = self._due()
        if numbers and (self._is_turn_of_deferred or self._now() < self._no_new_before):
            self._is_turn_of_deferred = False
            yield from self._fetch(numbers)
            return
        self._is_turn_of_deferred = True
        if numbers or self._search.is_under_way:
            yield from self._receive(_GLANCE_S)
        else:
            yield from self._receive(_REST_S if self._queue.deferred or self._sending.lanes else _SLICE_S)

    def _receive(self, wait_s: float) -> Operation[None]:
        self._state("receiving")
        received = yield from self._operations.receive(BATCH, wait_s)
        if isinstance(received, Failed):
            self._pause(received.text)
            return
        self._pause_s = 0.0
        if received:
            self._search.received_some()
            yield from self._move(self._sort(received, fetched=False))
        else:
            self._no_new_before = self._now() + _SLICE_S
            if self.progress.hindered_since is not None:
                self._note_hindered(False, self._queue.deferred.paths())
            yield from self._search.idle()

    def _due(self) -> list[int]:
        """The oldest deferred messages that can be sent now."""
        now = self._now()
        return self._queue.deferred.due(now, BATCH, partial(self._room, now), self.in_turn)

    def _room(self, now: float, path: str, wanted: int, taken: int) -> int:
        """How many of this number of messages the entity accepts now, beside this number of other entities."""
        if path in self._sending.lanes or self._sending.rests(path, now):
            return 0
        wanted = min(wanted, self._destinations.room(path, now, taken))
        return self._destinations.pacing.allowance(path, self.progress.queue, wanted, now).count if wanted else 0

    def _fetch(self, numbers: list[int]) -> Operation[None]:
        received = yield from self._operations.fetch(numbers)
        if isinstance(received, Failed):
            self._pause(received.text)
            return
        self._pause_s = 0.0
        if missing := set(numbers) - {message.sequence_number for message in received}:
            yield from self._search.look_for(missing)
        if received:
            yield from self._move(self._sort(received, fetched=True))

    def _sort(self, received: list[Any], *, fetched: bool) -> Sorted:
        for message in received:
            if message.sequence_number:
                self._ledger.see(message.sequence_number, getattr(message, "enqueued_time_utc", None))
        return sort(received, fetched=fetched, now=self._utc_now() if self._remaining_ttl else None)

    def _move(self, sorted_: Sorted) -> Operation[None]:
        items, refused = sorted_
        self._settling.announce(self._sending.accept(items), "restored")
        for item, fate, _ in refused:
            self._settling.announce([item], fate)
        yield from self._queue.recording.store()  # whether it can be stored decides whether messages are sent
        for item, fate, reason in refused:
            yield from self._settling.dead_letter([item], fate, reason)
        self._state("moving")
        yield from self._sending.go_on(0.0)
        if refused:
            self._note_hindered(True, ())

    def _settle(self) -> Operation[None]:
        round_ = yield from self._sending.settle()
        if round_.moved or round_.postponed:
            self._note_hindered(bool(round_.moved), {item.path for item in round_.postponed})

    def _note_hindered(self, has_delivered: bool, waiting: Iterable[str]) -> None:
        """Note whether deliverable messages are delivered; messages for failed-over entities do not count."""
        if has_delivered or all(map(self._destinations.is_shut, waiting)):
            self.progress.hindered_since = None
        else:
            self.progress.hindered_since = self.progress.hindered_since or self._utc_now()

    def _wait_for_redis(self) -> Operation[None]:
        self.progress.last_error = "the ledger cannot be stored, because Redis does not answer"
        self._state("waiting")
        yield from self._sending.go_on(_REST_S)
        yield from self._queue.recording.store()

    def _pause(self, text: str) -> None:
        """The backlog queue does not answer: pause, for longer each time."""
        self.progress.last_error = text
        self._state("failing")
        self._pause_s = min(max(2 * self._pause_s, self._first_pause_s), LONGEST_PAUSE_S)
        self._paused_until = self._now() + self._pause_s

    def _state(self, state: str) -> None:
        self.progress.state = state
