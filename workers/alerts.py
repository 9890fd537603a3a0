"""Tasks of alerts: evaluate all conditions every few seconds, and send due notifications, one task per channel."""

import threading
from datetime import UTC, datetime

from dashboard.alerts import rounds
from dashboard.alerts.sending import delivery
from dashboard.site.redis import announce_change
from workers.celery import SLICE_S, app
from workers.slices import one_at_a_time, slice_of


@app.task(name="alerts.look")
@one_at_a_time("alerts", SLICE_S)
def look(stop: threading.Event) -> None:
    """Open and resolve alerts, and store who is to be notified."""
    if rounds.look(datetime.now(UTC)):
        announce_change()


@app.task(name="alerts.due")
def due() -> None:
    """Start a task for each channel with due messages."""
    for channel in delivery.due_channels(datetime.now(UTC)):
        deliver.apply_async((channel,), expires=10)


@app.task(name="alerts.deliver")
def deliver(channel: str) -> None:
    """Send the due messages of one channel, so that a slow channel does not delay others."""
    with slice_of(f"alerts to {channel}") as free:
        if free is not None and delivery.deliver(channel):
            announce_change()
