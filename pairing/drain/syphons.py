"""What the syphons of both worlds share: what they know, how they meter, and whose fault a failed send is."""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from azure.servicebus.exceptions import (
    MessageSizeExceededError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
)

from pairing.clock import seconds
from pairing.drain.actions import Failed, Item, Progress, Settled, Why
from pairing.drain.destinations import Destinations
from pairing.drain.flow import Homecoming
from pairing.drain.lease_holder import Tenure
from pairing.drain.ledger import Ledger
from pairing.drain.losses import estimated, messages
from pairing.drain.pacing import Pacing
from pairing.drain.sorting import path_of
from pairing.drain.stored_ledger import Books, same_queue
from pairing.errors import Fault
from pairing.health.availability import State
from pairing.health.faults import CANNOT_ENCODE, classify, condition, describe
from pairing.links import LinkCrowdedError
from pairing.messages.sizes import STEP, received_size
from pairing.sessions.drain import Bar, Barred, InTurn, Lift, SessionMove, TurnSteps
from pairing.sessions.shared import SharedSessions
from pairing.telemetry.metering import billing_units

if TYPE_CHECKING:
    from pairing.paired import PairedClient

GRANT_S = 900.0
"""How long one grant of link credit lasts while nothing comes."""
PAGE = 100
_REWRITING = 1024  # bytes that the rewriting for the backlog adds, or less
OPEN_S, SEND_S, SETTLE_S, ASK_S = 10.0, 10.0, 15.0, 5.0


class Syphoning:
    """One syphon of a client, whichever its world."""

    def __init__(self, client: "PairedClient", *, queues: Iterable[str] | None = None) -> None:
        options = client.options
        self._only = None if queues is None else tuple(queues)
        self._of = client
        self._pacing = Pacing(options.max_rate, threading.Lock())
        self._destinations = Destinations(
            self._is_failed_over, first_pause_s=seconds(options.syphon_retry_interval), pacing=self._pacing
        )
        self.progress: dict[str, Progress] = {}
        """How far each backlog queue's homecoming is, by path; read it while ``run`` goes on."""

    def tell(self, kind: str, entity: str, reason: str) -> None:
        """Tells callbacks and the fleet of an event."""
        self._of.emit(kind, entity, reason)

    @property
    def _is_over(self) -> bool:
        """Whether the client is closed or faulted: nothing is left to bring home with."""
        return self._of.state in ("closing", "closed", "faulted")

    def _tenure(self) -> Tenure:
        def tell_pause(queue: str, is_paused: bool, reason: str) -> None:
            self.tell("syphon_paused" if is_paused else "syphon_resumed", queue, reason)

        def queues() -> tuple[str, ...]:
            return self._of.backlog_paths if self._only is None else self._only

        keep_back = self._destinations.keep_back
        return Tenure(
            self._of.coordination, self._of.process, queues, tell_pause, pacing=self._pacing, keep_back=keep_back
        )

    def _homecoming(self, books: Books, queue: str, may_work: Callable[[], bool]) -> Homecoming:
        options = self._of.options
        progress, kept = self.progress.get(queue), books.read()
        self._tell_loss(queue, kept)
        if progress is None or not same_queue(progress.ledger.created_at, kept.created_at):
            progress = self.progress[queue] = Progress(queue, kept)
        else:  # another process may have served the queue since
            progress.ledger.absorb(kept)
        return Homecoming(
            progress,
            self._destinations,
            self,
            may_work=may_work,
            now=time.monotonic,
            utc_now=lambda: datetime.now(UTC),
            first_pause_s=seconds(options.syphon_retry_interval),
            max_attempts=options.max_restore_attempts,
            remaining_ttl=options.ttl_policy == "remaining",
        )

    def _in_turn(self, homecoming: Homecoming, may_work: Callable[[], bool]) -> TurnSteps:
        """The homecoming's steps; where the fleet may keep the order of sessions, in that order."""
        if self._of.coordination is None:
            return homecoming.run()
        order = InTurn(may_work=may_work, now=time.monotonic, note=homecoming.note_deferred)
        homecoming.in_turn = order.in_turn
        return order.run(homecoming.run())

    def _tell_loss(self, queue: str, kept: Ledger) -> None:
        """Who kept these books last and did not close them has died, and its last usage records with it."""
        client = self._of
        lost = estimated(kept, client.pair, client.primary.namespace, client.secondary.namespace)
        if lost and client.coordination is not None and kept.reporter not in ("", client.process):
            client.coordination.record_usage(lost)
            count = messages(kept)
            self.tell("syphon_started", queue, f"after {kept.reporter} died; usage of {count} messages is estimated")
        kept.recent = {}

    def _is_failed_over(self, path: str) -> bool:
        return self._of.availability(path).state is State.FAILED_OVER


def told_sessions(client: "PairedClient", queue: str, action: SessionMove) -> Any:
    """The outcome of an action about barriers; Failed where Redis does not answer. May take 2 s."""
    coordination = client.coordination
    if coordination is None or coordination.shared is None:
        return None
    if not getattr(coordination, "is_connected", True):
        return Failed("Redis is away")
    sessions = SharedSessions(coordination.shared)
    try:
        match action:
            case Barred():
                return sessions.barred(queue)
            case Bar():
                return sessions.bar(queue, action.keys)
            case Lift():
                return sessions.lift(queue, action.drained)
    except Exception as error:
        return Failed(describe(error))


class Tally:
    """Meters what is done for one backlog queue; knows when a grant of link credit has ended without a delivery."""

    def __init__(self, client: "PairedClient", queue: str) -> None:
        self._count = client.meter.count
        self._primary, self._secondary = client.primary.namespace, client.secondary.namespace
        self._queue = queue
        self._sizes: dict[int, int] = {}
        self._granted_by: Any = None
        self._granted_at = 0.0
        self._is_empty = True

    @property
    def grant_is_over(self) -> bool:
        """Whether the grant has lasted its time: then the link is opened anew."""
        return self._granted_by is not None and time.monotonic() - self._granted_at > GRANT_S

    def granted(self, receiver: Any) -> None:
        """A receive begins; credit is granted once by each receiver."""
        if receiver is not self._granted_by:
            self.grant_ended()
            self._granted_by, self._granted_at, self._is_empty = receiver, time.monotonic(), True

    def grant_ended(self) -> None:
        """The link is gone; a grant that brought nothing is an empty receive."""
        if self._granted_by is not None and self._is_empty:
            self._count("syphon_receive_empty", self._secondary, self._queue, billing_units=1)
        self._granted_by = None

    def received(self, messages: list[Any]) -> None:
        """Messages came from the backlog."""
        if messages:
            self._is_empty, self._granted_at = False, time.monotonic()
            self._sizes.clear()
        by_entity: defaultdict[str, list[int]] = defaultdict(list)
        for message in messages:
            size = self._sizes[message.sequence_number] = received_size(message)
            by_entity[path_of(message) or self._queue].append(size)
        for entity, sizes in by_entity.items():
            self._add("syphon_receive", self._secondary, entity, sizes)

    def settled(self, items: list[Item], outcomes: list[Settled]) -> None:
        """Messages were settled in the backlog."""
        done = Counter(item.path for item, outcome in zip(items, outcomes, strict=False) if outcome == "done")
        for path, count in done.items():
            self._count(
                "syphon_settle",
                self._secondary,
                path or self._queue,
                operations=count,
                messages=count,
                billing_units=count,
            )

    def sent(self, path: str, items: list[Item]) -> None:
        """Messages were accepted by the primary."""
        self._add("syphon_send", self._primary, path, [self._restored_size(item) for item in items], operations=1)

    def _restored_size(self, item: Item) -> int:
        """At most what the message takes; as it came, unless that is so little over a billing step that it matters."""
        size = self._sizes.get(item.number, STEP)
        return size if size < STEP or size % STEP > _REWRITING else received_size(item.message)

    def refused(self, path: str) -> None:
        """A send was attempted, and not accepted."""
        self._count("syphon_send", self._primary, path)

    def managed(self, calls: int = 1) -> None:
        """Requests about the backlog queue."""
        self._count("manage", self._secondary, self._queue, operations=calls, billing_units=calls)

    def asked(self, path: str, calls: int) -> None:
        """Administration calls about an entity of the primary."""
        self._count("manage", self._primary, path, operations=calls, billing_units=calls)

    def _add(self, kind: str, namespace: str, entity: str, sizes: list[int], *, operations: int | None = None) -> None:
        self._count(
            kind,
            namespace,
            entity,
            operations=len(sizes) if operations is None else operations,
            messages=len(sizes),
            bytes=sum(sizes),
            billing_units=sum(map(billing_units, sizes)),
        )


class LeaseOver(Exception):
    """The queue is not this process's any more: nothing was handed to the SDK."""


def heed(holds: Callable[[], bool]) -> None:
    """Raises LeaseOver where the lease does not stand: to be asked after every wait, right before the SDK acts."""
    if not holds():
        raise LeaseOver("the lease of the backlog queue is over")


def why_refused(error: Exception) -> Why:
    """Whose fault a failed send is, as the syphon sees it."""
    if isinstance(error, LeaseOver):
        return "lease"
    if isinstance(error, MessageSizeExceededError):  # which is a ValueError, too
        return "message"
    inner = getattr(error, "inner_exception", None)
    if isinstance(error, CANNOT_ENCODE) or isinstance(inner, CANNOT_ENCODE):
        return "ours"
    if isinstance(error, LinkCrowdedError):
        return "busy"
    gone = condition(error) == "amqp:resource-deleted"
    if gone or isinstance(error, MessagingEntityNotFoundError | MessagingEntityDisabledError):
        return "final"
    match classify(error, known=True):
        case Fault.BUSY:
            return "busy"
        case Fault.CALLER:
            return "message"
        case _:
            return "outage"


def by_partition(numbers: list[int]) -> list[list[int]]:
    """Sequence numbers in lists of one partition each, as a fetch takes them."""
    parts: dict[int, list[int]] = {}
    for number in numbers:
        parts.setdefault(number >> 48, []).append(number)
    return list(parts.values())


def filled(batch: Any, items: list[Item]) -> tuple[Any, int]:
    """What one transfer takes of these messages, from the first on, and how many they are."""
    for item in items:
        try:
            batch.add_message(item.message)
        except MessageSizeExceededError:
            break
    return (batch, len(batch)) if len(batch) else (items[0].message, 1)
