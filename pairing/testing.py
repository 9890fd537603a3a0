"""Fakes for tests, including those of users: a manual clock, namespaces in memory, and a pair over two of them.

Sends use the real rules of failover, rotation and rewriting, and messages the SDK's own encoder. There are no links,
locks, sessions or subscriptions, and nothing takes time: a wait for a busy server advances the clock.
"""

from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Self, assert_never

from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch, ServiceBusReceivedMessage

from pairing.backlog.rotation import backlog_path
from pairing.drive import Reply, drive
from pairing.ends import End, Endpoint
from pairing.health.faults import describe
from pairing.health.flows import (
    DONE,
    OpenFresh,
    Outcome,
    Pause,
    PingAction,
    PingResult,
    SendAction,
    SendPing,
    ToBacklog,
    ToPrimary,
    Wait,
    ping_flow,
)
from pairing.messages.payload import Messages, PairedMessageBatch, Payload, payload
from pairing.messages.rewriting import is_ping, ping_message, restore
from pairing.operations.pinger import PING_BYTES
from pairing.options import SendAvailabilityOptions
from pairing.paired import PairedClient
from pairing.sending import SenderCore
from pairing.sessions.order import Consult, Move, OrderAction

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


class InMemoryPairedClient(PairedClient):
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
        self.namespaces = {"primary": primary, "secondary": secondary}
        self._build(_endpoint("primary", primary), _endpoint("secondary", secondary), options, clock or ManualClock())

    def _end(self, endpoint: Endpoint, namespace: str) -> _InMemoryEnd:
        return _InMemoryEnd(endpoint, namespace, self._end_is_down)

    def open(self) -> None:
        """Ready to send."""
        count = self.options.backlog_queue_count
        self.pair_state.rotation.replace(backlog_path(self.primary.namespace, index) for index in range(count))
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def get_queue_sender(self, queue_name: str) -> "InMemoryPairedSender":
        """A sender for a queue."""
        self._check_name("queue_name", queue_name)
        return InMemoryPairedSender(self, queue_name)

    def get_topic_sender(self, topic_name: str) -> "InMemoryPairedSender":
        """A sender for a topic."""
        self._check_name("topic_name", topic_name)
        return InMemoryPairedSender(self, topic_name)

    def tick(self) -> None:
        """Apply what is due by the clock: overdue entities fail over, holds and probations end."""
        self._tick()

    def ping_due(self) -> list[PingResult]:
        """Ping every entity whose ping is due."""
        now = self.clock.now()
        return [self.ping(entity.path) for entity in self.pair_state.entities() if entity.ping_due(now)]

    def ping(self, path: str) -> PingResult:
        """Ping an entity now."""

        def perform(action: PingAction) -> Reply:
            match action:
                case OpenFresh():
                    return action.reply(DONE)  # there are no links that could fail
                case SendPing():
                    return action.reply(self._send_ping(path))
            assert_never(action)

        result = drive(ping_flow(path, self.clock.now, describe, timeout_s=1.0), perform)
        self.pair_state.pinged(result)
        return result

    def _send_ping(self, path: str) -> Outcome:
        try:
            self.namespaces["primary"].send(path, [ping_message()])
        except Exception as error:
            self.meter.count("ping", self.primary.namespace, path)
            return self.failed(error, path, reused=False)
        self.meter.count("ping", self.primary.namespace, path, messages=1, bytes=PING_BYTES, billing_units=1)
        return DONE

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


class InMemoryPairedSender(SenderCore):
    """Sends by the real rules, in memory."""

    def __init__(self, client: InMemoryPairedClient, entity_name: str) -> None:
        super().__init__(client, entity_name)
        self._client = client

    def __enter__(self) -> "InMemoryPairedSender":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send_messages(self, message: Messages | ServiceBusMessageBatch, *, timeout: float | None = None) -> None:
        """As ``PairedSender.send_messages``."""
        self._check_live()
        timeout_s = self._checked(timeout)
        work = self._measured(payload(message, self.entity_name))
        if work is not None:
            drive(self._flow(work, timeout_s, self._now()), partial(self._perform, work))

    def _perform(self, work: Payload, action: SendAction | OrderAction) -> Reply:
        match action:
            case ToPrimary():
                return action.reply(self._to_primary(work))
            case ToBacklog():
                return action.reply(self._to_backlog(work, action.queue))
            case Wait() | Pause():
                self._client.clock.advance(action.seconds)
                return action.reply(None)
            case Consult() | Move():
                raise NotImplementedError("the order of sessions is not kept in memory")
        assert_never(action)

    def _to_primary(self, work: Payload) -> Outcome:
        client = self._client
        try:
            client.namespaces["primary"].send(self.entity_name, work.messages)
        except Exception as error:
            client.count_primary(work, accepted=False)
            return client.failed(error, self.entity_name, reused=False)
        client.count_primary(work, accepted=True)
        return DONE

    def _to_backlog(self, work: Payload, queue: str) -> Outcome:
        client = self._client
        try:
            outgoing = work.rewritten()
            client.namespaces["secondary"].send(queue, outgoing if isinstance(outgoing, list) else [outgoing])
        except Exception as error:
            client.count_backlog(work, accepted=False)
            return client.backlog_failed(error, reused=False)
        client.count_backlog(work, accepted=True)
        return DONE

    def create_message_batch(self, max_size_in_bytes: int | None = None) -> PairedMessageBatch:
        """As ``PairedSender.create_message_batch``."""
        self._check_live()
        return self._batch(None, max_size_in_bytes)

    def close(self) -> None:
        """Send nothing more."""
        self._closed = True


def _endpoint(role: Any, namespace: InMemoryNamespace) -> Endpoint:
    return Endpoint(role, f"{namespace.name}.servicebus.windows.net", False, None, None, {})
