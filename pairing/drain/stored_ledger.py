"""The books of one backlog queue in Redis: read when a syphon begins, kept as it goes, fenced against who came before.

Without coordination they are in memory only. With Redis away they are kept there until it answers; what was kept in
Redis meanwhile is then added, never written over.
"""

import json
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from pairing.drain.dead_letter_results import SharedVerdicts
from pairing.drain.ledger import Ledger
from pairing.fleet.reading import reading, record

if TYPE_CHECKING:
    from pairing.paired import PairedClient

_VERDICTS_S = 5.0
"""How often the books look for verdicts while they are kept."""

_LOGGER = logging.getLogger("pairing")


class Books:
    """Where the ledger of a queue is kept while one syphon serves it under a lease with this fencing token."""

    def __init__(
        self, client: "PairedClient", queue: str, created_at: str, token: int | None, holds: Callable[[], bool]
    ) -> None:
        self._coordination = client.coordination
        self._shared = self._coordination.shared if self._coordination is not None else None
        self._queue, self._created_at, self._token = queue, created_at, token
        self._process, self._holds = client.process, holds
        self._is_read = self._shared is None
        self._verdicts = None if self._shared is None else SharedVerdicts(self._shared, queue)
        self._entered_at = float("-inf")

    def read(self) -> Ledger:
        """The books as the last syphon of this queue kept them; new ones for a queue created anew. May take 2 s."""
        ledger = Ledger(self._queue, self._created_at)
        try:
            kept = self._kept()
        except Exception:  # Redis does not answer
            return ledger
        if kept is None:
            return ledger
        kept.created_at = kept.created_at or self._created_at
        return kept

    def keep(self, ledger: Ledger) -> bool:
        """Keeps the books, where Redis answers; False where a later syphon keeps them by now. May take 2 s.

        Where Redis does not answer, ``holds`` decides: what this process can know of its lease by itself.
        """
        if self._shared is None:
            return True
        if not getattr(self._coordination, "is_connected", True):
            return self._holds()
        try:
            if not self._is_read and (kept := self._kept()) is not None:
                ledger.absorb(kept)
            ledger.reporter = self._process
            words = self._enter_verdicts(ledger)
            books = json.dumps(ledger.to_json(), separators=(",", ":"))
            is_kept = self._shared.keep_ledger(self._queue, books, token=self._token)
            if is_kept and words and self._verdicts is not None:
                self._verdicts.let_go(words)
            return is_kept
        except Exception:
            return self._holds()

    def _enter_verdicts(self, ledger: Ledger) -> int:
        now = time.monotonic()
        if self._verdicts is None or now - self._entered_at < _VERDICTS_S:
            return 0
        self._entered_at = now
        return self._verdicts.enter(ledger)

    def _kept(self) -> Ledger | None:
        if self._shared is None:
            return None
        text = self._shared.ledger(self._queue)
        self._is_read = True
        if text is None:
            return None
        try:
            with reading("the books of a queue"):
                ledger = Ledger.from_json(record(text))
        except ValueError:
            _LOGGER.warning("pairing: the books of %s cannot be read; new ones begin", self._queue)
            return None
        return ledger if same_queue(ledger.created_at, self._created_at) else None


def same_queue(one: str, other: str) -> bool:
    """Whether these creation times are of one queue; where one is not known, its books are not given up for that."""
    return not one or not other or one == other
