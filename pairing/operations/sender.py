"""The operations of a sender, shared by the blocking and the asyncio ``PairedSender``."""

from abc import abstractmethod
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch

from pairing.clock import seconds
from pairing.drive import Eventually, Operation, Reply, call, nested
from pairing.health.availability import HEALTHY
from pairing.health.faults import condition, is_ambiguous
from pairing.health.flows import DONE, Outcome, Pause, SendAction, ToBacklog, ToPrimary, Wait
from pairing.links import LinkFailure
from pairing.messages.payload import Messages, PairedMessageBatch, Payload, payload, plain_size, scheduled_payload
from pairing.operations.client import ClientOperations
from pairing.paired import CLOSE_S
from pairing.sending import LONGEST_OPENING_S, SenderCore
from pairing.sessions.required import NOT_ALLOWED

if TYPE_CHECKING:  # loaded by a client that keeps the order of sessions, and only there
    from pairing.sessions.order import Consult, Move, OrderAction

T = TypeVar("T")
Attempt = Callable[[float], Operation[LinkFailure | None]]
"""One attempt on the primary with its timeout, if it is not a plain send of all messages."""


class SendingLink(Protocol):
    """A link to the primary, for threads or asyncio."""

    @property
    def sender(self) -> Any: ...

    def send(self, message: Any, timeout_s: float) -> Eventually[LinkFailure | None]: ...

    def attempt(self, operation: Callable[[Any, float], Any], timeout_s: float) -> Eventually[LinkFailure | None]: ...

    def warm(self, timeout_s: float) -> Eventually[LinkFailure | None]: ...

    def close(self, timeout_s: float) -> Eventually[None]: ...


class SendOperations(SenderCore):
    """The operations of a sender on a link; methods of the blocking and the asyncio sender run them."""

    _link: SendingLink

    def __init__(self, client: ClientOperations[Any, Any, Any, Any], entity_name: str, link: SendingLink) -> None:
        super().__init__(client, entity_name)
        self._client = client
        self._link = link

    @abstractmethod
    def _drive(self, operation: Operation[T]) -> Eventually[T]:
        """Run an operation."""

    @abstractmethod
    def _sleep(self, wait_s: float) -> Eventually[None]:
        """Wait for this time."""

    @abstractmethod
    def _wait_for_failover(self, wait_s: float) -> Eventually[None]:
        """Wait for this time, or until the entity fails over."""

    @abstractmethod
    def _ask_fleet(self, action: "Consult | Move") -> Eventually[Reply]:
        """Perform an action on the order of a session in Redis."""

    def _plain_size(self, message: Any, timeout: float | None) -> int:
        """The size of a plain message that needs only one attempt on the healthy primary; 0 for all others."""
        client = self._client
        if (
            timeout is None
            and self._machine.state is HEALTHY
            and self._may_be_short
            and client.refusal is None
            and not self._closed
        ):
            return plain_size(message, client.backlog_limit)
        return 0

    def _note_accepted(self, size: int, message: Any) -> None:
        """A plain message of this size was accepted: meter it, and note it for the entity."""
        at = self._now()
        if at >= self._meter.minute_ends:
            self._meter.turn(at)
        self._note(size)
        if self._machine.state is HEALTHY:
            self._machine.accepted(at)
        else:
            self._entity.sent(at)
        if not self._has_warmed:
            self._warm_backlog(message)

    def _send(
        self, message: Messages | ServiceBusMessageBatch, timeout: float | None, began_at: float
    ) -> Operation[None]:
        with self._traced("send"):
            self._check_live()
            timeout_s = self._timeout_s if timeout is None else self._checked(timeout)
            work = self._measured(payload(message, self.entity_name))
            if work is not None:
                yield from nested(self._flow(work, timeout_s, began_at), partial(self._perform, work, None))

    def _send_after(
        self, failure: LinkFailure, message: Messages | ServiceBusMessageBatch, began_at: float
    ) -> Operation[None]:
        """Continue the send of a plain message whose first attempt on the primary has failed."""
        work = self._measured(payload(message, self.entity_name))
        assert work is not None
        first: Outcome | None = self._sent(work, failure)

        def perform(action: "SendAction | OrderAction") -> Operation[Reply]:
            nonlocal first
            if first is not None and isinstance(action, ToPrimary):
                outcome, first = first, None
                return action.reply(outcome)
            return (yield from self._perform(work, None, action))

        yield from nested(self._flow(work, self._timeout_s, began_at), perform)

    def _schedule(self, messages: Messages, when: datetime, timeout: float | None) -> Operation[list[int]]:
        with self._traced("schedule"):
            self._check_live()
            timeout_s = self._checked(timeout)
            work = self._measured(scheduled_payload(messages, when, self.entity_name))
            if work is None:
                return []
            outgoing, numbers = work.outgoing, list[int]()

            def schedule(sender: Any, left: float) -> Operation[None]:
                numbers[:] = yield from call(sender.schedule_messages, outgoing, when, timeout=left)

            attempt = partial(call, self._link.attempt, lambda sender, left: self._drive(schedule(sender, left)))
            flow = self._flow(work, timeout_s, self._now())
            queue = yield from nested(flow, partial(self._perform, work, attempt))
            return numbers if queue is None else self._in_backlog()

    def _cancel(self, sequence_numbers: int | list[int], timeout: float | None) -> Operation[None]:
        self._check_live()
        timeout_s = self._checked(timeout)
        numbers = self._cancellable(sequence_numbers)
        if not numbers:
            return

        def cancel(sender: Any, left: float) -> Any:
            return sender.cancel_scheduled_messages(numbers, timeout=left)

        until = self._now() + timeout_s
        failure = yield from call(self._link.attempt, cancel, timeout_s / 2)
        if failure is not None and failure.reused and is_ambiguous(failure.error):
            failure = yield from call(self._link.attempt, cancel, until - self._now())
        self._meter.count("manage", self._client.primary.namespace, self.entity_name, billing_units=0 if failure else 1)
        if failure is not None:
            raise failure.error

    def _create_batch(self, max_size_in_bytes: int | None) -> Operation[PairedMessageBatch]:
        self._check_live()
        if not self._entity.is_failed_over(self._now()):
            yield from call(self._link.warm, min(LONGEST_OPENING_S, self._timeout_s / 2))
        if not self._has_warmed:
            self._warm_backlog()  # in the background: later the batch knows the limit of the backlog
        return self._batch(self._link.sender, max_size_in_bytes)

    def _close(self) -> Operation[None]:
        self._closed = True
        yield from call(self._link.close, min(CLOSE_S - 1.0, seconds(self._client.options.close_grace)))

    # Performing the flow's actions ---------------------------------------------------------------------------------

    def _perform(self, work: Payload, attempt: Attempt | None, action: "SendAction | OrderAction") -> Operation[Reply]:
        match action:
            case ToBacklog():
                return action.reply((yield from self._client.send_to_backlog(action.part or work, action)))
            case ToPrimary(part=None) if attempt is not None:
                return action.reply(self._sent(work, (yield from attempt(action.timeout_s))))
            case ToPrimary():
                part: Payload = action.part or work
                failure = yield from call(self._link.send, part.outgoing, action.timeout_s)
                return action.reply(self._sent(part, failure))
            case Wait():
                yield from call(self._wait_for_failover, action.seconds)
                return action.reply(None)
            case Pause():
                yield from call(self._sleep, action.seconds)
                return action.reply(None)
            case order_action:  # mypy sees that only these are left
                return (yield from call(self._ask_fleet, order_action))

    def _sent(self, work: Payload, failure: LinkFailure | None) -> Outcome:
        """Meter an attempt on the primary, and return its outcome."""
        if not self._has_warmed:
            self._warm_backlog(work.messages[0])
        if failure is None or not failure.is_crowded:
            self._client.count_primary(work, accepted=failure is None)
        if failure is None:
            return DONE
        if condition(failure.error) == NOT_ALLOWED:
            self._client._required_sessions.ask(self.entity_name)
        return self._client.failed(failure.error, self.entity_name, reused=failure.reused)

    def _warm_backlog(self, message: ServiceBusMessage | None = None) -> None:
        """Once a send to the primary was tried, open the link to the probable backlog queue in the background.

        The first message also shows whether the entity may require sessions.
        """
        self._has_warmed = message is not None
        if message is not None and message.session_id is not None:
            self._client._required_sessions.ask(self.entity_name)
        queue = self._backlog.choose(())
        if queue is not None:
            self._client.warm(queue)

    @property
    def client_identifier(self) -> str:
        """The name of this sender in errors of the service; empty while nothing is open."""
        return str(getattr(self._link.sender, "client_identifier", ""))
