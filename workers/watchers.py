"""What nobody reports by itself: how full the backlog is, which entities there are, what was missed of their health."""

from collections import Counter
from datetime import UTC, datetime

from azure.servicebus import ServiceBusReceivedMessage

from dashboard import ledgers, projection, pruning
from dashboard.control import restore_pauses
from dashboard.redis import announce_change, shared_state
from pairing import PairedServiceBusClient
from pairing.administration import BacklogQueueInfo
from pairing.presence import Presences, opinions
from pairing.shared_backlog import SharedBacklog
from workers.celery import app
from workers.collectors import project_health
from workers.connections import client, outages_told, pairs
from workers.heartbeats import heartbeats
from workers.orphans import all_backlog_queues
from workers.slices import slice_of

LIMIT_S = 60.0
MOST_PEEKED = 500  # messages of one queue and look: a peek is billed, and a chart needs no more
_PAGE = 250


@app.task(name="samples.reconcile")
def reconcile() -> None:
    """Finds the health that was published while nobody listened, and stores which workers are alive.

    Pauses go the other way: the database knows what operators want, also when Redis was restarted empty.
    """
    for worker, heartbeat in heartbeats().items():
        projection.record_heartbeat(worker, ", ".join(heartbeat.queues), heartbeat.time)
    changed = [project_health(pair) for pair in pairs()]
    changed += [project_opinions(pair) for pair in pairs()]
    for pair in pairs():
        restore_pauses(pair, shared_state(pair))
        changed.append(bool(ledgers.keep(pair, shared_state(pair).ledgers(), datetime.now(UTC))))
    if any(changed):
        announce_change()


def project_opinions(pair: str) -> bool:
    """Stores in how many processes each failover holds that some dispute; whether anything was new."""
    return projection.record_opinions(pair, opinions(Presences(shared_state(pair)).living().values()))


@app.task(name="samples.prune")
def prune() -> None:
    """Forgets what no page shows any more."""
    pruning.prune(datetime.now(UTC))


@app.task(name="samples.depths")
def depths() -> None:
    """Wakes one task for each pair."""
    for pair in pairs():
        sample.apply_async((pair,), expires=5)


@app.task(name="samples.sample")
def sample(pair: str) -> None:
    """Stores the depth of a pair's backlog queues, and how many messages wait in them for each entity."""
    with outages_told("sample", pair), slice_of(f"sample of {pair}", LIMIT_S) as free:
        if free is not None:
            at = datetime.now(UTC)
            connected = client(pair)
            queues = all_backlog_queues(connected.secondary.administration, pairs()[pair])
            _metered(connected, connected.secondary.namespace, 2)
            rotations = shared_state(pair).rotations().values()
            projection.record_depths(pair, queues, at, used={path for paths in rotations for path in paths})
            _share_fill(connected, pair, queues, at)
            _record_waiting(connected, pair, queues, at)
            announce_change()


def _share_fill(connected: PairedServiceBusClient, pair: str, queues: list[BacklogQueueInfo], at: datetime) -> None:
    """Tells the senders how full the queues are, and everybody of those that are or soon will be too full."""
    sizes = {queue.path: (queue.size_bytes, queue.max_size_bytes) for queue in queues if queue.max_size_bytes}
    for path, fill in SharedBacklog(shared_state(pair)).record(sizes, at.timestamp()).items():
        connected.emit("capacity_warning", path, fill.told())


def _record_waiting(connected: PairedServiceBusClient, pair: str, queues: list[BacklogQueueInfo], at: datetime) -> None:
    waiting: Counter[str] = Counter()
    oldest: dict[str, datetime] = {}
    complete = True
    for queue in (queue for queue in queues if queue.active):
        messages = _peeked(connected, queue.path)
        complete = complete and len(messages) < MOST_PEEKED
        for message in messages:
            path = entity_of(message)
            waiting[path] += 1
            since = message.enqueued_time_utc or at
            oldest[path] = min(since, oldest.get(path, since))
    waiting.pop("", None)
    projection.record_waiting(pair, waiting, at, complete=complete, oldest=oldest)


def _peeked(connected: PairedServiceBusClient, queue: str) -> list[ServiceBusReceivedMessage]:
    """The first messages of a queue, at most MOST_PEEKED."""
    found: list[ServiceBusReceivedMessage] = []
    with connected.secondary.sdk.get_queue_receiver(queue) as receiver:
        while len(found) < MOST_PEEKED:
            after = {"sequence_number": (found[-1].sequence_number or 0) + 1} if found else {}
            page = receiver.peek_messages(_PAGE, timeout=5, **after)
            _metered(connected, connected.secondary.namespace, 1)
            found += page
            if not page:
                break
    return found[:MOST_PEEKED]


def entity_of(message: ServiceBusReceivedMessage) -> str:
    """The path a message in a backlog queue is for; empty where it does not tell."""
    path = (message.application_properties or {}).get(b"x-ms-path", b"")
    return path.decode(errors="replace") if isinstance(path, bytes) else str(path)


@app.task(name="samples.entities")
def entities() -> None:
    """Finds queues and topics of primaries whose pair watches all of them."""
    for name, pair in pairs().items():
        if pair.watches_all:
            list_entities.apply_async((name,), expires=30)


@app.task(name="samples.list_entities")
def list_entities(pair: str) -> None:
    """Stores the queues and topics of a pair's primary."""
    with outages_told("entities", pair), slice_of(f"entities of {pair}", LIMIT_S) as free:
        if free is not None:
            connected = client(pair)
            found = {queue.name: "queue" for queue in connected.primary.administration.list_queues()}
            found |= {topic.name: "topic" for topic in connected.primary.administration.list_topics()}
            _metered(connected, connected.primary.namespace, 2)
            for path, kind in found.items():
                projection.entity_row(pair, path, kind)


def _metered(connected: PairedServiceBusClient, namespace: str, operations: int) -> None:
    connected.meter.count("manage", namespace, "*", operations=operations, billing_units=operations)
