"""The backlog brought home: Celery gives the kick, leases in Redis say who moves which queue.

A syphon runs on a thread of its own until the worker stops, not in a task: a task would be handed out a second time
after a while, and each new run would ask for link credit anew, which is billed (docs/specification.md, section 10).
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
from workers.slices import slice_of

HINDERED_AFTER = timedelta(minutes=1)
LEAVING_S = 6.0  # the close grace of a pair, and a little
_LOOK_S = 0.5
_hosts: dict[str, threading.Thread] = {}
_running: dict[str, Syphon] = {}
_hosting = threading.Lock()  # two kicks at once begin one syphon


@app.task(name="syphons.ensure")
def ensure() -> None:
    """Wakes a worker for each pair of which some backlog queue is in nobody's hands."""
    for name, pair in pairs().items():
        held = shared_state(name).leases()
        own = (backlog_path(pair.primary.namespace, index) for index in range(pair.backlog_queue_count))
        if any(queue not in held for queue in own):  # what is held may be an orphan that is being drained
            host.apply_async((name,), expires=2)


@app.task(name="syphons.host")
def host(pair: str) -> None:
    """Lets this process bring home what it can get the lease of, if it does not do so already."""
    with _hosting:
        if pair not in _hosts or not _hosts[pair].is_alive():
            _hosts[pair] = threading.Thread(target=run_syphons, args=(pair,), name=f"syphon-{pair}", daemon=True)
            _hosts[pair].start()


def run_syphons(pair: str) -> None:
    """Moves messages until the worker stops."""
    with slice_of(f"syphon of {pair}") as stop:
        while stop is not None and not stop.is_set() and pair in pairs():
            with outages_reported("syphon", pair):
                if _run(pair, client(pair), stop):
                    continue
            stop.wait(REST_S)
        if pair not in pairs():
            forget(pair)


def _run(pair: str, connected: PairedServiceBusClient, stop: threading.Event) -> bool:
    """One run: until the worker stops, the client breaks, or the pairs file changes; True only for the last."""
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
    """Why this process's syphons do not deliver what they receive, by backlog queue; reported after a minute."""
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
    """What is in flight comes home, leases are given up, and what the clients have counted is reported."""
    until = time.monotonic() + LEAVING_S
    for thread in list(_hosts.values()):
        thread.join(max(0.0, until - time.monotonic()))
    close_all()
