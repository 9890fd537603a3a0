"""Periodic reading of state that is not reported: depth of the backlog, existing entities, missed health changes."""

from datetime import UTC, datetime, timedelta

from django.conf import settings

from dashboard.actions.events import end_failures
from dashboard.actions.syphons import restore_paces, restore_pauses
from dashboard.backlog.places import count_subscriptions
from dashboard.fleet import pruning
from dashboard.fleet.depth import peaks, sampling
from dashboard.fleet.state import entity_rows, ledgers, message_counts, projection, syphon_runs
from dashboard.fleet.state.catching_up import catch_up
from dashboard.fleet.usage import metered
from dashboard.models import Pair, PairReadiness
from dashboard.readiness.gathering import pair_facts
from dashboard.readiness.probing import note_silence, probe
from dashboard.readiness.storing import keep
from dashboard.site.database import note_sizes
from dashboard.site.redis import announce_change, shared_state
from pairing import PairedServiceBusClient
from pairing.fleet.presence import Presences, reported_states
from workers.celery import app
from workers.connections import NotConnected, client, outages_reported, pairs
from workers.heartbeats import heartbeats
from workers.slices import slice_of

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
    """Store in how many processes each disputed failover is in force, and live gateways. Returns whether it changed."""
    living = Presences(shared_state(pair)).living()
    for process, presence in living.items():
        if presence.gateway is not None:
            projection.record_heartbeat(process, projection.gateway_role(pair), datetime.now(UTC))
    return projection.record_reported_states(pair, reported_states(living.values()))


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
            sampling.sample(client(pair), pair, pairs())
            announce_change(pair)


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
            entity_rows.record_listed(pair, found, datetime.now(UTC))
            entity_rows.record_entities(pair, found)


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
            dead = {one.name: one.dead_letter_message_count or 0 for one in counted}
            message_counts.record_dead_letters(pair, dead, at)
            count_subscriptions(connected, pair, datetime.now(UTC), free)
            announce_change(pair)


def _metered(connected: PairedServiceBusClient, namespace: str, operations: int) -> None:
    connected.meter.count("manage", namespace, "*", operations=operations, billing_units=operations)


@app.task(name="samples.peaks")
def roll_up() -> None:
    """Update the newest steps of all pairs, and sum up metered operations; repeating it has the same result."""
    for pair in Pair.objects.all():
        peaks.roll_up(pair)
    while metered.roll_up(datetime.now(UTC)):
        pass


@app.task(name="samples.readiness")
def readiness() -> None:
    """Start a task for each pair with a due check of its readiness (docs/readiness.md)."""
    for pair in Pair.objects.filter(name__in=pairs()).exclude(readiness__due_at__gt=datetime.now(UTC)):
        check_readiness.apply_async((pair.name,), expires=10)


@app.task(name="samples.check_readiness")
def check_readiness(pair: str) -> None:
    """Check one pair and its entities, if no other process does."""
    with outages_reported("readiness", pair), slice_of(f"readiness of {pair}", LIMIT_S) as free:
        interval = timedelta(seconds=settings.READINESS_INTERVAL_S)
        row = None if free is None else PairReadiness.claim(Pair.objects.get(name=pair), datetime.now(UTC), interval)
        if row is not None and look(row):
            announce_change(pair)


def look(row: PairReadiness) -> bool:
    """Probe what is due, then evaluate. Returns whether anything changed. Raises RedisError."""
    pair = row.pair
    try:
        probe(client(pair.name), row)
    except NotConnected as error:
        note_silence(row, str(error))
    reported = {worker: one.problems[pair.name] for worker, one in heartbeats().items() if pair.name in one.problems}
    return keep(row, pair_facts(pair, row.probes, datetime.now(UTC), problems=reported))
