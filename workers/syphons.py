"""The backlog brought home: Celery gives the kick, leases in Redis say who moves which queue."""

from celery.signals import worker_shutdown

from dashboard.redis import announce_change, shared_state
from workers.celery import SLICE_S, app
from workers.connections import client, close_all, outages_told, pairs
from workers.slices import slice_of


@app.task(name="syphons.ensure")
def ensure() -> None:
    """Starts a slice for each pair of which some backlog queue is in nobody's hands."""
    for name, pair in pairs().items():
        if len(shared_state(name).leases()) < pair.backlog_queue_count:
            bring_home.apply_async((name,), expires=2)


@app.task(name="syphons.bring_home")
def bring_home(pair: str) -> None:
    """Moves messages of the queues this process gets the lease of, until the slice is over or the worker stops."""
    with outages_told("syphon", pair), slice_of(f"syphon of {pair}", SLICE_S) as stop:
        if stop is not None:
            from pairing import Syphon

            Syphon(client(pair)).run(stop)
            announce_change()


@worker_shutdown.connect
def close_clients(**_: object) -> None:
    """What the clients have counted and seen is reported before the worker is gone."""
    close_all()
