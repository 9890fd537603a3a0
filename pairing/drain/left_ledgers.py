"""Ledgers that processes leave to their successors: what they did while Redis did not answer, and somebody else took
their lease.

Such a process cannot store its ledger any more, because its successor stores the queue's. It leaves it here instead;
the successor merges it into its own and then removes it. Merging it twice has no effect, so a crash in between loses
nothing. Blocking; every call may raise ``redis.RedisError``.
"""

import json
from typing import TYPE_CHECKING, Any, cast

from pairing.drain.ledger import Ledger, same_queue

if TYPE_CHECKING:
    from pairing.fleet.shared_state import SharedState


class LeftLedgers:
    """Those of one backlog queue."""

    def __init__(self, shared: "SharedState", queue: str) -> None:
        self._redis, self._key = shared.redis, f"pairing:{{{shared.pair}}}:left-ledgers:{queue}"

    def leave(self, ledger: str) -> None:
        """Leave a ledger, as JSON, to the process that has the lease now."""
        self._redis.rpush(self._key, ledger)

    def absorb_into(self, ledger: Ledger) -> int:
        """Merge those of the same queue; returns how many there are, to be removed after the ledger is stored."""
        left = cast("list[Any]", self._redis.lrange(self._key, 0, -1))
        for text in left:
            other = Ledger.from_json(json.loads(text))
            if same_queue(ledger.created_at, other.created_at):
                ledger.absorb(other)
        return len(left)

    def remove(self, count: int) -> None:
        """Remove the first ones, which are part of the stored ledger now."""
        if count:
            self._redis.ltrim(self._key, count, -1)
