"""The syphon over the blocking SDK: brings the backlog queues of a pair home, each on a thread of its own.

What happens to a message is decided in ``pairing.homecoming``; here its actions are performed, on links that never
hang. With coordination each queue is served under a lease, and pauses are obeyed.
"""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus import ServiceBusReceiver
from azure.servicebus.exceptions import (
    MessageNotFoundError,
    MessageSizeExceededError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
)

from pairing.availability import State
from pairing.clock import seconds
from pairing.destinations import Destinations
from pairing.drive import drive
from pairing.errors import Fault
from pairing.faults import classify, condition, describe, is_ambiguous
from pairing.homecoming import (
    BATCH,
    Action,
    Failed,
    Fetch,
    Homecoming,
    Item,
    Peek,
    Progress,
    Receive,
    Renew,
    Rest,
    Send,
    Sent,
    Settle,
    Settled,
    Why,
)
from pairing.ledger import Ledger
from pairing.links import Link, LinkFailure
from pairing.metering import billing_units
from pairing.settlement import Settlement, choose
from pairing.sizes import message_size
from pairing.tenure import Tenure

if TYPE_CHECKING:
    from pairing.client import PairedServiceBusClient

_OPEN_S = 10.0
_SEND_S = 10.0
_SETTLE_S = 15.0
_GRANT_S = 900.0
_PAGE = 100
_ASK_S = 5.0


class Syphon:
    """Brings messages home from the backlog queues of an open client's pair, at least once and never losing one."""

    def __init__(self, client: "PairedServiceBusClient") -> None:
        self._client = client
        options = client.options
        self._destinations = Destinations(
            self._is_failed_over, first_pause_s=seconds(options.syphon_retry_interval), max_rate=options.max_rate
        )
        self._senders: dict[str, Link] = {}
        self._lock = threading.Lock()
        self.progress: dict[str, Progress] = {}
        """How far each backlog queue's homecoming is, by path; read it while ``run`` goes on."""

    def run(self, stop: threading.Event) -> None:
        """Moves messages until ``stop``; within 2 s of it no new receive or send begins.

        What is in flight gets the close grace. Raises nothing because of an outage: it waits, and says so in
        ``progress``.
        """
        client = self._client
        tenure = Tenure(client.coordination, client.process, client.backlog_paths, self._tell_pause)
        self.tell("syphon_started", "*", f"at {client.process}")
        try:
            tenure.hold_until(stop, self._serve, seconds(client.options.close_grace))
        finally:
            for link in self._senders.values():
                link.close(0)
            self.tell("syphon_stopped", "*", f"at {client.process}")

    def tell(self, kind: str, entity: str, reason: str) -> None:
        """Tells callbacks and the fleet of an event."""
        self._client.emit(kind, entity, reason)

    def _tell_pause(self, queue: str, is_paused: bool, by: str, reason: str) -> None:
        self.tell("syphon_paused" if is_paused else "syphon_resumed", queue, f"{reason} ({by})" if by else reason)

    def _is_failed_over(self, path: str) -> bool:
        machine = self._client.availability(path)
        return machine.state is State.FAILED_OVER

    def _serve(self, queue: str, may_work: Callable[[], bool], rest: Callable[[float], None]) -> None:
        """One backlog queue, until ``may_work`` ends."""
        options = self._client.options
        progress = self.progress.get(queue) or Progress(queue, Ledger(queue))
        self.progress[queue] = progress
        homecoming = Homecoming(
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
        hands = Hands(self._client, queue, self._sender, rest)
        try:
            drive(homecoming.run(), hands.perform)
        finally:
            progress.state = "stopped"
            hands.close()

    def _sender(self, path: str) -> Link:
        with self._lock:
            link = self._senders.get(path)
            if link is None:
                client = self._client
                link = self._senders[path] = Link(lambda: client.sdk_sender("primary", path), client.watchdog)
            return link


class Hands:
    """Performs the actions of one queue's homecoming, and meters them."""

    def __init__(
        self,
        client: "PairedServiceBusClient",
        queue: str,
        sender: Callable[[str], Link],
        rest: Callable[[float], None],
    ) -> None:
        self._client, self._queue, self._sender, self._rest = client, queue, sender, rest
        self._link = Link(cast("Callable[[], Any]", self._make_receiver), client.watchdog)
        self._settlement: Settlement | None = None
        self._granted: Any = None
        self._granted_at = 0.0
        self._is_grant_empty = False

    def perform(self, action: Action) -> Any:
        """The outcome of one action; nothing is raised."""
        match action:
            case Receive():
                return self._receive(action)
            case Send():
                return self._send(action)
            case Settle():
                return self._settle(action)
            case Fetch():
                return self._fetch(action.numbers)
            case Peek():
                return self._peek(action.number)
            case Renew():
                return self._renew(action.items)
            case Rest():
                return self._rest(action.seconds)

    def close(self) -> None:
        """Gives the link up: what was granted and not delivered goes back to the queue."""
        self._end_grant()
        self._link.close(1.0)

    # The backlog queue ---------------------------------------------------------------------------------------------

    def _make_receiver(self) -> ServiceBusReceiver:
        """With prefetch the SDK grants credit once, for a whole batch, and waits for it without sending anything."""
        return self._client.secondary.sdk.get_queue_receiver(self._queue, prefetch_count=BATCH - 1, keep_alive=0)

    def _with_receiver(self, operation: Callable[[ServiceBusReceiver, float], Any], timeout_s: float) -> Any:
        """What the operation returns, or Failed."""
        answers: list[Any] = []

        def attempt(receiver: Any, left_s: float) -> None:
            answers.append(operation(receiver, left_s))

        opening_s = 0.0 if self._link.sender is not None else _OPEN_S
        failure = self._link.attempt(attempt, timeout_s + opening_s)
        return Failed(describe(failure.error)) if failure is not None else answers[0]

    def _receive(self, action: Receive) -> Any:
        if self._granted is not None and time.monotonic() - self._granted_at > _GRANT_S:
            self.close()
            self._link = Link(cast("Callable[[], Any]", self._make_receiver), self._client.watchdog)

        def receive(receiver: ServiceBusReceiver, left_s: float) -> list[Any]:
            self._note_grant(receiver)
            return receiver.receive_messages(max_message_count=action.count, max_wait_time=action.wait_s)

        received = self._with_receiver(receive, action.wait_s + 5.0)
        if isinstance(received, Failed):
            self._end_grant()
        elif received:
            self._is_grant_empty, self._granted_at = False, time.monotonic()
            self._count_received(received)
        return received

    def _note_grant(self, receiver: ServiceBusReceiver) -> None:
        if receiver is not self._granted:
            self._end_grant()
            self._granted, self._granted_at, self._is_grant_empty = receiver, time.monotonic(), True

    def _end_grant(self) -> None:
        """A grant of link credit that ends without a delivery is an empty receive."""
        if self._granted is not None and self._is_grant_empty:
            self._count("syphon_receive_empty", self._queue, billing_units=1)
        self._granted = None

    def _count_received(self, received: list[Any]) -> None:
        for message in received:
            path = (message.application_properties or {}).get(b"x-ms-path")
            size = message_size(message)
            entity = path.decode(errors="replace") if isinstance(path, bytes) else self._queue
            self._count("syphon_receive", entity, messages=1, bytes=size, billing_units=billing_units(size))

    def _fetch(self, numbers: list[int]) -> Any:
        found: list[Any] = []
        for part in _by_partition(numbers):
            fetched = self._with_receiver(partial(_fetch_all, numbers=part), _SETTLE_S)
            if isinstance(fetched, Failed):
                if not found:
                    return fetched
                break
            found += fetched
        self._count_received(found)
        return found

    def _peek(self, number: int) -> Any:
        self._count("manage", self._queue, billing_units=1)
        return self._with_receiver(
            lambda receiver, left: receiver.peek_messages(_PAGE, sequence_number=number, timeout=left), _SETTLE_S
        )

    def _renew(self, items: list[Item]) -> None:
        for item in items:
            self._count("manage", self._queue, billing_units=1)
            renewed = self._with_receiver(partial(_renew, item=item), _SETTLE_S)
            if isinstance(renewed, Failed):
                return

    def _settle(self, action: Settle) -> list[Settled]:
        outcomes: list[Settled] = []
        messages = [item.received for item in action.items]

        def settle(receiver: ServiceBusReceiver, left_s: float) -> None:
            if self._settlement is None:
                self._settlement = choose(receiver)
            way = self._settlement
            for outcome in way.settle(receiver, action.verb, messages, action.reason, action.description, left_s):
                outcomes.append(outcome)

        self._with_receiver(settle, _SETTLE_S)
        for item, outcome in zip(action.items, outcomes, strict=False):
            if outcome == "done":
                self._count("syphon_settle", item.path or self._queue, messages=1, billing_units=1)
        return outcomes + ["unknown"] * (len(messages) - len(outcomes))

    def _count(self, kind: str, entity: str, **numbers: int) -> None:
        self._client.meter.count(kind, self._client.secondary.namespace, entity, **numbers)

    # The primary ---------------------------------------------------------------------------------------------------

    def _send(self, action: Send) -> Sent:
        link, acknowledged = self._sender(action.path), 0
        while acknowledged < len(action.items):
            rest = action.items[acknowledged:]
            count, failure = self._send_some(link, rest)
            if failure is not None and failure.reused and is_ambiguous(failure.error):
                count, failure = self._send_some(link, rest)  # a link gone stale says nothing of the destination
            if failure is not None:
                self._client.meter.count("syphon_send", self._client.primary.namespace, action.path)
                return Sent(acknowledged, self._why(failure.error, action.path), describe(failure.error))
            self._count_sent(action.path, rest[:count])
            acknowledged += count
        return Sent(acknowledged)

    def _why(self, error: Exception, path: str) -> Why:
        """Whose fault it is; the service refuses the token for an entity that is gone as it refuses a wrong key."""
        why = why_refused(error)
        if why == "outage" and isinstance(error, ServiceBusAuthenticationError) and self._is_gone(path):
            return "final"
        return why

    def _is_gone(self, path: str) -> bool:
        """Whether the primary's administration says that there is no such entity; False where it says nothing."""
        administration = self._client.primary.administration
        self._client.meter.count("manage", self._client.primary.namespace, path, operations=2, billing_units=2)
        for look in (administration.get_queue, administration.get_topic):
            try:
                look(path, connection_timeout=_ASK_S, read_timeout=_ASK_S)
            except ResourceNotFoundError:
                continue
            except Exception:
                return False
            return False
        return True

    def _send_some(self, link: Link, items: list[Item]) -> tuple[int, LinkFailure | None]:
        """As many as one transfer takes, from the first on: how many these were, and why they failed."""
        counts: list[int] = []

        def send(sender: Any, left_s: float) -> None:
            if len(items) == 1:
                sender.send_messages(items[0].message, timeout=left_s)
                counts.append(1)
                return
            batch = sender.create_message_batch()
            for item in items:
                try:
                    batch.add_message(item.message)
                except MessageSizeExceededError:
                    break
            sender.send_messages(batch if len(batch) else items[0].message, timeout=left_s)
            counts.append(max(len(batch), 1))

        failure = link.attempt(send, _SEND_S)
        return (counts[0] if failure is None else 0), failure

    def _count_sent(self, path: str, items: list[Item]) -> None:
        sizes = [message_size(item.message) for item in items]
        self._client.meter.count(
            "syphon_send",
            self._client.primary.namespace,
            path,
            messages=len(items),
            bytes=sum(sizes),
            billing_units=sum(map(billing_units, sizes)),
        )


def _renew(receiver: ServiceBusReceiver, timeout_s: float, *, item: Item) -> None:
    receiver.renew_message_lock(item.received, timeout=timeout_s)


def _fetch_all(receiver: ServiceBusReceiver, timeout_s: float, *, numbers: list[int]) -> list[Any]:
    """Those deferred messages that are still there: one that is gone makes the service refuse them all."""
    try:
        return receiver.receive_deferred_messages(numbers, timeout=timeout_s)
    except MessageNotFoundError:
        if len(numbers) == 1:
            return []
        half = len(numbers) // 2
        halves = numbers[:half], numbers[half:]
        return [message for part in halves for message in _fetch_all(receiver, timeout_s, numbers=part)]


def _by_partition(numbers: list[int]) -> list[list[int]]:
    parts: dict[int, list[int]] = {}
    for number in numbers:
        parts.setdefault(number >> 48, []).append(number)
    return list(parts.values())


def why_refused(error: Exception) -> Why:
    """Whose fault a failed send is, as the syphon sees it."""
    inner = getattr(error, "inner_exception", None)
    if isinstance(error, ValueError | TypeError) or isinstance(inner, ValueError | TypeError):
        return "ours"
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
