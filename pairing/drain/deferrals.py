"""The deferred messages known to a syphon: their destinations, and which of them can be fetched now. Pure."""

import heapq
from collections.abc import Callable


class Deferrals:
    """Sequence numbers of deferred messages, by destination."""

    def __init__(self) -> None:
        self._paths: dict[int, str] = {}
        self._not_before: dict[str, dict[int, float]] = {}

    def __len__(self) -> int:
        return len(self._paths)

    def __contains__(self, number: int) -> bool:
        return number in self._paths

    def paths(self) -> list[str]:
        """The destinations of deferred messages."""
        return list(self._not_before)

    def note(self, number: int, path: str, not_before: float = 0.0) -> None:
        """A message is deferred, and must not be fetched before that time."""
        self._paths[number] = path
        self._not_before.setdefault(path, {})[number] = not_before

    def postpone(self, number: int, not_before: float) -> None:
        """The message must not be fetched before that time."""
        self.note(number, self._paths[number], not_before)

    def forget(self, number: int) -> None:
        """The message does not exist any more."""
        path = self._paths.pop(number, None)
        if path is not None:
            del self._not_before[path][number]
            if not self._not_before[path]:
                del self._not_before[path]

    def waiting(self, path: str, now: float) -> list[int]:
        """The messages for this entity that could be fetched if it had room; newer ones must not overtake them."""
        return [number for number, not_before in self._not_before.get(path, {}).items() if not_before <= now]

    def due(
        self, now: float, most: int, room: Callable[[str, int], int], in_turn: Callable[[list[int]], list[int]] = list
    ) -> list[int]:
        """The oldest messages that can be sent now; ``room`` returns how many of a number an entity accepts.

        ``in_turn`` selects those without an older message of their session.
        """
        found: list[int] = []
        for path, numbers in self._not_before.items():
            count = room(path, min(len(numbers), most))
            if count:
                found += heapq.nsmallest(count, in_turn(self.waiting(path, now)))
        return sorted(found)[:most]
