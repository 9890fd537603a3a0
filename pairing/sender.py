"""The blocking sender: the SDK's methods, over two namespaces."""

import time
from collections.abc import Callable
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any

from azure.servicebus import ServiceBusMessageBatch, ServiceBusSender

from pairing.clock import seconds
from pairing.drive import drive
from pairing.health.availability import HEALTHY
from pairing.health.faults import is_ambiguous
from pairing.health.flows import DONE, Action, Outcome, ToBacklog, ToPrimary, Wait, first_timeout_s
from pairing.links import Link, LinkFailure
from pairing.messages.payload import Messages, PairedMessageBatch, Payload, plain_size
from pairing.paired import CLOSE_S
from pairing.sending import LONGEST_OPENING_S, SenderCore
from pairing.sessions.order import Consult, Move, OrderAction, Pause

if TYPE_CHECKING:
    from pairing.client import PairedServiceBusClient


class PairedSender(SenderCore):
    """Sends to one queue or topic: to the primary, or to a backlog queue while the entity is failed over.

    At least once: where the outcome of an attempt is unknown, the message is sent again with the same message_id.
    """

    def __init__(
        self, client: "PairedServiceBusClient", entity_name: str, make: Callable[[], ServiceBusSender]
    ) -> None:
        super().__init__(client, entity_name)
        self._client = client
        self._link = Link(make, client.watchdog)

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
        client, began_at = self._client, self._now()
        # What all the rest comes to for a plain message while all is well, in as few steps as there can be.
        if (
            timeout is None
            and self._machine.state is HEALTHY
            and self._may_be_short
            and client.refusal is None
            and not self._closed
            and (size := plain_size(message, client.backlog_limit))
        ):
            failure = self._link.send(message, self._first_timeout_s)
            if failure is None and self._has_warmed:
                self._note_accepted(size)
            else:
                self._send(message, None, began_at, (failure,))
            return
        with self._traced("send"):
            self._send(message, timeout, began_at, ())

    def _send(
        self,
        message: Messages | ServiceBusMessageBatch,
        timeout: float | None,
        began_at: float,
        tried: tuple[LinkFailure | None, ...],
    ) -> None:
        """Send in all the steps that there may be; ``tried``: how the first attempt ended, where that was made."""
        if not tried:
            self._check_live()
        timeout_s = self._checked(timeout)
        work = self._prepared(message)
        if work is None:
            return
        outgoing, first = work.outgoing, None
        if (
            not tried
            and self._machine.state is HEALTHY
            and (self._order is None or self._order.is_free(self.entity_name))
        ):
            tried = (self._link.send(outgoing, first_timeout_s(timeout_s)),)
        for failure in tried:
            first = self._to_primary(work, failure)
        if first == DONE:
            self._entity.sent(self._now())
        else:
            self._run(work, timeout_s, lambda left: self._link.send(outgoing, left), began_at, first)

    def schedule_messages(
        self, messages: Messages, schedule_time_utc: datetime, *, timeout: float | None = None
    ) -> list[int]:
        """The sequence numbers of the scheduled messages; none where they were scheduled in a backlog queue."""
        with self._traced("schedule"):
            return self._schedule(messages, schedule_time_utc, timeout)

    def _schedule(self, messages: Messages, schedule_time_utc: datetime, timeout: float | None) -> list[int]:
        self._check_live()
        timeout_s = self._checked(timeout)
        work = self._scheduled(messages, schedule_time_utc)
        if work is None:
            return []
        outgoing, numbers = work.outgoing, list[int]()

        def schedule(sender: ServiceBusSender, left: float) -> None:
            numbers[:] = sender.schedule_messages(outgoing, schedule_time_utc, timeout=left)

        queue = self._run(work, timeout_s, lambda left: self._link.attempt(schedule, left), self._now())
        return numbers if queue is None else self._in_backlog()

    def cancel_scheduled_messages(self, sequence_numbers: int | list[int], *, timeout: float | None = None) -> None:
        """Cancel messages scheduled in the primary; ScheduledInBacklogError for those that sit in a backlog queue."""
        self._check_live()
        timeout_s = self._checked(timeout)
        numbers = self._cancellable(sequence_numbers)
        if not numbers:
            return

        def cancel(sender: ServiceBusSender, left: float) -> None:
            sender.cancel_scheduled_messages(numbers, timeout=left)

        until = self._now() + timeout_s
        failure = self._link.attempt(cancel, timeout_s / 2)
        if failure is not None and failure.reused and is_ambiguous(failure.error):
            failure = self._link.attempt(cancel, until - self._now())
        billing_units = 0 if failure else 1
        self._client.meter.count(
            "manage", self._client.primary.namespace, self.entity_name, billing_units=billing_units
        )
        if failure is not None:
            raise failure.error

    def create_message_batch(self, max_size_in_bytes: int | None = None) -> PairedMessageBatch:
        """An empty batch, which keeps room for the backlog; ValueError where the limit is above the entity's own."""
        self._check_live()
        if not self._entity.is_failed_over(self._now()):
            self._link.warm(min(LONGEST_OPENING_S, self._timeout_s / 2))
        if not self._has_warmed:
            self._warm_backlog()  # in the background: soon the batch knows what the backlog takes
        return self._batch(self._link.sender, max_size_in_bytes)

    def close(self) -> None:
        """Close the sender, within 5 s whatever a namespace does; a second time does nothing."""
        self._closed = True
        self._link.close(min(CLOSE_S - 1.0, seconds(self._client.options.close_grace)))

    # Performing the flow's actions ---------------------------------------------------------------------------------

    def _run(
        self,
        work: Payload,
        timeout_s: float,
        attempt: Callable[[float], LinkFailure | None],
        began_at: float,
        first: Outcome | None = None,
    ) -> str | None:
        """Perform a send flow; ``first`` is the outcome of its first attempt on the primary, where that was made."""

        tried = first is not None

        def perform(action: Action | OrderAction) -> Any:
            nonlocal first
            match action:
                case ToPrimary(part=None):
                    made, first = first, None
                    return made or self._to_primary(work, attempt(action.timeout_s))
                case ToPrimary(part=part):
                    return self._to_primary(part, self._link.send(part.outgoing, action.timeout_s))
                case ToBacklog():
                    return self._client.send_to_backlog(action.part or work, action)
                case Wait():
                    self._entity.wait(action.seconds)
                    return DONE
                case Pause():
                    return time.sleep(action.seconds)
                case Consult() | Move():
                    assert self._order is not None
                    return self._order.perform(action)

        return drive(self._flow(work, timeout_s, began_at, tried=tried), perform)

    def _to_primary(self, work: Payload, failure: LinkFailure | None) -> Outcome:
        if not self._has_warmed:
            self._warm_backlog()
        if failure is None or not failure.is_crowded:
            self._client.count_primary(work, accepted=failure is None)
        if failure is None:
            return DONE
        return self._client.failed(failure.error, self.entity_name, reused=failure.reused)

    def _warm_backlog(self) -> None:
        """Once the primary has been tried, the queue that would be sent to is opened in the background."""
        self._has_warmed = True
        queue = self._backlog.choose(())
        if queue is not None:
            self._client.warm(queue)

    @property
    def client_identifier(self) -> str:
        """What the service calls this sender in its errors; empty while nothing is open."""
        sender: Any = self._link.sender
        return str(getattr(sender, "client_identifier", ""))
