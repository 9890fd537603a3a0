"""What the fleet reports, on its way into the database and the usage files; acknowledged only once it is there."""

import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

import structlog
from django.conf import settings

from dashboard.fleet import projection
from dashboard.models import FailoverEvent, Pair
from dashboard.site.redis import HEALTH_PATTERN, announce_change, patient_connection, shared_state
from pairing.events import Event
from pairing.fleet.coordination import SharedHealth
from pairing.fleet.shared_state import Seen
from pairing.telemetry.metering import UsageRecord
from workers import usage
from workers.celery import SLICE_S, app
from workers.connections import pairs
from workers.slices import one_at_a_time
from workers.streams import Entries, Reader

log = structlog.get_logger(__name__)
Fact = TypeVar("Fact")
KINDS = frozenset(FailoverEvent.Kind.values)
READ_ALL_S = 60.0
MAX_HELD = 20_000
SAVING_S = 15.0  # more than it takes to write what was held for USAGE_FLUSH_S; then others take it over


def parsed(entries: Iterable[tuple[str, str]], read: Callable[[str], Fact]) -> list[Fact]:
    """The facts in the entries; what cannot be read is told and left out, as it would never be readable."""
    facts = []
    for identity, text in entries:
        try:
            facts.append(read(text))
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
            log.error("unreadable report dropped", entry=identity, problem=repr(error))
    return facts


def known_event(text: str) -> Event:
    """An event of a kind that this version knows; ValueError where a newer application's is none of them."""
    event = Event.from_json(text)
    if event.kind not in KINDS:
        raise ValueError(f"unknown kind of event: {event.kind}")
    return event


def save_events(reader: Reader, entries: Entries) -> None:
    """Into the database, with the health they tell of; then acknowledged, then announced."""
    facts = parsed(entries, known_event)
    projection.record_events(facts)
    for pair in {fact.pair for fact in facts}:
        project_health(pair, {fact.entity for fact in facts if fact.pair == pair})
    reader.acknowledge(entries)
    announce_change()


def project_health(pair: str, pinged: Collection[str] | None = None) -> bool:
    """Brings the database up to the shared health of a pair; whether anything was new.

    The last pings come with it: of all its entities, or of those in `pinged`.
    """
    if not Pair.objects.filter(name=pair).exists():
        return False
    shared = shared_state(pair)
    progress = _progress.get(pair)
    news = shared.news(progress.seen if progress and time.monotonic() < progress.until else None)
    healths = parsed(news.texts.items(), SharedHealth.from_json)
    changed = projection.apply_all_health(pair, healths) + projection.record_pings(pair, shared.pings(pinged))
    if progress is None or news.is_everything:
        _progress[pair] = Progress(news.seen, time.monotonic() + READ_ALL_S)
    else:
        _progress[pair] = replace(progress, seen=news.seen)
    return bool(changed)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far this process has brought a pair's health into the database."""

    seen: Seen
    until: float
    """When everything is read again: a database can be restored from yesterday's copy."""


_progress: dict[str, Progress] = {}


@app.task(name="collectors.events")
@one_at_a_time("events", SLICE_S)
def events(stop: threading.Event) -> None:
    """Takes failover events from the stream into the database."""
    reader = Reader(patient_connection(), "pairing:events", "event")
    for entries in reader.batches(stop):
        if entries:
            save_events(reader, entries)


@app.task(name="collectors.health")
@one_at_a_time("health", SLICE_S)
def health(stop: threading.Event) -> None:
    """Takes changes of health over as they are published; what is missed, samples.reconcile finds."""
    with patient_connection().pubsub(ignore_subscribe_messages=True) as channel:  # type: ignore[no-untyped-call]
        channel.psubscribe(HEALTH_PATTERN)
        while not stop.is_set():
            if message := channel.get_message(timeout=1.0):
                take_over(str(message["channel"]), str(message["data"]))


def take_over(channel: str, text: str) -> None:
    """One published change of health, of a pair that is known here."""
    pair = channel.removeprefix("pairing:{").removesuffix("}:health")
    for fact in parsed([(channel, text)], SharedHealth.from_json):
        if Pair.objects.filter(name=pair).exists() and projection.apply_health(pair, fact):
            announce_change()


@app.task(name="collectors.usage")
@one_at_a_time("usage", SLICE_S)
def collect_usage(stop: threading.Event) -> None:
    """Takes usage records from the stream into Parquet files, one set of files every USAGE_FLUSH_S seconds."""
    abandoned_ms = round(1000 * (settings.USAGE_FLUSH_S + SAVING_S))
    reader = Reader(patient_connection(), "pairing:usage", "record", abandoned_ms=abandoned_ms)
    held: Entries = []
    due = time.monotonic() + settings.USAGE_FLUSH_S
    for entries in reader.batches(stop):
        held += entries
        if len(held) >= MAX_HELD or time.monotonic() >= due:
            held, due = save_usage(reader, held), time.monotonic() + settings.USAGE_FLUSH_S
    save_usage(reader, held)


def save_usage(reader: Reader, entries: Entries) -> Entries:
    """Onto the disk, then acknowledged. Returns what is held now: nothing."""
    records = usage.with_scopes(parsed(entries, UsageRecord.from_json), pairs())
    if records:
        usage.write(records, settings.USAGE_DIR)
    reader.acknowledge(entries)
    return []
