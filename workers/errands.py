"""Tasks that are carried out for operators: deletions, drains, dead-letter jobs, drills and notifications of alerts.

A tick starts a task for each row that is due; the worker that claims the row carries it out for a slice of time.
"""

import threading
from datetime import UTC, datetime

from dashboard.alerts import rounds
from dashboard.alerts.sending import delivery
from dashboard.backlog import deletions
from dashboard.backlog.dead_letter_run import CLAIM_S, DeadLetterRun
from dashboard.backlog.drain import CLAIM_S as DRAIN_CLAIM_S
from dashboard.backlog.drain import Drain
from dashboard.drills import hands
from dashboard.drills.actions import START_DRILL
from dashboard.models import DeadLetterJob, Drill, QueueDeletion, QueueDrain
from dashboard.site.redis import announce_change
from workers.celery import SLICE_S, app
from workers.connections import client, outages_reported, pairs
from workers.slices import one_at_a_time, slice_of


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
            START_DRILL.begin_if_due(name, config.drill.entity, config.drill.every_days, now)


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
