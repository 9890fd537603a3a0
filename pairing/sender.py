"""The blocking sender: the SDK's methods, over two namespaces."""

from collections.abc import Callable
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any

from azure.servicebus import ServiceBusMessageBatch, ServiceBusSender

from pairing.clock import seconds
from pairing.drive import drive
from pairing.errors import RETRY_AFTER_S, Fault, ScheduledInBacklogError
from pairing.faults import is_ambiguous
from pairing.flows import DONE, Action, Failed, Outcome, ToBacklog, ToPrimary, Wait, send_flow
from pairing.links import Link, LinkFailure, Operation
from pairing.pair import GuardedEntity, SenderBacklog
from pairing.payload import Messages, PairedMessageBatch, Payload, payload, scheduled_payload

if TYPE_CHECKING:
    from pairing.client import PairedServiceBusClient

_CLOSE_S = 5.0


class ScheduledInBacklog(list[int]):
    """The empty list of sequence numbers of messages that were scheduled while their entity was failed over."""


class PairedSender:
    """Sends to one queue or topic: to the primary, or to a backlog queue while the entity is failed over.

    At least once: where the outcome of an attempt is unknown, the message is sent again with the same message_id.
    """

    def __init__(
        self, client: "PairedServiceBusClient", entity_name: str, make: Callable[[], ServiceBusSender]
    ) -> None:
        self.entity_name = entity_name
        self._client = client
        self._make = make
        self._entity = GuardedEntity(client.pair_state, entity_name)
        self._backlog = SenderBacklog(client.pair_state)
        self._link = Link(make, client.watchdog)
        self._timeout_s = seconds(client.options.send_timeout)
        self._require_headroom = client.options.require_headroom
        self._waits_when_busy = client.options.server_busy == "wait"
        self._preserves_sessions = client.options.preserve_session_order
        self._count = client.meter.count
        self._namespace = client.primary.namespace
        self._has_warmed = False
        self._scheduled_in_backlog = False
        self._closed = False

    def __enter__(self) -> "PairedSender":
        self._check_live()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send_messages(self, message: Messages | ServiceBusMessageBatch, *, timeout: float | None = None) -> None:
        """Return once a namespace has the message: one, a list, or a batch; within ``timeout`` seconds, or raise.

        Raises the SDK's own error while a failure is accepted or the caller's, MessageSizeExceededError also for what
        could not be failed over, BacklogUnavailableError where the entity is failed over and no backlog queue takes it.
        """
        self._check_live()
        timeout_s = self._checked(timeout)
        work = payload(message, self.entity_name)
        if work is None:
            return
        work.measure(self._client.backlog_limit, self._require_headroom)
        outgoing = work.outgoing
        self._run(work, timeout_s, lambda sender, left: sender.send_messages(outgoing, timeout=left))

    def schedule_messages(
        self, messages: Messages, schedule_time_utc: datetime, *, timeout: float | None = None
    ) -> list[int]:
        """The sequence numbers of the scheduled messages; none where they were scheduled in a backlog queue."""
        self._check_live()
        timeout_s = self._checked(timeout)
        work = scheduled_payload(messages, schedule_time_utc, self.entity_name)
        if work is None:
            return []
        work.measure(self._client.backlog_limit, self._require_headroom)
        outgoing, numbers = work.outgoing, list[int]()

        def schedule(sender: ServiceBusSender, left: float) -> None:
            numbers.extend(sender.schedule_messages(outgoing, schedule_time_utc, timeout=left))

        if self._run(work, timeout_s, schedule) is None:
            return numbers
        self._scheduled_in_backlog = True
        return ScheduledInBacklog()

    def cancel_scheduled_messages(self, sequence_numbers: int | list[int], *, timeout: float | None = None) -> None:
        """Cancel messages scheduled in the primary; ScheduledInBacklogError for those that sit in a backlog queue."""
        self._check_live()
        timeout_s = self._checked(timeout)
        numbers = [sequence_numbers] if isinstance(sequence_numbers, int) else sequence_numbers
        if isinstance(numbers, ScheduledInBacklog) or (not numbers and self._scheduled_in_backlog):
            raise ScheduledInBacklogError(
                f"the message was scheduled while {self.entity_name} was failed over: it sits in a backlog queue, "
                "where it has no sequence number of the primary and cannot be cancelled"
            )
        if not numbers:
            return
        failure = self._link.attempt(lambda sender, left: _cancel(sender, numbers, left), timeout_s)
        if failure is not None and failure.reused and is_ambiguous(failure.error):
            failure = self._link.attempt(lambda sender, left: _cancel(sender, numbers, left), timeout_s)
        self._count("manage", self._namespace, self.entity_name, billing_units=0 if failure else 1)
        if failure is not None:
            raise failure.error

    def create_message_batch(self, max_size_in_bytes: int | None = None) -> PairedMessageBatch:
        """An empty batch, which keeps room for the backlog; ValueError where the limit is above the entity's own."""
        self._check_live()
        limit = self._batch_limit()
        if max_size_in_bytes and max_size_in_bytes > limit:
            raise ValueError(
                f"Max message size: {max_size_in_bytes} is too large, acceptable max batch size is: {limit} bytes."
            )
        return PairedMessageBatch(
            max_size_in_bytes or limit, path=self.entity_name, require_headroom=self._require_headroom
        )

    def close(self) -> None:
        """Close the sender, within 5 s whatever a namespace does; a second time does nothing."""
        self._closed = True
        self._link.close(min(_CLOSE_S, seconds(self._client.options.close_grace)))

    @property
    def client_identifier(self) -> str:
        """What the service calls this sender in its errors."""
        return getattr(self._link.sender, "client_identifier", "") or ""

    # Performing the flow's actions ---------------------------------------------------------------------------------

    def _run(self, work: Payload, timeout_s: float, operation: Operation) -> str | None:
        def perform(action: Action) -> Outcome:
            if type(action) is ToPrimary:
                return self._to_primary(work, operation, action.timeout_s)
            if type(action) is ToBacklog:
                return self._client.send_to_backlog(work, action)
            assert type(action) is Wait
            self._entity.wait(action.seconds)
            return DONE

        flow = send_flow(
            self._entity,
            self._backlog_of(work),
            self._client.clock.now,
            timeout_s=timeout_s,
            wait_when_busy=self._waits_when_busy,
        )
        return drive(flow, perform)

    def _to_primary(self, work: Payload, operation: Operation, timeout_s: float) -> Outcome:
        failure = self._link.attempt(operation, timeout_s)
        if not self._has_warmed:
            self._warm_backlog()
        if failure is None:
            self._count(
                "send",
                self._namespace,
                self.entity_name,
                messages=len(work.messages),
                bytes=work.size,
                billing_units=work.units,
            )
            return DONE
        self._count("send", self._namespace, self.entity_name)
        return self._client.failed(failure, self.entity_name)

    def _warm_backlog(self) -> None:
        """Once the primary has been tried, the queue that would be sent to is opened in the background."""
        self._has_warmed = True
        queue = self._backlog.choose(())
        if queue is not None:
            self._client.warm(queue)

    def _backlog_of(self, work: Payload) -> SenderBacklog:
        session = work.session if self._preserves_sessions else None
        return self._backlog if session is None else SenderBacklog(self._client.pair_state, session=session)

    def _batch_limit(self) -> int:
        if not self._entity.is_failed_over(self._client.clock.now()):
            self._link.warm(min(10.0, self._timeout_s / 2))
        told = getattr(self._link.sender, "_max_batch_size_on_link", None)
        return int(told) if told else self._client.backlog_limit

    def _checked(self, timeout: float | None) -> float:
        if timeout is None:
            return self._timeout_s
        if timeout <= 0:
            raise ValueError("The timeout must be greater than 0.")
        return timeout

    def _check_live(self) -> None:
        refusal = self._client.refusal
        if refusal is not None:
            raise refusal
        if self._closed:
            raise ValueError("The sender has been closed. Please use the client to create a new one.")


def _cancel(sender: Any, numbers: list[int], left: float) -> None:
    sender.cancel_scheduled_messages(numbers, timeout=left)


def failed(failure: LinkFailure, fault: Fault) -> Failed:
    """A failure as the flows see it; a busy server's error gets its ``retry_after``, in seconds."""
    if fault is Fault.BUSY:
        failure.error.retry_after = RETRY_AFTER_S  # type: ignore[attr-defined]
    return Failed(fault, failure.error, failure.reused and is_ambiguous(failure.error))
