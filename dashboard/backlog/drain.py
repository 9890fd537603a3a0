"""The drain of an orphan: the syphon of a pair, restricted to one queue, until it is empty."""

import threading
from datetime import UTC, datetime, timedelta

from azure.core.exceptions import AzureError

from dashboard.models import QueueDrain
from dashboard.site.redis import announce_change
from pairing import PairedServiceBusClient, Syphon

CLAIM_S = 30.0
LOOK_S = 1.0
QUIET_LOOKS = 3  # consecutive empty counts before a drain is done, since counts are delayed


class Drain:
    """The drain of one orphan: the pair's syphon, restricted to this queue."""

    def __init__(self, row: QueueDrain, connected: PairedServiceBusClient, stop: threading.Event) -> None:
        self._row, self._connected, self._stop = row, connected, stop
        self._syphon = Syphon(connected, queues=[row.path])
        self._moved = row.moved

    def run(self) -> None:
        """Run until the queue is empty, the slice is over, or an operator has stopped the drain."""
        over = threading.Event()
        runner = threading.Thread(target=self._syphon.run, args=(over,), name="drain", daemon=True)
        runner.start()
        quiet = 0
        try:
            while runner.is_alive() and quiet < QUIET_LOOKS and not self._stop.wait(LOOK_S):
                left = self._left()
                quiet = quiet + 1 if left == 0 else 0
                if not self._keep(left):
                    return
        finally:
            over.set()
            runner.join()
        if quiet >= QUIET_LOOKS:
            self._row.keep(ended_at=datetime.now(UTC), detail="It is empty.", waiting=0, moved=self._total())
            announce_change()

    def _keep(self, left: int) -> bool:
        """Store the progress and renew the claim. False if it was stopped, or claimed by another worker."""
        announce_change()
        progress = self._syphon.progress.get(self._row.path)
        until = datetime.now(UTC) + timedelta(seconds=CLAIM_S)
        reported = progress.last_error if progress else ""
        return self._row.keep(moved=self._total(), waiting=left, claimed_until=until, detail=reported)

    def _total(self) -> int:
        progress = self._syphon.progress.get(self._row.path)
        return self._moved + (progress.moved if progress else 0)

    def _left(self) -> int:
        try:
            counted = self._connected.secondary.administration.get_queue_runtime_properties(self._row.path)
        except AzureError:
            return max(1, self._row.waiting)  # unknown counts as not empty
        self._connected.meter.count("manage", self._connected.secondary.namespace, "*", billing_units=1)
        return (counted.active_message_count or 0) + (counted.scheduled_message_count or 0)
