"""Due entities are pinged, once for the whole fleet: whoever claims an entity's next ping in Redis sends it."""

from dashboard.redis import announce_change, shared_state
from workers.celery import app
from workers.collectors import project_health
from workers.connections import client, outages_told, pairs


@app.task(name="pings.due")
def due() -> None:
    """Wakes a task for each pair that has something to ping, so that a silent namespace holds up no other pair."""
    for pair in pairs():
        if any(health.state == "failed_over" for health in shared_state(pair).health().values()):
            ping.apply_async((pair,), expires=2)


@app.task(name="pings.ping")
def ping(pair: str) -> None:
    """Sends the pings of a pair that are due and that nobody else has claimed."""
    with outages_told("ping", pair):
        if client(pair).ping_due(grace_s=0.0):
            project_health(pair)
            announce_change()
