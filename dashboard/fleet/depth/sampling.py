"""A sample of a pair's backlog queues: their depth, fill and deviations, and the messages that wait for each entity."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from azure.servicebus.management import ServiceBusAdministrationClient
from django.db import transaction

from dashboard.fleet.depth.censuses import Counted, as_counted, count, is_named_after, keep, kept
from dashboard.fleet.pairs.pairs_file import PairConfig
from dashboard.fleet.state import message_counts
from dashboard.site.redis import shared_state
from pairing import PairedServiceBusClient
from pairing.backlog.administration import BacklogQueueInfo, describe_queues, listed
from pairing.backlog.rotation import parse_backlog_path
from pairing.fleet.presence import Presences
from pairing.fleet.shared_backlog import SharedBacklog


def sample(connected: PairedServiceBusClient, pair: str, pairs: Mapping[str, PairConfig]) -> None:
    """Store the depth of a pair's backlog queues, and the number of waiting messages per entity."""
    at = datetime.now(UTC)
    queues = all_backlog_queues(connected.secondary.administration, pairs[pair], pairs)
    connected.meter.count("manage", connected.secondary.namespace, "*", operations=2, billing_units=2)
    rotations = Presences(shared_state(pair)).rotations().values()
    _share_fill(connected, pair, queues, at)
    counted = _counted(connected, pair, queues)
    with transaction.atomic():  # pages see all of one sample, or all of the one before
        used = {path for paths in rotations for path in paths}
        message_counts.record_depths(pair, as_counted(queues, counted), at, used=used)
        _record_waiting(pair, counted, at)


def all_backlog_queues(
    administration: ServiceBusAdministrationClient, pair: PairConfig, pairs: Mapping[str, PairConfig]
) -> list[BacklogQueueInfo]:
    """A pair's backlog queues, and those of primaries that are no longer paired with this secondary.

    The latter are listed with the first pair of the secondary, so that they are listed once.
    """
    described = {queue.name: queue for queue in listed(administration.list_queues())}
    counted = listed(administration.list_queues_runtime_properties())
    neighbours = [one for one in pairs.values() if one.secondary.namespace == pair.secondary.namespace]
    namespaces = [pair.primary.namespace]
    if neighbours and neighbours[0].name == pair.name:
        namespaces += unpaired(described, (one.primary.namespace for one in neighbours))
    return [info for name in namespaces for info in describe_queues(described, counted, name)]


def unpaired(paths: Iterable[str], paired: Iterable[str]) -> list[str]:
    """The primaries in names of backlog queues that are not paired. Pure."""
    known = {name.lower() for name in paired}
    parsed = (parse_backlog_path(path) for path in paths)
    return sorted({found[0].lower() for found in parsed if found} - known)


def _share_fill(connected: PairedServiceBusClient, pair: str, queues: list[BacklogQueueInfo], at: datetime) -> None:
    """Report fill levels to the senders, and record events of queues that are or will soon be too full."""
    sizes = {queue.path: (queue.size_bytes, queue.max_size_bytes) for queue in queues if queue.max_size_bytes}
    for path, fill in SharedBacklog(shared_state(pair)).record(sizes, at.timestamp()).items():
        connected.pair_state.emit("capacity_warning", path, fill.describe())


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
    message_counts.record_waiting(pair, waiting, at, complete=exact, all_seen=seen, oldest=oldest)
    message_counts.record_deliverable(pair, {one.queue: one.waiting for one in counted}, at)
