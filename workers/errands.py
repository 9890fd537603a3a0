"""Tasks that are carried out for operators: deletions, drains, dead-letter jobs, drills and notifications of alerts.

A tick starts a task for each row that is due; the worker that claims the row carries it out for a slice of time.
"""

import threading
from datetime import UTC, datetime, timedelta

from azure.core.exceptions import AzureError

from dashboard.alerts import rounds
from dashboard.alerts.sending import delivery
from dashboard.backlog import deletions
from dashboard.backlog.dead_letter_run import CLAIM_S, DeadLetterRun
from dashboard.drills import hands
from dashboard.drills.actions import begin_if_due
from dashboard.models import DeadLetterJob, Drill, QueueDeletion, QueueDrain
from dashboard.site.redis import announce_change
from pairing import PairedServiceBusClient, Syphon
from workers.celery import SLICE_S, app
from workers.connections import client, outages_reported, pairs
from workers.slices import one_at_a_time, slice_of

DRAIN_CLAIM_S = 30.0
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
        until = datetime.now(UTC) + timedelta(seconds=DRAIN_CLAIM_S)
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


@app.task(name="backlog.due")
def backlog() -> None:
    """Start a task for each due deletion and drain."""
    now = datetime.now(UTC)
    for row in deletions.due(now):
        delete.apply_async((row.pk,), expires=5)
    for drain in QueueDrain.unclaimed(now).select_related("pair"):
        drain_queue.apply_async((drain.pk,), expires=5)


@app.task(name="backlog.carry_on")
def delete(key: int) -> None:
    """Continue one deletion."""
    for row in QueueDeletion.open_ones().filter(pk=key).select_related("pair"):
        deletions.carry_on(row, datetime.now(UTC))


@app.task(name="backlog.bring_home")
def drain_queue(key: int) -> None:
    """Drain one orphan for a slice of time; the next tick continues."""
    with slice_of(f"drain {key}", SLICE_S, room="errands") as stop:
        row = QueueDrain.open_ones().filter(pk=key).select_related("pair").first()
        if stop is None or row is None or not row.claim(datetime.now(UTC), DRAIN_CLAIM_S):
            return
        with outages_reported("drain", row.pair.name):
            Drain(row, client(row.pair.name), stop).run()
        row.lay_down()


@app.task(name="backlog.dead_letters")
def dead_letters() -> None:
    """Start a task for each unclaimed job."""
    for row in DeadLetterJob.unclaimed(datetime.now(UTC)):
        carry_out.apply_async((row.pk,), expires=5)


@app.task(name="backlog.carry_out")
def carry_out(key: int) -> None:
    """Continue one job for a slice of time; the next tick continues."""
    with slice_of(f"dead letters {key}", SLICE_S, room="errands") as stop:
        row = DeadLetterJob.open_ones().filter(pk=key).select_related("pair").first()
        if stop is None or row is None or not row.claim(datetime.now(UTC), CLAIM_S):
            return
        with outages_reported("dead letters", row.pair.name):
            DeadLetterRun(row, client(row.pair.name), stop).run()
        announce_change()


@app.task(name="backlog.drills")
def drills() -> None:
    """Run each new drill in a task of its own, end those whose workers have died, and start scheduled ones."""
    now = datetime.now(UTC)
    hands.fail_abandoned(now)
    for row in Drill.open_ones().filter(claimed_by=""):
        run_drill.apply_async((row.pk,), expires=5)
    for name, config in pairs().items():
        if config.drill is not None and config.drill.every_days is not None:
            begin_if_due(name, config.drill.entity, config.drill.every_days, now)


@app.task(name="backlog.run_drill")
def run_drill(key: int) -> None:
    """Run one drill to its end."""
    with slice_of(f"drill {key}") as stop:
        row = Drill.open_ones().filter(pk=key, claimed_by="").select_related("pair").first()
        if stop is None or row is None:
            return
        if row.pair.name not in pairs():
            hands.fail(row, f"{row.pair.name} is no longer in PAIRS_FILE.")
            return
        with outages_reported("drill", row.pair.name):
            connected = client(row.pair.name)
            if row.claim(datetime.now(UTC), hands.CLAIM_S):
                hands.run(row, connected, stop)


@app.task(name="alerts.look")
@one_at_a_time("alerts", SLICE_S)
def look_for_alerts(stop: threading.Event) -> None:
    """Open and resolve alerts, and store who is to be notified."""
    if rounds.look(datetime.now(UTC)):
        announce_change()


@app.task(name="alerts.due")
def alerts() -> None:
    """Start a task for each channel with due messages."""
    for channel in delivery.due_channels(datetime.now(UTC)):
        deliver.apply_async((channel,), expires=10)


@app.task(name="alerts.deliver")
def deliver(channel: str) -> None:
    """Send the due messages of one channel, so that a slow channel does not delay others."""
    with slice_of(f"alerts to {channel}") as free:
        if free is not None and delivery.deliver(channel):
            announce_change()
