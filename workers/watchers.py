"""Periodic reading of state that is not reported: depth of the backlog, existing entities, missed health changes."""

from collections import Counter
from datetime import UTC, datetime

from django.db import transaction

from dashboard.actions.syphons import restore_paces, restore_pauses
from dashboard.fleet import ledgers, projection, pruning, syphon_runs
from dashboard.fleet.catching_up import catch_up
from dashboard.site.database import note_sizes
from dashboard.site.redis import announce_change, shared_state
from pairing import PairedServiceBusClient
from pairing.backlog.administration import BacklogQueueInfo
from pairing.fleet.presence import Presences, reported_states
from pairing.fleet.shared_backlog import SharedBacklog
from workers.celery import app
from workers.censuses import Counted, as_counted, count, is_named_after, keep, kept
from workers.connections import client, outages_reported, pairs
from workers.ended_processes import end_failures
from workers.heartbeats import heartbeats
from workers.orphans import all_backlog_queues
from workers.slices import slice_of
from workers.subscriptions import count as count_subscriptions

LIMIT_S = 60.0
PAGE = 100  # queues per page of the administration API


@app.task(name="samples.reconcile")
def refresh() -> None:
    """Store health changes that collectors missed, and the live workers; end failures whose process has ended.

    Pauses and paces are written from the database to Redis, in case Redis was restarted empty.
    """
    for worker, heartbeat in heartbeats().items():
        projection.record_heartbeat(worker, ", ".join(heartbeat.queues), heartbeat.time, heartbeat.problems)
    for pair in pairs():
        end_failures(pair)
    changed = [catch_up(pair) for pair in pairs()]
    changed += [store_reported_states(pair) for pair in pairs()]
    for pair in pairs():
        restore_pauses(pair, shared_state(pair))
        restore_paces(pair, shared_state(pair))
        changed.append(store_ledgers(pair))
    if any(changed):
        announce_change()


def store_ledgers(pair: str) -> bool:
    """Store the holders and ledgers of backlog queues. Returns whether anything changed."""
    shared, now = shared_state(pair), datetime.now(UTC)
    reported = shared.ledgers()
    changed = syphon_runs.look(pair, shared.leases(), now) + ledgers.keep(pair, reported, now)
    syphon_runs.seen(pair, now)
    return bool(changed)


def store_reported_states(pair: str) -> bool:
    """Store in how many processes each disputed failover is in force. Returns whether anything changed."""
    return projection.record_reported_states(pair, reported_states(Presences(shared_state(pair)).living().values()))


@app.task(name="samples.prune")
def prune() -> None:
    """Delete data that no page shows any more."""
    pruning.prune(datetime.now(UTC))
    note_sizes()


@app.task(name="samples.depths")
def depths() -> None:
    """Start a task for each pair."""
    for pair in pairs():
        sample.apply_async((pair,), expires=5)


@app.task(name="samples.sample")
def sample(pair: str) -> None:
    """Store the depth of a pair's backlog queues, and the number of waiting messages per entity."""
    with outages_reported("sample", pair), slice_of(f"sample of {pair}", LIMIT_S) as free:
        if free is not None:
            at = datetime.now(UTC)
            connected = client(pair)
            queues = all_backlog_queues(connected.secondary.administration, pairs()[pair])
            _metered(connected, connected.secondary.namespace, 2)
            rotations = shared_state(pair).rotations().values()
            _share_fill(connected, pair, queues, at)
            counted = _counted(connected, pair, queues)
            with transaction.atomic():  # pages see all of one sample, or all of the one before
                used = {path for paths in rotations for path in paths}
                projection.record_depths(pair, as_counted(queues, counted), at, used=used)
                _record_waiting(pair, counted, at)
            announce_change()


def _share_fill(connected: PairedServiceBusClient, pair: str, queues: list[BacklogQueueInfo], at: datetime) -> None:
    """Report fill levels to the senders, and record events of queues that are or will soon be too full."""
    sizes = {queue.path: (queue.size_bytes, queue.max_size_bytes) for queue in queues if queue.max_size_bytes}
    for path, fill in SharedBacklog(shared_state(pair)).record(sizes, at.timestamp()).items():
        connected.emit("capacity_warning", path, fill.describe())


def _counted(connected: PairedServiceBusClient, pair: str, queues: list[BacklogQueueInfo]) -> list[Counted]:
    """The messages by entity. Skips queues of other primaries, whose messages are not for entities of this pair."""
    own = [queue for queue in queues if is_named_after(queue.path, connected.primary.namespace)]
    counted = [count(connected, queue, saved) for queue, saved in zip(own, kept(pair, own), strict=True)]
    keep(pair, {one.queue: one.census for one in counted})
    return counted


def _record_waiting(pair: str, counted: list[Counted], at: datetime) -> None:
    waiting: Counter[str] = Counter()
    oldest: dict[str, datetime] = {}
    for one in counted:
        waiting.update(one.waiting)
        for path, since in one.census.oldest.items():
            oldest[path] = min(since, oldest.get(path, since))
    waiting.pop("", None)
    exact, seen = all(one.census.is_exact for one in counted), all(one.census.is_caught_up for one in counted)
    projection.record_waiting(pair, waiting, at, complete=exact, all_seen=seen, oldest=oldest)
    projection.record_deliverable(pair, {one.queue: one.waiting for one in counted}, at)


@app.task(name="samples.entities")
def entities() -> None:
    """Start a task for each pair that watches all entities of its primary."""
    for name, pair in pairs().items():
        if pair.watches_all:
            list_entities.apply_async((name,), expires=30)


@app.task(name="samples.list_entities")
def list_entities(pair: str) -> None:
    """Store the queues and topics of a pair's primary."""
    with outages_reported("entities", pair), slice_of(f"entities of {pair}", LIMIT_S) as free:
        if free is not None:
            connected = client(pair)
            found = {queue.name: "queue" for queue in connected.primary.administration.list_queues()}
            found |= {topic.name: "topic" for topic in connected.primary.administration.list_topics()}
            _metered(connected, connected.primary.namespace, 2)
            shared_state(pair).know(found)
            projection.record_listed(pair, found, datetime.now(UTC))
            projection.record_entities(pair, found)


@app.task(name="samples.primaries")
def primaries() -> None:
    """Start a task for each pair."""
    for pair in pairs():
        count_dead_letters.apply_async((pair,), expires=60)


@app.task(name="samples.count_dead_letters")
def count_dead_letters(pair: str) -> None:
    """Store the dead-letter counts of a pair's own queues and subscriptions; requires *Manage* on the primary."""
    with outages_reported("dead letters of the primary", pair), slice_of(f"primary of {pair}", LIMIT_S) as free:
        if free is not None:
            connected, at = client(pair), datetime.now(UTC)
            counted = list(connected.primary.administration.list_queues_runtime_properties())
            _metered(connected, connected.primary.namespace, 1 + len(counted) // PAGE)
            shared_state(pair).know(one.name for one in counted)
            projection.record_dead_letters(pair, {one.name: one.dead_letter_message_count or 0 for one in counted}, at)
            count_subscriptions(connected, pair, datetime.now(UTC), free)
            announce_change()


def _metered(connected: PairedServiceBusClient, namespace: str, operations: int) -> None:
    connected.meter.count("manage", namespace, "*", operations=operations, billing_units=operations)
