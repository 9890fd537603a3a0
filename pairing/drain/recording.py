"""Whether what a drain does is on record: a process that is killed takes along what its stored ledger does not contain.

Such messages have arrived, but nothing shows it, and they are reported as missing. So a drain rests while its ledger
cannot be stored, for as long as an outage of Redis usually lasts. After that it continues, because messages that wait
are worse than a ledger that may have a gap.
"""

from collections.abc import Callable
from typing import Final

from pairing.drain.backlog_queue import BacklogQueue, Kept
from pairing.drain.ledger import Ledger
from pairing.drive import Operation

PATIENCE_S: Final = 60.0
"""For how long a drain rests while Redis does not answer."""


class Recording:
    """Stores the ledger of one drain, and knows whether messages may be sent meanwhile."""

    def __init__(self, queue: BacklogQueue, ledger: Ledger, now: Callable[[], float]) -> None:
        self.is_refused = False
        """Whether another syphon has taken the queue over since."""
        self._queue, self._ledger, self._now = queue, ledger, now
        self._failing_since: float | None = None

    def store(self) -> Operation[bool]:
        """Store the ledger; False if another syphon has taken over the queue."""
        kept = yield from self._queue.keep(self._ledger)
        self.is_refused = kept is Kept.REFUSED
        if kept is Kept.STORED:
            self._failing_since = None
        elif self._failing_since is None:
            self._failing_since = self._now()
        return not self.is_refused

    def may_send(self) -> bool:
        """Whether the ledger could be stored last time, or has not been for so long that messages wait no more."""
        return self._failing_since is None or self._now() - self._failing_since >= PATIENCE_S
