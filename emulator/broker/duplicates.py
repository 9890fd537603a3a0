"""Duplicate detection: which message ids were seen within the window."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable


class DuplicateHistory:
    """Message ids and when they were first seen, oldest first. Memory is bounded by the window."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def contains(self, message_id: str, window_s: float, now: float) -> bool:
        """Whether this id was seen less than a window ago. A repetition does not prolong the window."""
        self._forget(now - window_s)
        return message_id in self._seen

    def remember(self, message_id: str, seen_at: float) -> None:
        """Keep an id. Times must not go back."""
        self._seen[message_id] = seen_at

    def restore(self, entries: Iterable[tuple[str, float]]) -> None:
        """Take what a store kept, in any order."""
        for message_id, seen_at in sorted(entries, key=lambda entry: entry[1]):
            self._seen[message_id] = seen_at

    def _forget(self, until: float) -> None:
        while self._seen:
            message_id, seen_at = next(iter(self._seen.items()))
            if seen_at > until:
                return
            del self._seen[message_id]
