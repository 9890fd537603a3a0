"""When the sends of a session are held back for a moment, so that its barrier can be lifted. No I/O, no clock.

A session that is written faster than its backlog is drained always has a message in the queue or in progress. Its
barrier would then stay for as long as the session is written (docs/design/session-order.md).
"""

from collections.abc import Iterable

_FIRST_LOOKS, _MOST_LOOKS = 5, 80


class Holds:
    """The sessions of one backlog queue that are nearly drained, and for how many looks they have been."""

    def __init__(self) -> None:
        self._looks: dict[str, int] = {}
        self._patience: dict[str, int] = {}

    def due(self, nearly_drained: Iterable[str], barred: Iterable[str]) -> list[str]:
        """The sessions whose sends have to wait now: nearly drained at each of the last looks, and still barred.

        The first hold comes after 5 looks, each further one behind the same barrier after twice as many, 80 at most.
        """
        keys = set(barred)
        self._patience = {key: looks for key, looks in self._patience.items() if key in keys}
        self._looks = {key: self._looks.get(key, 0) + 1 for key in nearly_drained}
        due = [key for key, looks in self._looks.items() if looks >= self._patience.get(key, _FIRST_LOOKS)]
        for key in due:
            self._looks[key] = 0
            self._patience[key] = min(2 * self._patience.get(key, _FIRST_LOOKS), _MOST_LOOKS)
        return sorted(due)
