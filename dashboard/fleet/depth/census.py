"""The number of messages per destination in a backlog queue of any length, found by peeking. Pure except for `peek`.

A look costs a bounded number of peeks. Messages that one look can cover are counted anew each time, so those counts are
exact. A longer queue is covered by successive looks, each continuing at the end of the previous one: first new
messages, then those seen before, from the head of the queue. In between the counts are estimates, which sum to the
queue's message count in the namespace; drained messages are detected once the queue has been covered again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from azure.servicebus import ServiceBusReceivedMessage as Message

Tally = dict[str, tuple[int, float]]
"""By entity: the number of messages, and the time of the oldest, in seconds since 1970."""


Peek = Callable[[int], Sequence[Message]]
"""Messages of the queue in order, from a sequence number on; none at its end. Raises errors of the SDK."""


@dataclass(slots=True)
class Census:
    """The known state of one queue between two looks."""

    known: Tally = field(default_factory=dict)
    highest: int = 0
    """All messages up to this number were seen at least once."""
    is_caught_up: bool = True
    """Whether there was nothing after it at the last look."""
    found: Tally = field(default_factory=dict)
    checked: int = 0
    """The second pass has reached this number; `found` is what it has counted."""
    is_exact: bool = False
    """Whether the last look has covered the whole queue."""

    def look(self, total: int, peek: Peek, most: int) -> None:
        """Continue with about `most` messages. `total` is the message count of the namespace."""
        if total == 0:
            self._forget()
            self.is_exact = self.is_caught_up = True
        elif total <= most and self.is_caught_up:
            self._forget()
            self._chase(peek, 2 * most)
            self.is_exact = self.is_caught_up
        elif not self.is_caught_up or not self.highest:
            self.is_exact = False
            self._chase(peek, most)
        else:
            self.is_exact = False
            self._check(peek, most - self._chase(peek, most // 2))

    @property
    def seen(self) -> int:
        """The number of messages that were counted."""
        return sum(count for count, _ in self.known.values())

    def waiting(self, total: int) -> dict[str, int]:
        """Messages by entity; estimates are in the proportions found, and sum to `total` unless it is smaller than the
        number of entities.
        """
        counts = {path: count for path, (count, _) in self.known.items()}
        return counts if self.is_exact else _shared_out(counts, total)

    @property
    def oldest(self) -> dict[str, datetime]:
        """The time of the oldest message for each entity."""
        return {path: datetime.fromtimestamp(since, UTC) for path, (_, since) in self.known.items()}

    def _forget(self) -> None:
        self.known, self.found, self.highest, self.checked = {}, {}, 0, 0

    def _chase(self, peek: Peek, most: int) -> int:
        """Count new messages. Returns how many were peeked."""
        seen = 0
        self.is_caught_up = False
        while seen < most:
            page = peek(self.highest + 1)
            if not page:
                self.is_caught_up = True
                break
            _add(self.known, page)
            self.highest, seen = _last(page), seen + len(page)
        return seen

    def _check(self, peek: Peek, most: int) -> None:
        """Recount messages that were seen before; at the end of the queue, the new counts replace the old ones."""
        seen = 0
        while seen < most:
            page = peek(self.checked + 1)
            if not page:
                self.known, self.highest = self.found, self.checked
                self.found, self.checked = {}, 0
                break
            _add(self.found, page)
            self.checked, seen = _last(page), seen + len(page)


def _shared_out(counts: Mapping[str, int], total: int) -> dict[str, int]:
    """So many messages in the proportions of the counts, at least one for each; the rest goes to the largest parts."""
    seen = sum(counts.values())
    found = {path: max(1, total * count // seen) for path, count in counts.items()}
    largest = sorted(counts, key=lambda path: (-counts[path], path))
    for path in largest[: max(0, total - sum(found.values()))]:
        found[path] += 1
    over = sum(found.values()) - total
    for path in largest:
        taken = max(0, min(over, found[path] - 1))
        found[path], over = found[path] - taken, over - taken
    return found


def entity_of(message: Message) -> str:
    """The destination of a message in a backlog queue; empty if it has none."""
    path = (message.application_properties or {}).get(b"x-ms-path", b"")
    return path.decode(errors="replace") if isinstance(path, bytes) else str(path)


def _add(tally: Tally, page: Sequence[Message]) -> None:
    now = datetime.now(UTC)
    for message in page:
        path, since = entity_of(message), (message.enqueued_time_utc or now).timestamp()
        count, oldest = tally.get(path, (0, since))
        tally[path] = (count + 1, min(oldest, since))


def _last(page: Sequence[Message]) -> int:
    return max(message.sequence_number or 0 for message in page)
