"""Fakes for tests, including those of users: a manual clock, namespaces in memory, and a pair over two of them.

Sends use the real rules of failover, rotation and rewriting, and messages the SDK's own encoder. There are no links,
locks, sessions or subscriptions, and nothing takes time: a wait for a busy server advances the clock.
"""

from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch, ServiceBusReceivedMessage

from pairing.backlog.rotation import backlog_path
from pairing.drive import Operation, run
from pairing.ends import End, Endpoint, Role
from pairing.health.flows import PingResult
from pairing.links.failures import LinkFailure
from pairing.messages.payload import PairedMessageBatch
from pairing.messages.rewriting import is_ping, restore
from pairing.operations.client import ClientOperations
from pairing.operations.pinger import Pinger
from pairing.operations.threads import Threads
from pairing.options import SendAvailabilityOptions
from pairing.sender import PairedSender

_BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock:
    """A clock that stands still until it is advanced; ``now`` starts at 0, on the first day of 2026."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now

    def now(self) -> float:
        """Seconds since the start."""
        return self._now

    def utc(self, at: float) -> datetime:
        """The aware UTC time of the moment ``at``."""
        return _BEGINNING + timedelta(seconds=at)

    def at(self, when: datetime) -> float:
        """The moment of an aware time."""
        return (when - _BEGINNING).total_seconds()

    def advance(self, by: float | timedelta) -> None:
        """Advance by this many seconds; ValueError for a negative number."""
        seconds = by.total_seconds() if isinstance(by, timedelta) else by
        if seconds < 0:
            raise ValueError(f"time does not go back: {seconds}")
        self._now += seconds


class InMemoryNamespace:
    """Queues in memory with injectable failures. A queue exists once something was sent to it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._queues: dict[str, deque[bytes]] = {}
        self._failures: dict[str | None, Exception] = {}

    def fail(self, error: Exception, entity: str | None = None) -> None:
        """From now on, sends to the entity, or to all, raise this."""
        self._failures[entity] = error

    def mend(self, entity: str | None = None) -> None:
        """End the failures of the entity; without one, of all."""
        self._failures = {} if entity is None else {k: v for k, v in self._failures.items() if k != entity}

    def send(self, entity: str, messages: Iterable[ServiceBusMessage]) -> None:
        """Store the messages, all or none; pings are discarded."""
        failure = self._failures.get(entity) or self._failures.get(None)
        if failure is not None:
            raise failure.with_traceback(None)  # otherwise each raise would make it longer
        encoded = [_encoded(message) for message in messages if not is_ping(message)]
        self._queues.setdefault(entity, deque()).extend(encoded)

    def messages(self, entity: str) -> list[ServiceBusReceivedMessage]:
        """The messages in the queue, oldest first; they stay there."""
        return [ServiceBusReceivedMessage.from_bytes(data) for data in self._queues.get(entity, ())]

    def receive(self, entity: str) -> ServiceBusReceivedMessage | None:
        """Remove and return the oldest message; None if the queue is empty."""
        queue = self._queues.get(entity)
        return ServiceBusReceivedMessage.from_bytes(queue.popleft()) if queue else None


def _encoded(message: ServiceBusMessage) -> bytes:
    batch = ServiceBusMessageBatch(max_size_in_bytes=2**62)
    batch.add_message(message)
    section: Any = batch._message[5][0]
    return bytes(section)


class _InMemoryEnd(End):
    def close(self) -> None:
        """Close this end."""
        self._fall("closed")

    def fault(self, error: BaseException) -> None:
        """Declare this end unusable."""
        self._fall("faulted", error)


class _ManualRuntime(Threads):
    """A wait advances the clock, and nothing is concurrent."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def sleep(self, seconds: float) -> None:
        """Advance the clock."""
        self._clock.advance(seconds)

    def spawn(self, operation: Operation[Any], name: str) -> Any:
        """Run it at once."""
        run(operation)


class InMemoryLink:
    """A link to an entity in memory, always open."""

    is_in_use = False
    used_at = 0.0

    def __init__(self, namespace: InMemoryNamespace, entity: str) -> None:
        self._namespace, self._entity = namespace, entity
        self.sender = self

    def attempt(self, operation: Callable[[Any, float], object], timeout_s: float) -> LinkFailure | None:
        """Perform one operation; None if it succeeded."""
        try:
            operation(self, timeout_s)
        except Exception as error:
            return LinkFailure(error, False)
        return None

    def send(self, message: Any, timeout_s: float) -> LinkFailure | None:
        """Send; None if it succeeded."""
        return self.attempt(lambda sender, left: sender.send_messages(message), timeout_s)

    def warm(self, timeout_s: float) -> None:
        """It is open."""

    def maintain(self, now: float) -> bool:
        """It needs nothing."""
        return False

    def close(self, timeout_s: float) -> None:
        """There is nothing to close."""

    def send_messages(self, message: Any, timeout: float | None = None) -> None:
        """As the SDK's sender."""
        messages = message.messages if isinstance(message, PairedMessageBatch) else message
        self._namespace.send(self._entity, messages if isinstance(messages, list) else [messages])


class InMemoryPairedClient(ClientOperations[InMemoryLink, "InMemoryPairedSender", Any, Any]):
    """A paired client over two namespaces in memory, with the real rules and a manual clock.

    Nothing happens automatically: ``tick`` applies what is due, ``ping_due`` pings, ``bring_home`` drains the backlog.
    """

    clock: ManualClock

    def __init__(
        self,
        primary: InMemoryNamespace,
        secondary: InMemoryNamespace,
        *,
        options: SendAvailabilityOptions | None = None,
        clock: ManualClock | None = None,
    ) -> None:
        self.namespaces: dict[Role, InMemoryNamespace] = {"primary": primary, "secondary": secondary}
        clock = clock or ManualClock()
        self._runtime = _ManualRuntime(clock)
        self._build(_endpoint("primary", primary), _endpoint("secondary", secondary), options, clock)
        self.pair_state.on_event = self._callbacks.call
        self._pinger = Pinger(self)

    def _end(self, endpoint: Endpoint, namespace: str) -> _InMemoryEnd:
        return _InMemoryEnd(endpoint, namespace, self._end_is_down)

    def open(self) -> None:
        """Ready to send."""
        count = self.options.backlog_queue_count
        self.pair_state.rotation.replace(backlog_path(self.primary.namespace, index) for index in range(count))
        self._begin_working()

    def _begin_working(self) -> None:
        self._opened()

    def close(self) -> None:
        """Close both ends."""
        if self._begin_closing():
            self.primary.close()
            self.secondary.close()
            self._state = "closed"

    def _stop_working(self) -> None:
        """There is no background work."""

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _sender(self, name: str, **keywords: Any) -> "InMemoryPairedSender":
        return InMemoryPairedSender(self, name, self._link_to("primary", name))

    def _link_to(self, role: Role, name: str, **keywords: Any) -> InMemoryLink:
        return InMemoryLink(self.namespaces[role], name)

    def _all_links(self) -> list[InMemoryLink]:
        return []

    def _forget_links(self) -> None:
        """There are no connections."""

    def tick(self) -> None:
        """Apply what is due by the clock: overdue entities fail over, holds and probations end."""
        self._tick()

    def ping_due(self) -> list[PingResult]:
        """Ping every entity whose ping is due."""
        now = self.clock.now()
        return [self.ping(entity.path) for entity in self.pair_state.entities() if entity.ping_due(now)]

    def ping(self, path: str) -> PingResult:
        """Ping an entity now."""
        return run(self._pinger.ping(path))

    def bring_home(self) -> int:
        """Send the messages in the backlog to their destinations, until one refuses; returns their number."""
        moved = 0
        for queue in self.backlog_paths:
            waiting = self.namespaces["secondary"]._queues.get(queue, deque())
            while waiting:
                path, message = restore(ServiceBusReceivedMessage.from_bytes(waiting[0]))
                if self.pair_state.health(path).state == "failed_over":
                    break
                self.namespaces["primary"].send(path, [message])
                waiting.popleft()
                moved += 1
        return moved


class InMemoryPairedSender(PairedSender):
    """Sends by the real rules, in memory; it schedules and cancels nothing."""


def _endpoint(role: Any, namespace: InMemoryNamespace) -> Endpoint:
    return Endpoint(role, f"{namespace.name}.servicebus.windows.net", False, None, None, {})
