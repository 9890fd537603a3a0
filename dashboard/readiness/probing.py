"""Probing one right of a credential by using it: the cheapest operation that proves it, in bounded time.

A sender's link is opened and nothing is sent; a receiver's link is opened, with one peek; a request is sent that
requires the Manage claim.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

from azure.core.exceptions import AzureError
from azure.servicebus.exceptions import MessagingEntityNotFoundError
from django.db.models import F

from dashboard.models import EntityHealth, Pair, PairReadiness, Readiness
from dashboard.readiness.facts import Answer, Probe
from pairing import PairedServiceBusClient, PairingError
from pairing.backlog.administration import is_unauthorized
from pairing.errors import Fault
from pairing.health.faults import classify, describe
from pairing.links.link import Link, Operation, Watchdog

OPEN_S = 5.0
AT_ONCE = 8
AGAIN = timedelta(minutes=10)
"""How long a proved right is valid before it is probed again; other rights are probed each time."""
ENTITY_AGAIN = timedelta(hours=1)
ENTITIES_AT_ONCE = 25
"""Maximum number of entities probed per check, least recently probed first."""


def _administered(connected: PairedServiceBusClient) -> Probe:
    """Send a request to the secondary that requires the Manage claim; one operation."""
    connected.meter.count("manage", connected.secondary.namespace, "*", operations=1, billing_units=1)
    try:
        connected.secondary.administration.get_namespace_properties()
    except (AzureError, OSError, ValueError) as error:
        refused = is_unauthorized(error)
        return Probe(Answer.REFUSED if refused else Answer.SILENT, datetime.now(UTC), describe(error))
    return Probe(Answer.ALLOWED, datetime.now(UTC))


def opened(watchdog: Watchdog, make: Callable[[], Any], use: Operation | None = None) -> Probe:
    """Open a link, run the operation on it, if given, and close it, in bounded time."""
    try:
        link = Link(make, watchdog)
    except PairingError as error:
        return Probe(Answer.SILENT, datetime.now(UTC), str(error))
    try:
        failure = link.attempt(use, OPEN_S) if use else link.warm(OPEN_S)
    finally:
        link.close(1.0)
    if failure is None:
        return Probe(Answer.ALLOWED, datetime.now(UTC))
    return Probe(answer_of(failure.error), datetime.now(UTC), describe(failure.error))


def answer_of(error: Exception) -> Answer:
    """Whether an error of a link is a refusal or an unreachable namespace. Pure."""
    missing = isinstance(error, MessagingEntityNotFoundError)
    return Answer.REFUSED if missing or classify(error, known=False) is Fault.CONFIGURATION else Answer.SILENT


def peek(receiver: Any, left_s: float) -> None:
    """The operation that proves Listen."""
    receiver.peek_messages(1, sequence_number=1, timeout=left_s)


# The due probes of a pair -------------------------------------------------------------------------------------------


def probe(connected: PairedServiceBusClient, row: PairReadiness) -> None:
    """Run the due probes of a pair and its entities, and store them."""
    row.probes = probe_pair(connected, row.probes)
    probe_entities(connected, row.pair)
    PairReadiness.objects.filter(pk=row.pk).update(probes=row.probes)


def note_silence(row: PairReadiness, reason: str) -> None:
    """Store that the pair cannot be opened."""
    row.probes = {**row.probes, "administration": Probe(Answer.SILENT, datetime.now(UTC), reason).as_json()}
    PairReadiness.objects.filter(pk=row.pk).update(probes=row.probes)


def probe_pair(connected: PairedServiceBusClient, known: dict[str, Any]) -> dict[str, Any]:
    """Run the due probes of the secondary: administration, and send and listen at each backlog queue."""
    now, queues = datetime.now(UTC), dict(known.get("queues", {}))
    probes = {**known, "queues": queues}
    if is_due(known.get("administration"), now, AGAIN):
        probes["administration"] = _administered(connected).as_json()
    paths = [path for path in connected.backlog_paths if _queue_is_due(queues.get(path, {}), now)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        queues |= dict(zip(paths, pool.map(lambda path: probe_queue(connected, path), paths), strict=True))
    return probes


def probe_queue(connected: PairedServiceBusClient, path: str) -> dict[str, Any]:
    """Open both kinds of link to one backlog queue."""
    listened = opened(connected.watchdog, lambda: connected.secondary.sdk.get_queue_receiver(path), peek)
    connected.meter.count("manage", connected.secondary.namespace, "*", operations=1, billing_units=1)
    sent = opened(connected.watchdog, lambda: connected.sdk_sender("secondary", path))
    return {"send": sent.as_json(), "listen": listened.as_json()}


def probe_entities(connected: PairedServiceBusClient, pair: Pair) -> None:
    """Probe sends to the due entities without sending a message; failed-over ones are skipped."""
    now = datetime.now(UTC)
    paths = turn(pair, now)
    if not paths or connected.primary.is_down:
        return
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda path: opened(connected.watchdog, lambda: connected.sdk_sender("primary", path)), paths)
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


def is_due(reported: Any, now: datetime, again: timedelta) -> bool:
    """Whether a right should be probed: not proved, or proved long ago. Pure."""
    probe = Probe.from_json(reported)
    return probe is None or probe.answer is not Answer.ALLOWED or now - probe.at >= again


def _queue_is_due(reported: dict[str, Any], now: datetime) -> bool:
    return any(is_due(reported.get(right), now, AGAIN) for right in ("send", "listen"))
