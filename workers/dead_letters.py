"""Tasks of dead-letter jobs, executed by the worker that claims them (backlog/dead_letter_run.py)."""

from datetime import UTC, datetime

from dashboard.backlog.dead_letter_run import CLAIM_S, DeadLetterRun
from dashboard.models import DeadLetterJob
from dashboard.site.redis import announce_change
from workers.celery import SLICE_S, app
from workers.connections import client, outages_reported
from workers.slices import slice_of


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
