"""The ledger of one backlog queue in Redis: read when a syphon begins, stored periodically, fenced against
predecessors.

Without coordination it is in memory only. If Redis is unavailable, it remains in memory until Redis answers, also when
the syphon of the queue has ended meanwhile; a ledger that was stored in Redis meanwhile is then merged, never
overwritten. A process that has lost its lease meanwhile leaves its ledger to its successor.
"""

import json
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from pairing.drain.backlog_queue import Kept
from pairing.drain.ledger import Ledger, same_queue
from pairing.drain.shared.dead_letter_results import SharedDecisions
from pairing.fleet.access import redis_errors

if TYPE_CHECKING:
    from pairing.fleet.coordination import RedisCoordination
    from pairing.fleet.shared_state import SharedState

_REPORTS_S = 5.0
"""How often the decisions of operators and ledgers of predecessors are read while the ledger is stored."""

_LOGGER = logging.getLogger("pairing")


class StoredLedger:
    """The stored ledger of a queue, while one syphon serves it under a lease with this fencing token."""

    def __init__(
        self,
        coordination: "RedisCoordination",
        process: str,
        queue: str,
        created_at: str,
        token: int | None,
        holds: Callable[[], bool],
    ) -> None:
        self._coordination, self._shared, self._process = coordination, coordination.shared, process
        self._queue, self._created_at, self._token, self._holds = queue, created_at, token, holds
        self._is_read = False
        self._decisions, self._left = SharedDecisions(self._shared, queue), LeftLedgers(self._shared, queue)
        self._applied_at = float("-inf")
        self.unstored: str | None = None
        """The ledger whose last storing did not reach Redis, as JSON."""

    def read(self) -> Ledger:
        """The ledger as the last syphon of this queue stored it; a new one for a new queue. May take 2 s."""
        try:
            kept = self._kept()
        except redis_errors():
            kept = None
        ledger = kept or Ledger(self._queue)
        ledger.created_at = ledger.created_at or self._created_at
        return ledger

    def keep(self, ledger: Ledger) -> Kept:
        """Store the ledger; refused if a later syphon stores it now, which takes over what is in this one.

        May take 2 s. If Redis does not answer, ``holds`` decides by what this process knows of its lease.
        """
        if not self._coordination.is_connected:
            return self._not_stored(ledger)
        try:
            if not self._is_read and (kept := self._kept()) is not None:
                ledger.absorb(kept)
            ledger.reporter = self._process
            decisions, left = self._apply_reports(ledger)
            text = _text(ledger)
            is_kept = self._shared.keep_ledger(self._queue, text, token=self._token)
            if is_kept:
                self._decisions.remove(decisions)
                self._left.remove(left)
            else:
                self._left.leave(text)
            self._is_stored()
            return Kept.STORED if is_kept else Kept.REFUSED
        except redis_errors():
            return self._not_stored(ledger)

    def leave(self) -> bool:
        """After the drain has ended: leave what it could not store to the holder of the lease, which may be this
        process again. False if Redis still does not answer. May take 2 s.
        """
        try:
            if self.unstored is not None:
                self._left.leave(self.unstored)
        except redis_errors():
            return False
        return True

    def _not_stored(self, ledger: Ledger) -> Kept:
        if self.unstored is None:
            _LOGGER.warning("pairing: the ledger of %s cannot be stored; its drain waits for Redis", self._queue)
        self.unstored = _text(ledger)
        return Kept.IN_MEMORY if self._holds() else Kept.REFUSED

    def _is_stored(self) -> None:
        if self.unstored is not None:
            _LOGGER.warning("pairing: the ledger of %s is stored again", self._queue)
        self.unstored = None

    def _apply_reports(self, ledger: Ledger) -> tuple[int, int]:
        """Decisions of operators and ledgers of predecessors; the numbers of both, to be removed once stored."""
        now = time.monotonic()
        if now - self._applied_at < _REPORTS_S:
            return 0, 0
        self._applied_at = now
        return self._decisions.apply(ledger), self._left.absorb_into(ledger)

    def _kept(self) -> Ledger | None:
        text = self._shared.ledger(self._queue)
        self._is_read = True
        if text is None:
            return None
        ledger = Ledger.from_json(json.loads(text))
        return ledger if same_queue(ledger.created_at, self._created_at) else None


def _text(ledger: Ledger) -> str:
    return json.dumps(ledger.to_json(), separators=(",", ":"))


class LeftLedgers:
    """The ledgers that processes leave to the successor of one backlog queue.

    A process that did something while Redis did not answer, and has lost its lease meanwhile, cannot store its ledger
    any more. The successor merges what it leaves here, and then removes it; merging twice has no effect.
    """

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
