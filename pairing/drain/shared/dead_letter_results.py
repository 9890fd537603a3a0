"""Decisions of operators about dead letters, reported to the syphon that keeps the ledger of the queue.

A worker that sent a dead letter to the primary, or discarded it, stores the decision here; the syphon of the queue
applies it to its ledger and then removes it. Applying it twice has no effect, so a crash in between loses nothing.
Blocking; every call may raise ``redis.RedisError``.
"""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from pairing.drain.ledger import Decision, Ledger

if TYPE_CHECKING:
    from pairing.fleet.shared_state import SharedState


class SharedDecisions:
    """The decisions for one backlog queue."""

    def __init__(self, shared: "SharedState", queue: str) -> None:
        self._redis, self._key = shared.redis, f"pairing:{{{shared.pair}}}:dead_letter_results:{queue}"

    def report(self, decision: Decision, numbers: Iterable[int]) -> None:
        """These dead letters have left the queue permanently."""
        self._redis.rpush(self._key, json.dumps([decision, list(numbers)]))

    def apply(self, ledger: Ledger) -> int:
        """Apply the reports to the ledger; returns their number, to be removed after the ledger is stored."""
        reports = cast("list[Any]", self._redis.lrange(self._key, 0, -1))
        for text in reports:
            decision, numbers = json.loads(text)
            for number in numbers:
                ledger.amend(number, decision)
        return len(reports)

    def remove(self, reports: int) -> None:
        """Remove the first reports, which are part of the stored ledger now."""
        if reports:
            self._redis.ltrim(self._key, reports, -1)
