"""Collectors write the reports of the fleet to the database and to usage files, and acknowledge them afterwards."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

import structlog
from django.conf import settings
from django.db import DatabaseError
from pyarrow import ArrowException

from dashboard.alerts.watching.conditions_now import USAGE_PROBLEM
from dashboard.fleet.state import projection
from dashboard.fleet.state.catching_up import catch_up, parsed
from dashboard.fleet.usage import metered
from dashboard.models import Pair
from dashboard.site.database import AWAY
from dashboard.site.redis import HEALTH_PATTERN, announce_change, patient_connection
from pairing.events import KINDS, Event
from pairing.fleet.coordination import SharedHealth
from pairing.telemetry.metering import UsageRecord
from workers import usage
from workers.celery import SLICE_S, app
from workers.connections import pairs
from workers.slices import one_at_a_time
from workers.streams import Entries, Reader

MAX_HELD = 20_000
usage_problems: dict[str, str] = {}
"""Why this process could not write usage files the last time; empty if it could."""
log = structlog.get_logger(__name__)
DATABASE_REST_S = 10.0  # between two attempts to store usage for the pages
SAVING_S = 15.0  # longer than writing the records held for USAGE_FLUSH_S takes; then other workers claim them


def known_event(text: str) -> Event:
    """An event of a known kind. Raises ValueError for kinds of newer applications."""
    event = Event.from_json(text)
    if event.kind not in KINDS:
        raise ValueError(f"unknown kind of event: {event.kind}")
    return event


def save_events(reader: Reader, entries: Entries) -> None:
    """Store events and the health that they report; then acknowledge, then announce them."""
    facts = parsed(entries, known_event)
    projection.record_events(facts)
    for pair in {fact.pair for fact in facts}:
        catch_up(pair, {fact.entity for fact in facts if fact.pair == pair})
    reader.acknowledge(entries)
    announce_change()


@app.task(name="collectors.events")
@one_at_a_time("events", SLICE_S)
def events(stop: threading.Event) -> None:
    """Move failover events from the stream to the database."""
    reader = Reader(patient_connection(), "pairing:events", "event")
    for entries in reader.batches(stop):
        if entries:
            save_events(reader, entries)


def collect_health(stop: threading.Event) -> None:
    """Adopt changes of health as they are published. Earlier changes are read first."""
    with patient_connection().pubsub(ignore_subscribe_messages=True) as channel:  # type: ignore[no-untyped-call]
        channel.psubscribe(HEALTH_PATTERN)
        caught_up = [catch_up(pair) for pair in pairs()]
        if any(caught_up):
            announce_change()
        while not stop.is_set():
            if message := channel.get_message(timeout=1.0):
                take_over(str(message["channel"]), str(message["data"]))


health = app.task(name="collectors.health")(one_at_a_time("health", SLICE_S)(collect_health))


def take_over(channel: str, text: str) -> None:
    """Adopt one published change of health, if its pair is known."""
    pair = channel.removeprefix("pairing:{").removesuffix("}:health")
    for fact in parsed([(channel, text)], SharedHealth.from_json):
        if Pair.objects.filter(name=pair).exists() and projection.apply_all_health(pair, [fact]):
            announce_change(pair)


@app.task(name="collectors.usage")
@one_at_a_time("usage", SLICE_S)
def collect_usage(stop: threading.Event) -> None:
    """Move usage records from the stream to Parquet files, one set of files every USAGE_FLUSH_S seconds."""
    abandoned_ms = round(1000 * (settings.USAGE_FLUSH_S + SAVING_S))
    reader = Reader(patient_connection(), "pairing:usage", "record", abandoned_ms=abandoned_ms)
    held: Entries = []
    pages = LiveUsage()
    due = time.monotonic() + settings.USAGE_FLUSH_S
    for entries in reader.batches(stop):
        held += entries
        pages.add(entries)
        if len(held) >= MAX_HELD or time.monotonic() >= due:
            save_usage(reader, held)
            held, due = [], time.monotonic() + settings.USAGE_FLUSH_S
    save_usage(reader, held)


class LiveUsage:
    """Stores usage for figures of the present. Its files do not wait for a database that does not answer: that one is
    left alone for a while, and then gets what came meanwhile.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._waiting: Entries = []
        self._again_at = 0.0

    def add(self, entries: Entries) -> None:
        """Store them, and those that are waiting, unless the database did not answer a moment ago."""
        self._waiting = [*self._waiting, *entries][-MAX_HELD:]
        if not self._waiting or self._now() < self._again_at:
            return
        try:
            metered.store(usage.with_scopes(parsed(self._waiting, UsageRecord.from_json), pairs()), datetime.now(UTC))
        except DatabaseError as error:
            log.warning("usage not stored for the pages", problem=" ".join(str(error).split())[:300])
            if isinstance(error, AWAY):
                self._again_at = self._now() + DATABASE_REST_S
                return
        self._waiting = []


def save_usage(reader: Reader, entries: Entries) -> None:
    """Write to disk, then acknowledge.

    If they cannot be written, the heartbeat says why; they remain in the stream, and are read again later.
    """
    records = usage.with_scopes(parsed(entries, UsageRecord.from_json), pairs())
    try:
        written = usage.write(records, settings.USAGE_DIR) if records else []
    except (OSError, ArrowException, ValueError) as error:
        usage_problems[USAGE_PROBLEM] = f"The usage files cannot be written ({' '.join(str(error).split())[:300]})."
        log.error("usage not written", problem=usage_problems[USAGE_PROBLEM])
        return
    if written:
        usage_problems.clear()
    reader.acknowledge(entries)
