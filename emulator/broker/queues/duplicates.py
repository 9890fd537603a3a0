"""Duplicate detection: the message ids seen within the history window."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable


class DuplicateHistory:
    """Message ids and when they were first seen, oldest first. Older ids are removed."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def contains(self, message_id: str, window_s: float, now: float) -> bool:
        """Whether this id was seen less than a window ago. A duplicate does not extend the window."""
        self._forget(now - window_s)
        return message_id in self._seen

    def remember(self, message_id: str, seen_at: float) -> None:
        """Record an id. Times must not decrease."""
        self._seen[message_id] = seen_at

    def restore(self, entries: Iterable[tuple[str, float]]) -> None:
        """Put entries back from a store, in any order."""
        for message_id, seen_at in sorted(entries, key=lambda entry: entry[1]):
            self._seen[message_id] = seen_at

    def _forget(self, until: float) -> None:
        while self._seen:
            message_id, seen_at = next(iter(self._seen.items()))
            if seen_at > until:
                return
            del self._seen[message_id]
