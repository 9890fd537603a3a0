"""Pings of due entities, once for the whole fleet: the process that claims an entity's next ping in Redis sends it.

Celery starts a thread per pair, which checks frequently while entities are failed over. One task per second would be
too late: applications wait a quarter of the interval and then ping themselves.
"""

import threading
from contextlib import suppress
from dataclasses import dataclass, field

from dashboard.fleet.state.catching_up import catch_up, parsed
from dashboard.site.redis import RedisError, announce_change, shared_state
from pairing import PairedServiceBusClient
from pairing.fleet.shared_health import SharedHealth
from pairing.fleet.shared_state import Seen
from workers.celery import app
from workers.connections import REST_S, client, outages_reported, pairs
from workers.slices import slice_of, start_thread

TICK_S = 0.2
_watches: dict[str, threading.Thread] = {}


@dataclass(slots=True)
class Away:
    """The failed-over entities of a pair that this process knows."""

    seen: Seen | None = None
    paths: set[str] = field(default_factory=set)


_away: dict[str, Away] = {}
_lock = threading.Lock()


@app.task(name="pings.due")
def due() -> None:
    """Start a pinger for each pair with failed-over entities."""
    for pair in pairs():
        if away(pair):
            watch.apply_async((pair,), expires=2)


def away(pair: str) -> set[str]:
    """The failed-over entities of a pair; unchanged state is not read again."""
    with _lock:
        known = _away.setdefault(pair, Away())
        news = shared_state(pair).news(known.seen)
        if news.is_everything:
            known.paths.clear()
        for health in parsed(news.texts.items(), SharedHealth.from_json):
            (known.paths.add if health.state == "failed_over" else known.paths.discard)(health.path)
        known.seen = news.seen
        return set(known.paths)


@app.task(name="pings.watch")
def watch(pair: str) -> None:
    """Start this process's pinger of the pair, if it is not running."""
    if pair not in _watches or not _watches[pair].is_alive():
        _watches[pair] = start_thread("pings", keep_pinging, pair)


def keep_pinging(pair: str) -> None:
    """Ping until no entity of the pair is failed over, or the worker stops; without Redis, applications ping."""
    with suppress(RedisError), slice_of(f"pings of {pair}") as stop:
        while stop is not None and not stop.wait(TICK_S) and pair in pairs() and away(pair):
            with outages_reported("ping", pair):
                if _is_due(client(pair)):
                    start_thread("ping", ping, pair)
                continue
            stop.wait(REST_S)


def _is_due(connected: PairedServiceBusClient) -> bool:
    now = connected.clock.now()
    return any(machine.ping_due(now) for machine in connected.pair_state.entities())


def ping(pair: str) -> None:
    """Send the due pings of a pair that no other process has claimed; at once if all are under way."""
    with outages_reported("ping", pair):
        if results := client(pair).ping_due():
            catch_up(pair, {result.path for result in results})
            announce_change(pair)
