"""The names of backlog queues, and the rotation of those that a sender uses. No I/O, no clock of its own."""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from random import Random
from typing import NamedTuple

from pairing.backlog.capacity import FULL

_MIDDLE = "x-servicebus-transfer"
_PATH = re.compile(rf"(?P<namespace>[^/]+)/{_MIDDLE}/(?P<index>0|[1-9][0-9]*)", re.IGNORECASE)
_LONGEST_PROBATION_S = 30 * 60.0


def backlog_path(primary_namespace: str, index: int) -> str:
    """Path of a backlog queue in the secondary namespace."""
    return f"{primary_namespace}/{_MIDDLE}/{index}"


def parse_backlog_path(path: str) -> tuple[str, int] | None:
    """The primary namespace and the index in the path of a backlog queue; None for other paths."""
    match = _PATH.fullmatch(path)
    return (match["namespace"], int(match["index"])) if match else None


@dataclass(slots=True)
class _Queue:
    failures: int = 0
    pulled_at: float | None = None
    returns_at: float = 0.0
    fill: float = 0.0
    is_adopted: bool = False
    """Whether it was pulled because of a report of another process."""
    is_doubtful: bool = False
    """Whether it may have been deleted, which must be checked with the namespace."""
    is_missing: bool = False
    """Whether it is known to have been deleted."""
    found_at: float = -inf
    """When its namespace last had it, after a doubt."""


class RotationEvent(NamedTuple):
    """A change of one backlog queue in the rotation, with the fields of an event."""

    path: str
    kind: str
    reason: str
    at: float
    until: float | None = None
    """When the probation of a pulled queue ends."""


class Rotation:
    """The backlog queues of one paired client, shared by all of its senders.

    A queue that fails is pulled for a probation, doubled with each further failure up to 30 minutes. A queue that is 80
    % full is not chosen while another one is left.
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
        """Set the backlog queues; the state of those that remain is kept."""
        self._queues = {path: self._queues.get(path, _Queue()) for path in paths}

    @property
    def present(self) -> int:
        """The number of existing backlog queues, as far as known."""
        return sum(not queue.is_missing for queue in self._queues.values())

    @property
    def is_doubtful(self) -> bool:
        """Whether a queue may have been deleted."""
        return any(queue.is_doubtful for queue in self._queues.values())

    def doubt(self, path: str, *, is_missing: bool, began: float) -> None:
        """Note that a queue may have been deleted, by what an operation saw that ``began`` then.

        ``is_missing``: the namespace says that it does not exist.
        """
        if (queue := self._queues.get(path)) is not None and began >= queue.found_at:
            queue.is_doubtful, queue.is_missing = True, queue.is_missing or is_missing

    def found(self, paths: Collection[str], now: float) -> list[RotationEvent]:
        """The namespace has these queues: doubtful ones among them rejoin the rotation, others are missing."""
        returned = []
        for path, queue in self._queues.items():
            if path not in paths:
                queue.is_doubtful = queue.is_missing = True
            elif queue.is_doubtful:
                queue.is_doubtful, queue.is_missing, queue.found_at = False, False, now
                queue.failures, queue.is_adopted = 0, False
                if queue.pulled_at is not None:
                    queue.pulled_at = None
                    returned.append(RotationEvent(path, "queue_returned", "its namespace has it", now))
        return returned

    def usable(self, path: str | None) -> bool:
        """Whether a sender may stay with this queue."""
        queue = self._queues.get(path or "")
        return queue is not None and queue.pulled_at is None and queue.fill < FULL

    def trusts(self, path: str) -> bool:
        """Whether the queue is in the rotation and has not failed since it last accepted a message."""
        queue = self._queues.get(path)
        return queue is not None and queue.pulled_at is None and queue.failures == 0

    def choose(
        self, *, current: str | None = None, session: str | None = None, tried: Collection[str] = ()
    ) -> str | None:
        """A queue in the rotation that was not tried: the current one, that of the session, or a random one."""
        if current not in tried and session is None and self.usable(current):
            return current
        rotating = [path for path, queue in self._queues.items() if queue.pulled_at is None and path not in tried]
        open_ = [path for path in rotating if self._queues[path].fill < FULL] or rotating
        if not open_:
            return None
        if session is not None:
            return max(open_, key=lambda path: _weight(session, path))
        return self._random.choice(open_)

    def last_resort(self, *, tried: Collection[str] = ()) -> str | None:
        """The untried queue that was pulled the longest time ago, for a send without another choice."""
        pulled = {p: q.pulled_at for p, q in self._queues.items() if q.pulled_at is not None and p not in tried}
        return min(pulled, key=pulled.__getitem__, default=None)

    def failed(self, path: str, reason: str, now: float, *, began: float) -> list[RotationEvent]:
        """An operation with the queue failed: it leaves the rotation for its probation.

        One that ``began`` before the queue was pulled, or before it was found again after a doubt, is ignored, because
        many senders and the syphon meet the same incident.
        """
        queue = self._queues.get(path)
        if queue is None or began < (queue.found_at if queue.pulled_at is None else queue.pulled_at):
            return []
        was_pulled = (queue.pulled_at is not None and not queue.is_adopted) or (queue.is_missing and queue.failures > 0)
        queue.pulled_at, queue.is_adopted = now, False
        queue.returns_at = now + min(self._probation_s * 2**queue.failures, _LONGEST_PROBATION_S)
        queue.failures += 1
        return [] if was_pulled else [RotationEvent(path, "queue_pulled", reason, now, queue.returns_at)]

    def accepted(self, path: str, now: float) -> list[RotationEvent]:
        """The queue accepted a message, so it is trusted again."""
        queue = self._queues.get(path)
        if queue is None or self.trusts(path):
            return []
        was_missing = queue.is_missing
        if was_missing:
            queue.found_at = now
        queue.failures, queue.is_doubtful, queue.is_missing = 0, False, False
        if queue.pulled_at is None and not was_missing:
            return []
        queue.pulled_at, queue.is_adopted = None, False
        return [RotationEvent(path, "queue_returned", "a send was accepted", now)]

    def expire(self, now: float) -> list[RotationEvent]:
        """Apply the time: queues whose probation is over return to the rotation."""
        due = [p for p, q in self._queues.items() if q.pulled_at is not None and now >= q.returns_at]
        # Queues pulled by others are reported by their processes, and a deleted one once it exists again.
        own = [path for path in due if not (self._queues[path].is_adopted or self._queues[path].is_missing)]
        for path in due:
            self._queues[path].pulled_at, self._queues[path].is_adopted = None, False
        return [RotationEvent(path, "queue_returned", "its probation is over", now) for path in own]

    def adopt_pull(self, path: str, returns_at: float, now: float) -> None:
        """A send of another process to the queue failed: it leaves this rotation too, until that time."""
        queue = self._queues.get(path)
        if queue is not None and queue.pulled_at is None and returns_at > now:
            queue.pulled_at, queue.returns_at, queue.is_adopted = now, returns_at, True

    def adopt_return(self, path: str, now: float) -> None:
        """The queue is back in another process's rotation; a queue that failed in this process stays out."""
        queue = self._queues.get(path)
        if queue is not None and (queue.is_adopted or queue.is_doubtful):
            if queue.is_doubtful:
                queue.found_at = now
            queue.pulled_at, queue.is_adopted = None, False
            queue.is_doubtful, queue.is_missing = False, False

    def filled(self, fills: Mapping[str, float]) -> None:
        """Set the fill levels of the queues, from 0 to 1."""
        for path, queue in self._queues.items():
            queue.fill = fills.get(path, queue.fill)


def _weight(session: str, path: str) -> bytes:
    """All processes rank the queues of a session alike, and a removed queue moves only its own sessions."""
    return hashlib.blake2b(f"{session}\0{path}".encode(), digest_size=8).digest()
