"""Tasks of drills: a drill belongs to the worker that claims it; scheduled ones are started here."""

from datetime import UTC, datetime

from dashboard.drills import hands
from dashboard.drills.schedule import begin_if_due
from dashboard.models import Drill
from workers.celery import app
from workers.connections import client, outages_reported, pairs
from workers.slices import slice_of


@app.task(name="backlog.drills")
def due() -> None:
    """Run each new drill in a task of its own, end those whose workers have died, and start scheduled ones."""
    now = datetime.now(UTC)
    hands.fail_abandoned(now)
    for row in Drill.open_ones().filter(claimed_by=""):
        run.apply_async((row.pk,), expires=5)
    for name, config in pairs().items():
        if config.drill is not None and config.drill.every_days is not None:
            begin_if_due(name, config.drill.entity, config.drill.every_days, now)


@app.task(name="backlog.run_drill")
def run(key: int) -> None:
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
