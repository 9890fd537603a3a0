"""What operators have made of dead letters, told to whoever keeps the books of their queue.

A worker that sent a dead letter home, or discarded it, leaves word here; the syphon of the queue enters it and then
lets go of it. Entering twice changes nothing, so a crash in between loses nothing. Blocking; every call may raise
``redis.RedisError``.
"""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast, get_args

from pairing.drain.ledger import Ledger, Verdict
from pairing.fleet.reading import reading, skipped

if TYPE_CHECKING:
    from pairing.fleet.shared_state import SharedState


class SharedVerdicts:
    """Of one backlog queue."""

    def __init__(self, shared: "SharedState", queue: str) -> None:
        self._redis, self._key = shared.redis, f"pairing:{{{shared.pair}}}:verdicts:{queue}"

    def tell(self, verdict: Verdict, numbers: Iterable[int]) -> None:
        """These dead letters have left the queue for good."""
        self._redis.rpush(self._key, json.dumps([verdict, list(numbers)]))

    def enter(self, ledger: Ledger) -> int:
        """Enter in the books what was told; how many words that were, to be let go once the books are kept."""
        told = cast("list[Any]", self._redis.lrange(self._key, 0, -1))
        for text in told:
            try:
                verdict, numbers = _word(text)
            except ValueError as error:
                skipped(self._key, "a word", error)
                continue
            for number in numbers:
                ledger.amend(number, verdict)
        return len(told)

    def let_go(self, words: int) -> None:
        """The first so many words stand in the books now."""
        if words:
            self._redis.ltrim(self._key, words, -1)


def _word(written: str | bytes) -> tuple[Verdict, list[int]]:
    with reading("a verdict"):
        verdict, numbers = json.loads(written)
        if verdict not in get_args(Verdict) or not all(type(number) is int for number in numbers):
            raise ValueError("not a verdict: nothing that can become of a dead letter")
        return verdict, numbers
