"""Alerts: a look at all conditions every few seconds, and the sending of what is due, a task for each channel."""

import threading
from datetime import UTC, datetime

from dashboard.alerts import delivery, rounds
from dashboard.site.redis import announce_change
from workers.celery import SLICE_S, app
from workers.slices import one_at_a_time, slice_of


@app.task(name="alerts.look")
@one_at_a_time("alerts", SLICE_S)
def look(stop: threading.Event) -> None:
    """Opens and resolves alerts, and stores who is to be notified."""
    if rounds.look(datetime.now(UTC)):
        announce_change()


@app.task(name="alerts.due")
def due() -> None:
    """Wakes a task for each channel that has something to send."""
    for channel in delivery.due_channels(datetime.now(UTC)):
        deliver.apply_async((channel,), expires=10)


@app.task(name="alerts.deliver")
def deliver(channel: str) -> None:
    """Sends what one channel has due; a slow one holds up no other."""
    with slice_of(f"alerts to {channel}") as free:
        if free is not None and delivery.deliver(channel):
            announce_change()
