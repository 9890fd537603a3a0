"""What became of every message of a backlog queue, by the broker's own sequence numbers: the proof that none was lost.

Sequence numbers rise without gaps (docs/specification.md, section 8), of a partitioned queue within each partition,
which the upper 16 bits name. So of all numbers from the first seen to the highest each must be accounted for.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

Fate = Literal["restored", "dead_lettered", "expired", "discarded", "set_aside"]
FATES: tuple[Fate, ...] = ("restored", "dead_lettered", "expired", "discarded", "set_aside")

_PARTITION_BITS = 48


class Ranges:
    """A set of numbers, kept as ranges: small where they are dense."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for first, last in ranges:
            self.add(first, last)

    def add(self, first: int, last: int | None = None) -> None:
        """Adds a number, or all from ``first`` to ``last``."""
        end = first if last is None else last
        if self._ends and first == self._ends[-1] + 1:  # the usual case: the next number
            self._ends[-1] = end
            return
        low = bisect_right(self._ends, first - 2)
        high = bisect_right(self._starts, end + 1)
        if low < high:
            first, end = min(first, self._starts[low]), max(end, self._ends[high - 1])
        self._starts[low:high], self._ends[low:high] = [first], [end]

    def outside(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The parts of a range that are not in the set."""
        for start, end in self:
            if first < start <= last:
                yield first, start - 1
            first = max(first, end + 1) if start <= last else first
        if first <= last:
            yield first, last

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._starts, number) - 1
        return at >= 0 and number <= self._ends[at]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._starts, self._ends, strict=True))

    def __len__(self) -> int:
        """How many numbers there are."""
        return sum(self._ends) - sum(self._starts) + len(self._starts)


@dataclass(frozen=True, slots=True)
class Balance:
    """The books of a queue at one moment."""

    enqueued: int
    """Messages from the first number seen to the highest."""
    fates: dict[Fate, int]
    still_there: int
    """Active and deferred, by the broker's counts."""

    @property
    def missing(self) -> int:
        """0 where every message is accounted for; any difference is shown as such."""
        return self.enqueued - sum(self.fates.values()) - self.still_there


class Ledger:
    """The books of one backlog queue, from the first sequence number seen on.

    ``queue`` and ``created_at`` identify it: a queue that was created anew counts from 1 again.
    """

    def __init__(self, queue: str, created_at: str = "") -> None:
        self.queue, self.created_at = queue, created_at
        self._first: dict[int, int] = {}
        self._highest: dict[int, int] = {}
        self._ranges: dict[Fate, Ranges] = {fate: Ranges() for fate in FATES}
        self.pending: dict[int, Fate] = {}
        """What is about to leave the queue, or was and no answer said so: settled by looking whether it is there."""

    def intend(self, number: int, fate: Fate) -> None:
        """A message is about to be settled: known before it is, so that a crash in between leaves no riddle."""
        self.pending[number] = fate

    def see(self, number: int) -> None:
        """A message was received or peeked."""
        partition = number >> _PARTITION_BITS
        self._first[partition] = min(number, self._first.get(partition, number))
        self._highest[partition] = max(number, self._highest.get(partition, number))

    def close(self, number: int, fate: Fate) -> None:
        """A message has left the queue for good; of two fates the first stands (a lock may be lost in between)."""
        self.see(number)
        self.pending.pop(number, None)
        if not any(number in ranges for ranges in self._ranges.values()):
            self._ranges[fate].add(number)

    def absorb(self, other: "Ledger") -> None:
        """Takes over what another syphon of the queue has kept; what both know stays as it is here."""
        for number in (*other._first.values(), *other._highest.values()):
            self.see(number)
        for fate, ranges in other._ranges.items():
            known = self._closed()
            for first, last in ranges:
                for start, end in known.outside(first, last):
                    self._ranges[fate].add(start, end)
        closed = self._closed()
        self.pending = {number: fate for number, fate in (other.pending | self.pending).items() if number not in closed}

    def _closed(self) -> Ranges:
        return Ranges(pair for ranges in self._ranges.values() for pair in ranges)

    def count(self, fate: Fate) -> int:
        """How many messages met this fate."""
        return len(self._ranges[fate])

    def gaps(self, most: int = 1000) -> list[int]:
        """The numbers between the first and the highest that are of no fate yet; the first so many of them."""
        found: list[int] = []
        for partition, first in self._first.items():
            at = first
            for start, end in self._closed():
                if start >> _PARTITION_BITS == partition:
                    found += range(at, min(start, at + most))
                    at = max(at, end + 1)
            found += range(at, min(self._highest[partition] + 1, at + most))
        return found[:most]

    def balance(self, still_there: int) -> Balance:
        """The books, given how many messages the broker says are still there."""
        enqueued = sum(self._highest[partition] - first + 1 for partition, first in self._first.items())
        return Balance(enqueued, {fate: len(ranges) for fate, ranges in self._ranges.items()}, still_there)

    def to_json(self) -> dict[str, Any]:
        """The books, as JSON takes them."""
        return {
            "queue": self.queue,
            "created_at": self.created_at,
            "first": sorted(self._first.values()),
            "highest": sorted(self._highest.values()),
            "pending": sorted(self.pending.items()),
            **{fate: [list(pair) for pair in ranges] for fate, ranges in self._ranges.items()},
        }

    @classmethod
    def from_json(cls, books: dict[str, Any]) -> "Ledger":
        """The books that ``to_json`` wrote."""
        ledger = cls(books["queue"], books["created_at"])
        for number in (*books["first"], *books["highest"]):
            ledger.see(number)
        for fate in FATES:
            ledger._ranges[fate] = Ranges((first, last) for first, last in books[fate])
        ledger.pending = dict(books["pending"])
        return ledger
