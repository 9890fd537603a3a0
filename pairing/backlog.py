"""Backlog queues: their names, and which of them a sender uses now. No I/O, no clock of its own."""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from random import Random

_MIDDLE = "x-servicebus-transfer"
_PATH = re.compile(rf"(?P<namespace>[^/]+)/{_MIDDLE}/(?P<index>0|[1-9][0-9]*)", re.IGNORECASE)
_LONGEST_PROBATION_S = 30 * 60.0
_FULL = 0.8


def backlog_path(primary_namespace: str, index: int) -> str:
    """Path of a backlog queue in the secondary namespace."""
    return f"{primary_namespace}/{_MIDDLE}/{index}"


def parse_backlog_path(path: str) -> tuple[str, int] | None:
    """The primary namespace and the index that a backlog queue's path names; None where it is no such path."""
    match = _PATH.fullmatch(path)
    return (match["namespace"], int(match["index"])) if match else None


@dataclass(slots=True)
class _Queue:
    failures: int = 0
    pulled_at: float | None = None
    returns_at: float = 0.0
    fill: float = 0.0


@dataclass(frozen=True, slots=True)
class RotationEvent:
    """What happened to one backlog queue of the rotation, in the words of an event."""

    path: str
    kind: str
    reason: str
    at: float


class Rotation:
    """The backlog queues of one paired client, shared by all of its senders.

    A queue that fails is pulled for a probation, doubled with each further failure up to 30 minutes. One that is 80 %
    full is not chosen as long as another is left.
    """

    def __init__(self, paths: Iterable[str], *, probation_s: float, random: Random | None = None) -> None:
        self._queues: dict[str, _Queue] = {path: _Queue() for path in paths}
        self._probation_s = probation_s
        self._random = random or Random()

    @property
    def paths(self) -> tuple[str, ...]:
        """Every backlog queue that was found or created."""
        return tuple(self._queues)

    def replace(self, paths: Iterable[str]) -> None:
        """The backlog queues are these; what is known of those that stay is kept."""
        self._queues = {path: self._queues.get(path, _Queue()) for path in paths}

    def usable(self, path: str | None) -> bool:
        """Whether a sender may stay with this queue."""
        queue = self._queues.get(path) if path is not None else None
        return queue is not None and queue.pulled_at is None and queue.fill < _FULL

    def choose(
        self, *, current: str | None = None, session: str | None = None, tried: Collection[str] = ()
    ) -> str | None:
        """A queue in the rotation that was not tried: the current one, a session's own, or one at random."""
        if current not in tried and session is None and self.usable(current):
            return current
        rotating = [path for path, queue in self._queues.items() if queue.pulled_at is None and path not in tried]
        open_ = [path for path in rotating if self._queues[path].fill < _FULL] or rotating
        if not open_:
            return None
        if session is not None:
            return max(open_, key=lambda path: _weight(session, path))
        return self._random.choice(open_)

    def last_resort(self, *, tried: Collection[str] = ()) -> str | None:
        """The queue that was pulled the longest ago and was not tried, for a send that has no other left."""
        pulled = {p: q.pulled_at for p, q in self._queues.items() if q.pulled_at is not None and p not in tried}
        return min(pulled, key=pulled.__getitem__, default=None)

    def failed(self, path: str, reason: str, now: float) -> list[RotationEvent]:
        """A send to the queue failed: it is out of the rotation for its probation."""
        queue = self._queues.get(path)
        if queue is None:
            return []
        was_pulled, queue.pulled_at = queue.pulled_at is not None, now
        queue.returns_at = now + min(self._probation_s * 2**queue.failures, _LONGEST_PROBATION_S)
        queue.failures += 1
        return [] if was_pulled else [RotationEvent(path, "queue_pulled", reason, now)]

    def accepted(self, path: str, now: float) -> list[RotationEvent]:
        """The queue took a message: it is trusted again."""
        queue = self._queues.get(path)
        if queue is None or queue.failures == 0:
            return []
        queue.failures = 0
        if queue.pulled_at is None:
            return []
        queue.pulled_at = None
        return [RotationEvent(path, "queue_returned", "a send was accepted", now)]

    def expire(self, now: float) -> list[RotationEvent]:
        """Let the time pass: queues whose probation is over return to the rotation."""
        due = [p for p, q in self._queues.items() if q.pulled_at is not None and now >= q.returns_at]
        for path in due:
            self._queues[path].pulled_at = None
        return [RotationEvent(path, "queue_returned", "its probation is over", now) for path in due]

    def filled(self, fills: Mapping[str, float], now: float) -> list[RotationEvent]:
        """How full the queues are, from 0 to 1; a queue that has reached 80 % is warned of once."""
        events = []
        for path, queue in self._queues.items():
            before, queue.fill = queue.fill, fills.get(path, queue.fill)
            if before < _FULL <= queue.fill:
                events.append(RotationEvent(path, "capacity_warning", f"{queue.fill:.0%} full", now))
        return events


def _weight(session: str, path: str) -> bytes:
    """Every process ranks the queues of a session alike, and a queue that leaves moves only its own sessions."""
    return hashlib.blake2b(f"{session}\0{path}".encode(), digest_size=8).digest()
