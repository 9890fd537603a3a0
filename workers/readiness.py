"""The periodic readiness check: rights are probed, facts gathered and evaluated (docs/readiness.md).

The cheapest operation that proves a right: opening a sender's link without sending, or a receiver's link with one peek.
Results are valid for a while, so that frequent checks are cheap.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import F

from dashboard.models import EntityHealth, Pair, PairReadiness, Readiness
from dashboard.readiness import probing
from dashboard.readiness.facts import Answer, Probe
from dashboard.readiness.gathering import pair_facts
from dashboard.readiness.storing import keep
from dashboard.site.redis import announce_change
from pairing import PairedServiceBusClient
from pairing.links import Operation
from workers.celery import app
from workers.connections import NotConnected, client, outages_reported, pairs
from workers.heartbeats import heartbeats
from workers.slices import slice_of

LIMIT_S = 60.0
AT_ONCE = 8
AGAIN = timedelta(minutes=10)
"""How long a proved right is valid before it is probed again; other rights are probed each time."""
ENTITY_AGAIN = timedelta(hours=1)
ENTITIES_AT_ONCE = 25
"""Maximum number of entities probed per check, least recently probed first."""


@app.task(name="samples.readiness")
def due() -> None:
    """Start a task for each pair with a due check."""
    now = datetime.now(UTC)
    for pair in Pair.objects.filter(name__in=pairs()).exclude(readiness__due_at__gt=now):
        check.apply_async((pair.name,), expires=10)


@app.task(name="samples.check_readiness")
def check(pair: str) -> None:
    """Check one pair and its entities, if no other process does."""
    with outages_reported("readiness", pair), slice_of(f"readiness of {pair}", LIMIT_S) as free:
        interval = timedelta(seconds=settings.READINESS_INTERVAL_S)
        row = None if free is None else PairReadiness.claim(Pair.objects.get(name=pair), datetime.now(UTC), interval)
        if row is not None and look(row):
            announce_change()


def look(row: PairReadiness) -> bool:
    """Probe what is due, then evaluate. Returns whether anything changed. Raises RedisError."""
    pair = row.pair
    try:
        connected = client(pair.name)
    except NotConnected as error:
        silent = Probe(Answer.SILENT, datetime.now(UTC), str(error))
        row.probes = {**row.probes, "administration": silent.as_json()}
    else:
        row.probes = probe_pair(connected, row.probes)
        probe_entities(connected, pair)
    PairReadiness.objects.filter(pk=row.pk).update(probes=row.probes)
    reported = {worker: one.problems[pair.name] for worker, one in heartbeats().items() if pair.name in one.problems}
    return keep(row, pair_facts(pair, row.probes, datetime.now(UTC), problems=reported))


# Probing ------------------------------------------------------------------------------------------------------------


def probe_pair(connected: PairedServiceBusClient, known: dict[str, Any]) -> dict[str, Any]:
    """Run the due probes of the secondary: administration, and send and listen at each backlog queue."""
    now, queues = datetime.now(UTC), dict(known.get("queues", {}))
    probes = {**known, "queues": queues}
    if is_due(known.get("administration"), now, AGAIN):
        probes["administration"] = administered(connected).as_json()
    paths = [path for path in connected.backlog_paths if _queue_is_due(queues.get(path, {}), now)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        queues |= dict(zip(paths, pool.map(lambda path: probe_queue(connected, path), paths), strict=True))
    return probes


def probe_queue(connected: PairedServiceBusClient, path: str) -> dict[str, Any]:
    """Open both kinds of link to one backlog queue."""
    listened = opened(connected, lambda: connected.secondary.sdk.get_queue_receiver(path), probing.peek)
    connected.meter.count("manage", connected.secondary.namespace, "*", operations=1, billing_units=1)
    sent = opened(connected, lambda: connected.sdk_sender("secondary", path))
    return {"send": sent.as_json(), "listen": listened.as_json()}


def probe_entities(connected: PairedServiceBusClient, pair: Pair) -> None:
    """Probe sends to the due entities without sending a message; failed-over ones are skipped."""
    now = datetime.now(UTC)
    paths = turn(pair, now)
    if not paths or connected.primary.is_down:
        return
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda path: opened(connected, lambda: connected.sdk_sender("primary", path)), paths)
    for path, probe in zip(paths, found, strict=True):
        Readiness.objects.filter(pair=pair, entity=path).update(probe=probe.as_json(), probed_at=now)


def turn(pair: Pair, now: datetime) -> list[str]:
    """The entities to probe now: never probed, refused, or least recently probed."""
    away = EntityHealth.objects.filter(pair=pair, state__in=("failing", "failed_over")).values("path")
    rows = Readiness.objects.filter(pair=pair)
    shown = rows.filter(probe__answer=Answer.ALLOWED.value, probed_at__gt=now - ENTITY_AGAIN).values("pk")
    due_ones = rows.exclude(entity__in=away).exclude(pk__in=shown)
    oldest = due_ones.order_by(F("probed_at").asc(nulls_first=True))
    return list(oldest.values_list("entity", flat=True)[:ENTITIES_AT_ONCE])


def administered(connected: PairedServiceBusClient) -> Probe:
    """Send a request to the secondary that requires the Manage claim."""
    try:
        return probing.administered(connected.secondary.administration)
    finally:
        connected.meter.count("manage", connected.secondary.namespace, "*", operations=1, billing_units=1)


def opened(connected: PairedServiceBusClient, make: Callable[[], Any], use: Operation | None = None) -> Probe:
    """Open a link, run the operation on it, if given, and close it, in bounded time."""
    return probing.opened(connected.watchdog, make, use)


def is_due(reported: Any, now: datetime, again: timedelta) -> bool:
    """Whether a right should be probed: not proved, or proved long ago. Pure."""
    probe = Probe.from_json(reported)
    return probe is None or probe.answer is not Answer.ALLOWED or now - probe.at >= again


def _queue_is_due(reported: dict[str, Any], now: datetime) -> bool:
    return any(is_due(reported.get(right), now, AGAIN) for right in ("send", "listen"))
