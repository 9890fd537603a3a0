"""The censuses of a pair's backlog queues: taken with its client, stored in Redis, so that any worker can continue.

Redis holds them in the hash `workers:census:<pair>`: backlog queue path → JSON. A lost census starts again.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace

import structlog
from azure.core.exceptions import AzureError
from azure.servicebus import ServiceBusReceivedMessage, ServiceBusReceiver

from dashboard.fleet.depth.census import Census, Peek
from dashboard.site.redis import connection
from pairing import PairedServiceBusClient
from pairing.backlog.administration import BacklogQueueInfo
from pairing.backlog.rotation import parse_backlog_path

MOST_PEEKED = 2_000  # messages per queue and look: peeks are billed
PAGE = 250
PEEK_S = 5.0
KEPT_S = 3600
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Counted:
    """The result of a look at one queue: its known contents, and the number of waiting messages per entity."""

    queue: str
    census: Census
    waiting: Mapping[str, int]


def count(connected: PairedServiceBusClient, queue: BacklogQueueInfo, saved: Census) -> Counted:
    """Continue the census of one queue. If it cannot be peeked, the result is an estimate from the last census."""
    total, census = queue.active + queue.scheduled, deepcopy(saved)
    try:
        if total:
            with connected.secondary.sdk.get_queue_receiver(queue.path) as receiver:
                census.look(total, _peeking(connected, receiver), MOST_PEEKED)
        else:
            census.look(0, lambda _: (), MOST_PEEKED)
    except AzureError as error:
        log.warning("not peeked", queue=queue.path, problem=" ".join(str(error).split())[:500])
        census = replace(saved, is_exact=False)
    return Counted(queue.path, census, census.waiting(total))


def as_counted(queues: Sequence[BacklogQueueInfo], counted: Sequence[Counted]) -> list[BacklogQueueInfo]:
    """The queues with the numbers of messages that were counted in them, where a census has counted all.

    Messages come and go between the namespace's counts and the census; so the depth of a queue is the sum of what
    waits in it for each entity.
    """
    seen = {one.queue: one.census.seen for one in counted if one.census.is_exact}
    return [_with_messages(queue, seen[queue.path]) if queue.path in seen else queue for queue in queues]


def _with_messages(queue: BacklogQueueInfo, messages: int) -> BacklogQueueInfo:
    scheduled = min(queue.scheduled, messages)
    return replace(queue, active=messages - scheduled, scheduled=scheduled)


def _peeking(connected: PairedServiceBusClient, receiver: ServiceBusReceiver) -> Peek:
    def peek(number: int) -> Sequence[ServiceBusReceivedMessage]:
        connected.meter.count("manage", connected.secondary.namespace, "*", operations=1, billing_units=1)
        return receiver.peek_messages(PAGE, sequence_number=number, timeout=PEEK_S)

    return peek


def kept(pair: str, queues: Sequence[BacklogQueueInfo]) -> Iterator[Census]:
    """The censuses of the last look, in the order of the queues; missing ones are empty. Raises RedisError."""
    if not queues:
        return
    for text in connection().hmget(_key(pair), [queue.path for queue in queues]):
        yield Census(**json.loads(text)) if text else Census()


def keep(pair: str, censuses: Mapping[str, Census]) -> None:
    """Store the censuses for the next look by any worker. Raises RedisError."""
    with connection().pipeline(transaction=True) as pipe:
        pipe.delete(_key(pair))
        if censuses:
            pipe.hset(_key(pair), mapping={queue: json.dumps(asdict(one)) for queue, one in censuses.items()})
            pipe.expire(_key(pair), KEPT_S)
        pipe.execute()


def is_named_after(queue: str, primary: str) -> bool:
    """Whether the backlog queue belongs to this primary, by its name."""
    parsed = parse_backlog_path(queue)
    return parsed is not None and parsed[0].lower() == primary.lower()


def _key(pair: str) -> str:
    return f"workers:census:{pair}"
