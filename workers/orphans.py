"""Orphan backlog queues: found by the sampler, drained and deleted by the worker that claims the due row."""

import threading
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from azure.core.exceptions import AzureError
from azure.servicebus.management import ServiceBusAdministrationClient

from dashboard.backlog import deletions
from dashboard.fleet.pairs_file import PairConfig
from dashboard.models import QueueDeletion, QueueDrain
from dashboard.site.redis import announce_change
from pairing import PairedServiceBusClient, Syphon
from pairing.backlog.administration import BacklogQueueInfo, describe_queues, listed
from pairing.backlog.rotation import parse_backlog_path
from workers.celery import SLICE_S, app
from workers.connections import client, outages_reported, pairs
from workers.slices import slice_of

CLAIM_S = 30.0
LOOK_S = 1.0
QUIET_LOOKS = 3  # consecutive empty counts before a drain is done, since counts are delayed


def all_backlog_queues(administration: ServiceBusAdministrationClient, pair: PairConfig) -> list[BacklogQueueInfo]:
    """A pair's backlog queues, and those of primaries that are no longer paired with this secondary.

    The latter are listed with the first pair of the secondary, so that they are listed once.
    """
    described = {queue.name: queue for queue in listed(administration.list_queues())}
    counted = listed(administration.list_queues_runtime_properties())
    neighbours = [one for one in pairs().values() if one.secondary.namespace == pair.secondary.namespace]
    namespaces = [pair.primary.namespace]
    if neighbours and neighbours[0].name == pair.name:
        namespaces += unpaired(described, (one.primary.namespace for one in neighbours))
    return [info for name in namespaces for info in describe_queues(described, counted, name)]


def unpaired(paths: Iterable[str], paired: Iterable[str]) -> list[str]:
    """The primaries in names of backlog queues that are not paired. Pure."""
    known = {name.lower() for name in paired}
    parsed = (parse_backlog_path(path) for path in paths)
    return sorted({found[0].lower() for found in parsed if found} - known)


@app.task(name="backlog.due")
def due() -> None:
    """Start a task for each due deletion and drain."""
    now = datetime.now(UTC)
    for row in deletions.due(now):
        carry_on.apply_async((row.pk,), expires=5)
    for drain in QueueDrain.unclaimed(now).select_related("pair"):
        drain_queue.apply_async((drain.pk,), expires=5)


@app.task(name="backlog.carry_on")
def carry_on(key: int) -> None:
    """Continue one deletion."""
    for row in QueueDeletion.open_ones().filter(pk=key).select_related("pair"):
        deletions.carry_on(row, datetime.now(UTC))


@app.task(name="backlog.bring_home")
def drain_queue(key: int) -> None:
    """Drain one orphan for a slice of time; the next tick continues."""
    with slice_of(f"drain {key}", SLICE_S, room="errands") as stop:
        row = QueueDrain.open_ones().filter(pk=key).select_related("pair").first()
        if stop is None or row is None or not row.claim(datetime.now(UTC), CLAIM_S):
            return
        with outages_reported("drain", row.pair.name):
            Drain(row, client(row.pair.name), stop).run()
        row.lay_down()


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
