"""The backlog brought home: Celery gives the kick, leases in Redis say who moves which queue.

A syphon runs on a thread of its own until the worker stops, not in a task: a task would be handed out a second time
after a while, and each new run would ask for link credit anew, which is billed (docs/specification.md, section 10).
"""

import threading
import time

from celery.signals import worker_shutdown

from dashboard.redis import shared_state
from pairing import PairedServiceBusClient, Syphon
from pairing.backlog import backlog_path
from workers.celery import app
from workers.connections import REST_S, client, close_all, outages_told, pairs
from workers.slices import slice_of

LEAVING_S = 6.0  # the close grace of a pair, and a little
_LOOK_S = 0.5
_hosts: dict[str, threading.Thread] = {}
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
            _hosts[pair] = threading.Thread(target=bring_home, args=(pair,), name=f"syphon-{pair}", daemon=True)
            _hosts[pair].start()


def bring_home(pair: str) -> None:
    """Moves messages until the worker stops."""
    with slice_of(f"syphon of {pair}") as stop:
        while stop is not None and not stop.is_set():
            with outages_told("syphon", pair):
                _run(client(pair), stop)
            stop.wait(REST_S)


def _run(connected: PairedServiceBusClient, stop: threading.Event) -> None:
    """One run: until the worker stops or the client breaks."""
    over = threading.Event()
    runner = threading.Thread(target=Syphon(connected).run, args=(over,), name="syphon-run", daemon=True)
    runner.start()
    while runner.is_alive() and connected.state == "opened" and not stop.wait(_LOOK_S):
        pass
    over.set()
    runner.join()


@worker_shutdown.connect
def leave(**_: object) -> None:
    """What is in flight comes home, leases are given up, and what the clients have counted is reported."""
    until = time.monotonic() + LEAVING_S
    for thread in list(_hosts.values()):
        thread.join(max(0.0, until - time.monotonic()))
    close_all()
