"""The messages of each session in a backlog queue, and which of them may be sent next. No I/O, no clock.

Sequence numbers of a queue increase, and a peek also shows messages that others have locked or deferred. So a message
may be sent once no lower number of its session is left in the queue, and a session is drained once the whole queue was
read without finding one of its messages. Assumed messages are kept until a page of the queue shows otherwise.

The numbers of a queue have no gaps. A number that was neither received nor on a page is a message that another link
has locked, perhaps a link that is dead without the broker's knowledge, or one that is gone: only a page tells.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence


class Turns:
    """The sessions of one backlog queue."""

    def __init__(self) -> None:
        self._keys: dict[int, str] = {}
        self._waiting: defaultdict[str, set[int]] = defaultdict(set)
        self._present: defaultdict[str, set[int]] = defaultdict(set)
        self.look_from = 1
        """The start of the next page; it increases until a doubt resets it."""
        self.is_whole = False
        """Whether the last page reached the end of the queue."""
        self._known_below = 1
        self._run = (1, 1)
        """The numbers received last without a gap; one that is interrupted is only a page to read more."""

    def see(self, number: int, key: str | None) -> None:
        """The queue holds this message; None: without a session."""
        if number >= self._known_below:
            self._run = (self._run[0], number + 1) if number == self._run[1] else (number, number + 1)
            self._join_run()
        if key is not None:
            self._keys[number] = key
            self._waiting[key].add(number)
            self._present[key].add(number)

    def knows_before(self, number: int) -> bool:
        """Whether no older message can be in the queue that was never seen."""
        return number <= self._known_below

    def _join_run(self) -> None:
        first, end = self._run
        if first <= self._known_below < end:
            self._known_below = end

    def page(self, found: Sequence[tuple[int, str | None]]) -> None:
        """Process one page of the queue, read from ``look_from`` on; an empty page is the end."""
        shown = {number for number, _ in found}
        last = max(shown, default=None)
        for number in self._known_on_page(last):
            if number not in shown:
                self.gone(number)
        for number, key in found:
            if number not in self._keys:
                self.see(number, key)
        self.is_whole = last is None
        self.look_from = self.look_from if last is None else last + 1
        self._known_below = max(self._known_below, self.look_from)
        self._join_run()

    def _known_on_page(self, last: int | None) -> list[int]:
        """The messages with a session that are believed to be between the start of a page and its last number."""
        if last is not None and last - self.look_from < len(self._keys):
            return [number for number in range(self.look_from, last + 1) if number in self._keys]
        return [number for number in self._keys if number >= self.look_from and (last is None or number <= last)]

    def doubt(self) -> None:
        """Verify again all messages that are assumed to be in the queue."""
        self.look_from, self.is_whole = min(self._keys, default=self.look_from), False

    def ready(self, numbers: Sequence[int], key: str | None) -> int:
        """How many of these messages of one session, in order, may be sent now because no older one is left."""
        waiting = self._waiting.get(key) if key is not None else None
        if not waiting:
            return len(numbers)
        ahead = heapq.nsmallest(len(numbers), waiting)
        return next((i for i, number in enumerate(numbers) if i >= len(ahead) or ahead[i] != number), len(numbers))

    def in_turn(self, numbers: Iterable[int]) -> list[int]:
        """Those of these messages without an older message of their session, in order."""
        by_key: defaultdict[str | None, list[int]] = defaultdict(list)
        for number in sorted(numbers):
            by_key[self._keys.get(number)].append(number)
        return sorted(n for key, theirs in by_key.items() for n in theirs[: self.ready(theirs, key)])

    def sent(self, number: int) -> None:
        """The message is in the primary, so its successors may be sent, although the queue still holds it."""
        key = self._keys.get(number)
        if key is not None:
            self._drop(self._waiting, key, number)

    def gone(self, number: int) -> None:
        """The queue does not hold the message any more."""
        key = self._keys.pop(number, None)
        if key is not None:
            self._drop(self._waiting, key, number)
            self._drop(self._present, key, number)

    def sessions(self) -> set[str]:
        """The sessions with messages in the queue, as far as seen."""
        return set(self._present)

    def count(self, key: str) -> int:
        """The number of messages of the session in the queue, as far as seen."""
        return len(self._present.get(key, ()))

    def drained(self, keys: Iterable[str]) -> list[str]:
        """The sessions without messages in the whole queue; none until the whole queue was read."""
        return [key for key in keys if key not in self._present] if self.is_whole else []

    @staticmethod
    def _drop(numbers: dict[str, set[int]], key: str, number: int) -> None:
        left = numbers.get(key)
        if left is not None:
            left.discard(number)
            if not left:
                del numbers[key]


_FIRST_LOOKS, _MOST_LOOKS = 5, 80


class Holds:
    """The sessions of one backlog queue that are nearly drained, and for how many looks they have been."""

    def __init__(self) -> None:
        self._looks: dict[str, int] = {}
        self._patience: dict[str, int] = {}

    def due(self, nearly_drained: Iterable[str], barred: Iterable[str]) -> list[str]:
        """The sessions whose sends have to wait now: nearly drained at each of the last looks, and still barred.

        The first hold comes after 5 looks, each further one behind the same barrier after twice as many, 80 at most.
        """
        keys = set(barred)
        self._patience = {key: looks for key, looks in self._patience.items() if key in keys}
        self._looks = {key: self._looks.get(key, 0) + 1 for key in nearly_drained}
        due = [key for key, looks in self._looks.items() if looks >= self._patience.get(key, _FIRST_LOOKS)]
        for key in due:
            self._looks[key] = 0
            self._patience[key] = min(2 * self._patience.get(key, _FIRST_LOOKS), _MOST_LOOKS)
        return sorted(due)
