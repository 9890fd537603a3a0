"""Due times: when locks lapse, messages expire or become active, and session locks end."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

NEVER = float("inf")


class Schedule(Generic[Key]):
    """Keys with due times (unix seconds). Setting a key again moves it; memory is proportional to the keys set."""

    __slots__ = ("_counter", "_due", "_heap")

    def __init__(self) -> None:
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._counter = 0

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: Key) -> bool:
        return key in self._due

    def set(self, key: Key, due: float) -> None:
        """Make `key` due at this time instead of any earlier setting."""
        self._counter += 1  # the second element of an entry, as keys need not be comparable
        self._due[key] = due
        heapq.heappush(self._heap, (due, self._counter, key))
        if len(self._heap) > 2 * len(self._due) + 64:
            self._compact()

    def discard(self, key: Key) -> None:
        """Remove `key`, if it is set."""
        if self._due.pop(key, None) is not None and len(self._heap) > 2 * len(self._due) + 64:
            self._compact()

    def next_due(self) -> float:
        """When something is due next; infinity if never."""
        heap, due = self._heap, self._due
        while heap and due.get(heap[0][2]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else NEVER

    def take_due(self, now: float) -> Iterator[Key]:
        """Each key due by `now`, earliest first, removed as it is returned."""
        while self._due and self.next_due() <= now:
            key = heapq.heappop(self._heap)[2]
            del self._due[key]
            yield key

    def _compact(self) -> None:
        self._heap = [(due, count, key) for due, count, key in self._heap if self._due.get(key) == due]
        heapq.heapify(self._heap)
