"""What a drain knows of its backlog queue: its progress and ledger, and which of its messages are deferred."""

from collections.abc import Callable

from pairing.drain.backlog_queue import BacklogQueue, Item, Progress
from pairing.drain.deferrals import Deferrals
from pairing.drain.recording import Recording


class QueueState:
    """Shared by the parts of one drain."""

    def __init__(self, operations: BacklogQueue, progress: Progress, now: Callable[[], float]) -> None:
        self.operations = operations
        self.progress = progress
        self.ledger = progress.ledger
        self.recording = Recording(operations, progress.ledger, now)
        self.deferred = Deferrals()
        self.scanned_at: float | None = None
        """When the queue was last searched for deferred messages; None: to be done as soon as there is time."""
        self.unnumbered = 0
        """How many messages were settled whose sequence numbers are unknown, as they could not be decoded."""
        self.is_paced = False
        """Whether messages wait for the pace of their destination while others pass."""

    def count_deferred(self) -> None:
        """Show how many are deferred."""
        self.progress.deferred = len(self.deferred)

    def forget(self, number: int) -> None:
        """The message has left the queue."""
        self.deferred.forget(number)
        self.ledger.attempts.pop(number, None)
        self.is_paced = self.is_paced and len(self.deferred) > 0
        self.count_deferred()

    def attempt(self, item: Item) -> int:
        """One more attempt to send the message; how many there were."""
        attempts = self.ledger.attempts[item.number] = self.ledger.attempts.get(item.number, 0) + 1
        return attempts
