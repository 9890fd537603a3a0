"""The ledger of a backlog queue by sequence numbers: the outcome of every message, and the proof that none was lost.

Sequence numbers increase without gaps (docs/specification.md, section 8), within each partition of a partitioned queue,
which is in their upper 16 bits. So every number from the first to the highest one seen must be accounted for.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

Fate = Literal["restored", "dead_lettered", "expired", "discarded", "set_aside"]
Decision = Literal["restored", "discarded"]
"""The decisions of operators about a dead letter."""
FATES: tuple[Fate, ...] = ("restored", "dead_lettered", "expired", "discarded", "set_aside")

_REVISABLE: tuple[Fate, ...] = ("dead_lettered", "expired", "set_aside")
_PARTITION_BITS = 48
_MOST_INCIDENTS = 50


class Ranges:
    """A set of numbers, stored as ranges: small if they are dense."""

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

    def remove(self, number: int) -> None:
        """Takes a number of the set out of it."""
        at = bisect_right(self._starts, number) - 1
        first, last = self._starts[at], self._ends[at]
        parts = [(start, end) for start, end in ((first, number - 1), (number + 1, last)) if start <= end]
        self._starts[at : at + 1], self._ends[at : at + 1] = [start for start, _ in parts], [end for _, end in parts]

    def outside(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The parts of a range that are not in the set."""
        for start, end in self:
            if first < start <= last:
                yield first, start - 1
            first = max(first, end + 1) if start <= last else first
        if first <= last:
            yield first, last

    def within(self, first: int, last: int) -> int:
        """How many numbers of the set lie between these two, both included."""
        low, high = bisect_right(self._ends, first - 1), bisect_right(self._starts, last)
        parts = zip(self._starts[low:high], self._ends[low:high], strict=True)
        return sum(min(end, last) - max(start, first) + 1 for start, end in parts)

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
    """The sums of a queue's ledger at one moment."""

    enqueued: int
    """Messages from the first number seen to the highest."""
    fates: dict[Fate, int]
    still_there: int
    """Active and deferred, by the broker's counts."""

    @property
    def missing(self) -> int:
        """0 if every message is accounted for; any difference is shown."""
        return self.enqueued - sum(self.fates.values()) - self.still_there


@dataclass(slots=True)
class Incident:
    """One filling of a backlog queue, from the first message until the queue was drained."""

    began_at: str
    """The enqueue time of its first message, of the broker; ISO 8601, empty if unknown."""
    ended_at: str | None = None
    """When the syphon found the queue empty; None until then."""
    bounds: dict[int, tuple[int, int]] = field(default_factory=dict)
    """First and last sequence number, by partition."""

    def extend(self, first: int, last: int) -> None:
        """Messages of the incident."""
        partition = first >> _PARTITION_BITS
        low, high = self.bounds.get(partition, (first, last))
        self.bounds[partition] = min(low, first), max(high, last)

    def holds(self, number: int) -> bool:
        """Whether a message belongs to it, as far as known."""
        low, high = self.bounds.get(number >> _PARTITION_BITS, (1, 0))
        return low <= number <= high


def same_queue(one: str, other: str) -> bool:
    """Whether these creation times belong to one queue; if one is unknown, the ledger is kept."""
    return not one or not other or one == other


class Ledger:
    """The outcomes of one backlog queue's messages, from the first sequence number seen on.

    ``queue`` and ``created_at`` identify it: a queue that was deleted and created again starts at 1.
    """

    def __init__(self, queue: str, created_at: str = "") -> None:
        self.queue, self.created_at = queue, created_at
        self._first: dict[int, int] = {}
        self._highest: dict[int, int] = {}
        self._ranges: dict[Fate, Ranges] = {fate: Ranges() for fate in FATES}
        self._revised = Ranges()  # messages whose outcome was decided by an operator, not by the syphon
        self.pending: dict[int, Fate] = {}
        """Messages about to be settled, or settled without a known answer, and their outcomes if they are gone."""
        self.attempts: dict[int, int] = {}
        """How often each present message was rejected permanently; kept across restarts."""
        self.incidents: list[Incident] = []
        """The last fifty, the oldest first."""
        self.reporter = ""
        """The process that stored this ledger last."""
        self.recent: dict[str, dict[str, int]] = {}
        """Messages moved in the last two minutes, by minute and entity, to estimate usage if the process dies."""

    def see(self, number: int, enqueued_at: datetime | None = None) -> None:
        """A message was received or peeked."""
        self._span(number)
        last = self.incidents[-1] if self.incidents else None
        if last is None or (last.ended_at is not None and not last.holds(number)):
            last = Incident(enqueued_at.isoformat(timespec="milliseconds") if enqueued_at else "")
            self.incidents = [*self.incidents, last][-_MOST_INCIDENTS:]
        last.extend(number, number)
        last.ended_at = None  # a message locked by another receiver looked as if it was gone

    def drained(self, at: datetime) -> bool:
        """The queue is empty, so the filling ends. False if there was none."""
        if not self.incidents or self.incidents[-1].ended_at is not None:
            return False
        self.incidents[-1].ended_at = at.isoformat(timespec="milliseconds")
        return True

    def used(self, paths: Iterable[str], at: datetime) -> None:
        """Messages were moved to these entities."""
        minute = at.replace(second=0, microsecond=0).isoformat()
        counts = self.recent.setdefault(minute, {})
        for path in paths:
            counts[path] = counts.get(path, 0) + 1
        while len(self.recent) > 2:
            del self.recent[min(self.recent)]

    def _span(self, number: int) -> None:
        partition = number >> _PARTITION_BITS
        self._first[partition] = min(number, self._first.get(partition, number))
        self._highest[partition] = max(number, self._highest.get(partition, number))

    def close(self, number: int, fate: Fate) -> None:
        """A message has left the queue permanently; of two outcomes the first is kept (locks may be lost)."""
        self._span(number)
        self.pending.pop(number, None)
        self.attempts.pop(number, None)
        if not any(number in ranges for ranges in self._ranges.values()):
            self._ranges[fate].add(number)

    def amend(self, number: int, decision: Decision) -> None:
        """A dead letter was sent to the primary after all, or discarded; ignored for other messages."""
        for fate in _REVISABLE:
            if number in self._ranges[fate]:
                self._ranges[fate].remove(number)
                self._ranges[decision].add(number)
                self._revised.add(number)

    def _amend_as(self, other: "Ledger") -> None:
        for first, last in other._revised:
            for number in range(first, last + 1):
                self.amend(number, "restored" if number in other._ranges["restored"] else "discarded")

    def absorb(self, other: "Ledger") -> None:
        """Merge another syphon's ledger of the queue; common entries stay, except for decisions of operators."""
        self._amend_as(other)
        for number in (*other._first.values(), *other._highest.values()):
            self._span(number)
        self.created_at = self.created_at or other.created_at
        for fate, ranges in other._ranges.items():
            known = self._closed()
            for first, last in ranges:
                for start, end in known.outside(first, last):
                    self._ranges[fate].add(start, end)
        closed = self._closed()
        self.pending = {number: fate for number, fate in (other.pending | self.pending).items() if number not in closed}
        tried = other.attempts | self.attempts
        self.attempts = {number: count for number, count in tried.items() if number not in closed}
        self._absorb_incidents(other.incidents)

    def _absorb_incidents(self, others: list[Incident]) -> None:
        ours = {incident.began_at: incident for incident in self.incidents}
        for other in others:
            mine = ours.setdefault(other.began_at, other)
            for first, last in other.bounds.values():
                mine.extend(first, last)
            mine.ended_at = mine.ended_at or other.ended_at
        self.incidents = sorted(ours.values(), key=lambda one: (one.ended_at is None, one.began_at))[-_MOST_INCIDENTS:]

    def _closed(self) -> Ranges:
        return Ranges(pair for ranges in self._ranges.values() for pair in ranges)

    def count(self, fate: Fate) -> int:
        """The number of messages with this outcome."""
        return len(self._ranges[fate])

    def gaps(self, most: int = 1000) -> list[int]:
        """The first numbers between the lowest and the highest one that have no outcome yet."""
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
        """The sums, given the broker's count of messages that are still there."""
        enqueued = sum(self._highest[partition] - first + 1 for partition, first in self._first.items())
        return Balance(enqueued, {fate: len(ranges) for fate, ranges in self._ranges.items()}, still_there)

    def balance_of(self, incident: Incident, still_there: int = 0) -> Balance:
        """The sums of one filling; of a past one, nothing is still there."""
        bounds = incident.bounds.values()
        fates = {fate: sum(ranges.within(*pair) for pair in bounds) for fate, ranges in self._ranges.items()}
        return Balance(sum(last - first + 1 for first, last in bounds), fates, still_there)

    def _incident_json(self, incident: Incident) -> dict[str, Any]:
        balance = self.balance_of(incident)
        return {
            "began_at": incident.began_at,
            "ended_at": incident.ended_at,
            "bounds": sorted(incident.bounds.values()),
            "enqueued": balance.enqueued,
            "fates": balance.fates,
            "missing": balance.missing if incident.ended_at else None,
        }

    def to_json(self) -> dict[str, Any]:
        """The ledger, as JSON takes it."""
        return {
            "queue": self.queue,
            "created_at": self.created_at,
            "first": sorted(self._first.values()),
            "highest": sorted(self._highest.values()),
            "pending": sorted(self.pending.items()),
            "attempts": sorted(self.attempts.items()),
            "reporter": self.reporter,
            "recent": self.recent,
            "revised": [list(pair) for pair in self._revised],
            "incidents": [self._incident_json(incident) for incident in self.incidents],
            **{fate: [list(pair) for pair in ranges] for fate, ranges in self._ranges.items()},
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Ledger":
        """The ledger that ``to_json`` wrote."""
        ledger = cls(record["queue"], record["created_at"])
        for number in (*record["first"], *record["highest"]):
            ledger._span(number)
        for fate in FATES:
            ledger._ranges[fate] = Ranges((first, last) for first, last in record[fate])
        ledger._revised = Ranges((first, last) for first, last in record.get("revised", ()))
        ledger.pending = dict(record["pending"])
        ledger.reporter, ledger.recent = record.get("reporter", ""), dict(record.get("recent", {}))
        ledger.attempts = dict(record.get("attempts", ()))
        for incident_record in record.get("incidents", ()):
            ledger.incidents.append(incident := Incident(incident_record["began_at"], incident_record["ended_at"]))
            for first, last in incident_record["bounds"]:
                incident.extend(first, last)
        return ledger
