"""What is due when: locks that lapse, messages that expire or become active, sessions that are freed."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

NEVER = float("inf")


class Schedule(Generic[Key]):
    """Keys with a due time each (unix seconds). Setting a key again moves it; memory follows what is set now."""

    __slots__ = ("_due", "_heap", "_turn")

    def __init__(self) -> None:
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._turn = 0

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: Key) -> bool:
        return key in self._due

    def set(self, key: Key, due: float) -> None:
        """Make `key` due at this time, whatever it was before."""
        self._turn += 1  # the second element of an entry: keys themselves need not be comparable
        self._due[key] = due
        heapq.heappush(self._heap, (due, self._turn, key))
        if len(self._heap) > 2 * len(self._due) + 64:
            self._compact()

    def discard(self, key: Key) -> None:
        """Forget `key`, if it is there."""
        if self._due.pop(key, None) is not None and len(self._heap) > 2 * len(self._due) + 64:
            self._compact()

    def next_due(self) -> float:
        """When something is due next; infinity where nothing is."""
        heap, due = self._heap, self._due
        while heap and due.get(heap[0][2]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else NEVER

    def take_due(self, now: float) -> Iterator[Key]:
        """Each key due by `now`, earliest first, removed as it is given out."""
        while self._due and self.next_due() <= now:
            key = heapq.heappop(self._heap)[2]
            del self._due[key]
            yield key

    def _compact(self) -> None:
        self._heap = [(due, turn, key) for due, turn, key in self._heap if self._due.get(key) == due]
        heapq.heapify(self._heap)
