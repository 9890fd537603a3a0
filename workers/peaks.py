"""The task that rolls up samples for charts of days."""

from datetime import UTC, datetime

from dashboard.fleet import metered, peaks
from dashboard.models import Pair
from workers.celery import app


@app.task(name="samples.peaks")
def roll_up() -> None:
    """Update the newest steps of all pairs, and sum up metered operations; repeating it has the same result."""
    for pair in Pair.objects.all():
        peaks.roll_up(pair)
    while metered.roll_up(datetime.now(UTC)):
        pass
