"""What a drain knows of its backlog queue: its progress and ledger, and which of its messages are deferred."""

import heapq
from collections.abc import Callable
from typing import Final

from pairing.drain.backlog_queue import BacklogQueue, Item, Kept, Progress
from pairing.drain.ledger import Ledger
from pairing.drive import Operation


class QueueState:
    """Shared by the parts of one drain."""

    def __init__(self, operations: BacklogQueue, progress: Progress, now: Callable[[], float]) -> None:
        self.operations = operations
        self.progress = progress
        self.ledger = progress.ledger
        self.recording = Recording(operations, progress.ledger, now)
        self.deferred = Deferrals()
        self.scanned_at: float | None = None
        """When the queue was last searched for deferred messages; None: to be done as soon as there is time."""
        self.unnumbered = 0
        """How many messages were settled whose sequence numbers are unknown, as they could not be decoded."""

    def count_deferred(self) -> None:
        """Show how many are deferred."""
        self.progress.deferred = len(self.deferred)

    def forget(self, number: int) -> None:
        """The message has left the queue."""
        self.deferred.forget(number)
        self.ledger.attempts.pop(number, None)
        self.count_deferred()

    def attempt(self, item: Item) -> int:
        """One more attempt to send the message; how many there were."""
        attempts = self.ledger.attempts[item.number] = self.ledger.attempts.get(item.number, 0) + 1
        return attempts


PATIENCE_S: Final = 60.0
"""For how long a drain rests while Redis does not answer."""


class Recording:
    """Stores the ledger of one drain, and knows whether messages may be sent meanwhile.

    A process that is killed takes along what its stored ledger does not contain: such messages have arrived, and are
    reported as missing. So a drain rests while its ledger cannot be stored, for as long as an outage of Redis usually
    lasts; after that it continues, because messages that wait are worse than a ledger that may have a gap.
    """

    def __init__(self, queue: BacklogQueue, ledger: Ledger, now: Callable[[], float]) -> None:
        self.is_refused = False
        """Whether another syphon has taken the queue over since."""
        self._queue, self._ledger, self._now = queue, ledger, now
        self._failing_since: float | None = None

    def store(self) -> Operation[bool]:
        """Store the ledger; False if another syphon has taken over the queue."""
        kept = yield from self._queue.keep(self._ledger)
        self.is_refused = kept is Kept.REFUSED
        if kept is Kept.STORED:
            self._failing_since = None
        elif self._failing_since is None:
            self._failing_since = self._now()
        return not self.is_refused

    def may_send(self) -> bool:
        """Whether the ledger could be stored last time, or has not been for so long that messages wait no more."""
        return self._failing_since is None or self._now() - self._failing_since >= PATIENCE_S


class Deferrals:
    """Sequence numbers of deferred messages, by destination."""

    def __init__(self) -> None:
        self._paths: dict[int, str] = {}
        self._not_before: dict[str, dict[int, float]] = {}

    def __len__(self) -> int:
        return len(self._paths)

    def __contains__(self, number: int) -> bool:
        return number in self._paths

    def paths(self) -> list[str]:
        """The destinations of deferred messages."""
        return list(self._not_before)

    def note(self, number: int, path: str, not_before: float = 0.0) -> None:
        """A message is deferred, and must not be fetched before that time."""
        self._paths[number] = path
        self._not_before.setdefault(path, {})[number] = not_before

    def postpone(self, number: int, not_before: float) -> None:
        """The message must not be fetched before that time."""
        self.note(number, self._paths[number], not_before)

    def forget(self, number: int) -> None:
        """The message does not exist any more."""
        path = self._paths.pop(number, None)
        if path is not None:
            del self._not_before[path][number]
            if not self._not_before[path]:
                del self._not_before[path]

    def waiting(self, path: str, now: float) -> list[int]:
        """The messages for this entity that could be fetched if it had room; newer ones must not overtake them."""
        return [number for number, not_before in self._not_before.get(path, {}).items() if not_before <= now]

    def due(
        self,
        now: float,
        most: int,
        room: Callable[[str, int, int], int],
        in_turn: Callable[[list[int]], list[int]] = list,
    ) -> list[int]:
        """The oldest messages that can be sent now, of each entity its share; ``room`` returns how many it accepts of
        a number, beside a number of other entities.

        ``in_turn`` selects those without an older message of their session.
        """
        waiting = dict[str, tuple[int, list[int]]]()
        for path, numbers in self._not_before.items():
            count = room(path, min(len(numbers), most), len(waiting))
            if count and (first := in_turn(self.waiting(path, now))):
                waiting[path] = count, first
        share = max(1, most // max(1, len(waiting)))
        found: list[int] = []
        for path, (count, first) in list(waiting.items())[:most]:
            self._not_before[path] = self._not_before.pop(path)  # those that got no share come first next time
            found += heapq.nsmallest(min(count, share), first)
        return sorted(found)
