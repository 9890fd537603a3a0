"""Hosting of syphons: Celery starts them, and leases in Redis assign queues to processes.

A syphon runs on its own thread until the worker stops, not in a task: a long task would be redelivered, and each new
run would request link credit again, which is billed (docs/specification.md, section 10).
"""

import threading
import time
from datetime import datetime, timedelta

from celery.signals import worker_shutdown

from dashboard.site.redis import shared_state
from pairing import PairedServiceBusClient, Syphon
from pairing.backlog.rotation import backlog_path
from workers.celery import app
from workers.connections import REST_S, client, close_all, forget, is_current, outages_reported, pairs
from workers.slices import slice_of, start_thread

HINDERED_AFTER = timedelta(minutes=1)
LEAVING_S = 6.0  # slightly longer than the close grace of a pair
_LOOK_S = 0.5
_hosts: dict[str, threading.Thread] = {}
_running: dict[str, Syphon] = {}
_hosting = threading.Lock()  # concurrent starts create one syphon


@app.task(name="syphons.ensure")
def ensure() -> None:
    """Start a syphon for each pair with a backlog queue that no process holds."""
    for name, pair in pairs().items():
        held = shared_state(name).leases()
        own = (backlog_path(pair.primary.namespace, index) for index in range(pair.backlog_queue_count))
        if any(queue not in held for queue in own):  # held queues can be orphans that are being drained
            host.apply_async((name,), expires=2)


@app.task(name="syphons.host")
def host(pair: str) -> None:
    """Start this process's syphon of the pair, if it is not running."""
    with _hosting:
        if pair not in _hosts or not _hosts[pair].is_alive():
            _hosts[pair] = start_thread("syphon", run_syphons, pair)


def run_syphons(pair: str) -> None:
    """Drain until the worker stops."""
    with slice_of(f"syphon of {pair}") as stop:
        while stop is not None and not stop.is_set() and pair in pairs():
            with outages_reported("syphon", pair):
                if _run(pair, client(pair), stop):
                    continue
            stop.wait(REST_S)
        if pair not in pairs():
            forget(pair)


def _run(pair: str, connected: PairedServiceBusClient, stop: threading.Event) -> bool:
    """Run until the worker stops, the client fails, or the pairs file changes. True only for the last."""
    over = threading.Event()
    _running[pair] = syphon = Syphon(connected)
    runner = threading.Thread(target=syphon.run, args=(over,), name="syphon-run", daemon=True)
    runner.start()
    while runner.is_alive() and is_current(pair, connected) and not stop.wait(_LOOK_S):
        pass
    is_outdated = runner.is_alive() and connected.state == "opened" and not stop.is_set()
    over.set()
    runner.join()
    del _running[pair]
    return is_outdated


def hindered(now: datetime) -> dict[str, str]:
    """Why syphons of this process receive but do not deliver, by backlog queue; reported after a minute."""
    serving = [progress for syphon in list(_running.values()) for progress in list(syphon.progress.values())]
    return {
        progress.queue: f"receives and delivers nothing since {since:%H:%M:%S} UTC: {progress.last_error}"
        for progress in serving
        if progress.state != "stopped"
        and (since := progress.hindered_since) is not None
        and now - since > HINDERED_AFTER
    }


@worker_shutdown.connect
def leave(**_: object) -> None:
    """Finish transfers in flight, release leases, and report the usage of clients."""
    until = time.monotonic() + LEAVING_S
    for thread in list(_hosts.values()):
        thread.join(max(0.0, until - time.monotonic()))
    close_all()
