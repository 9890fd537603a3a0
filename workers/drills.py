"""Tasks of drills: executed by the worker that claims them, and started by schedule."""

from datetime import UTC, datetime

from dashboard.drills import exercise
from dashboard.drills.exercise import Exercise, end_unreachable
from dashboard.drills.schedule import begin_if_due
from dashboard.models import Drill
from workers.celery import SLICE_S, app
from workers.connections import client, outages_reported, pairs
from workers.slices import slice_of


@app.task(name="backlog.drills")
def due() -> None:
    """Start a task for each unclaimed drill, and start scheduled drills."""
    now = datetime.now(UTC)
    for row in Drill.unclaimed(now):
        carry_on.apply_async((row.pk,), expires=5)
    for name, config in pairs().items():
        if config.drill is not None and config.drill.every_days is not None:
            begin_if_due(name, config.drill.entity, config.drill.every_days, now)


@app.task(name="backlog.carry_drill_on")
def carry_on(key: int) -> None:
    """Continue one drill for a slice of time; the next tick continues."""
    with slice_of(f"drill {key}", SLICE_S) as stop:
        row = Drill.open_ones().filter(pk=key).select_related("pair").first()
        if stop is None or row is None or not row.claim(datetime.now(UTC), exercise.CLAIM_S):
            return None
        if row.pair.name not in pairs():
            return end_unreachable(row)
        with outages_reported("drill", row.pair.name):
            under_way = Exercise(row, client(row.pair.name), stop)
            try:
                under_way.run()
            finally:
                under_way.close()
        row.lay_down()
    return None
