"""The operations of a sender, shared by the blocking and the asyncio ``PairedSender``."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch
from azure.servicebus.exceptions import OperationTimeoutError

from pairing.drive import Operation, call
from pairing.errors import Fault, ScheduledInBacklogError
from pairing.health.availability import HEALTHY
from pairing.health.faults import condition, is_ambiguous, is_gone
from pairing.health.flows import DONE, LONGEST_ATTEMPT_S, Failed, Outcome, send
from pairing.links.failures import AnyLink, LinkFailure
from pairing.messages.payload import Messages, PairedMessageBatch, Payload, payload, plain_size, scheduled_payload
from pairing.operations.client import ClientOperations
from pairing.pair import GuardedEntity, SenderBacklog
from pairing.paired import CLOSE_S
from pairing.sessions.required import NOT_ALLOWED

if TYPE_CHECKING:
    from pairing.sessions.order import Part

R = TypeVar("R")
LONGEST_OPENING_S = 10.0
_LOOK_S = 0.05
_UNTRACED = nullcontext()
_TOO_LATE = "Rewriting the messages for the backlog took the whole timeout; nothing was sent."


class ScheduledInBacklog(list[int]):
    """The empty list of sequence numbers of messages that were scheduled while their entity was failed over."""


class SendOperations:
    """One sender on a link, and how it attempts to send; methods of the blocking and the asyncio sender run these."""

    def __init__(self, client: ClientOperations[Any, Any, Any, Any], entity_name: str, link: AnyLink) -> None:
        self.entity_name = entity_name
        """Path of its queue or topic."""
        self.fully_qualified_namespace: str = client.primary.endpoint.host
        """Host name of the primary."""
        self._client, self._link, self._runtime = client, link, client._runtime
        self._entity = GuardedEntity(client.pair_state, entity_name)
        self._backlog = SenderBacklog(client.pair_state)
        self._now = client.clock.now
        self._timeout_s = client.options.send_timeout.total_seconds()
        self._first_timeout_s = min(LONGEST_ATTEMPT_S, self._timeout_s / 2)
        self._machine = self._entity.machine
        self._is_plain = client.tracing is None and not client.options.preserve_session_order
        self._waits_when_busy = client.options.server_busy == "wait"
        self._has_warmed = False
        self._scheduled_in_backlog = False
        self._closed = False

    @property
    def client_identifier(self) -> str:
        """The name of this sender in errors of the service; empty while nothing is open."""
        return str(getattr(self._link.sender, "client_identifier", ""))

    def __str__(self) -> str:
        return f"Paired sender, entity: {self.entity_name}"

    # Sending -------------------------------------------------------------------------------------------------------

    def _send(self, message: Messages | ServiceBusMessageBatch, timeout: float | None) -> Operation[None]:
        began_at, client = self._now(), self._client
        self._check_live()
        failure: LinkFailure | None = None
        is_at_ease = timeout is None and self._is_plain and self._machine.state is HEALTHY
        if is_at_ease and (size := plain_size(message, client._backlog_limit)):  # as most are: only attempted
            failure = yield partial(self._link.send, message, self._first_timeout_s)
            if failure is None:
                self._accepted(size, message)
                return
        with self._traced("send"):
            timeout_s = self._checked(timeout)
            work = self._measured(payload(message, self.entity_name))
            if work is not None:
                yield from self._deliver(failure, work, timeout_s, began_at)

    def _accepted(self, size: int, message: Any) -> None:
        """The primary accepted a plain message of this size."""
        client, at = self._client, self._now()
        client.meter.count("send", client.primary.namespace, self.entity_name, messages=1, bytes=size, billing_units=1)
        self._entity.sent(at)
        if not self._has_warmed:
            self._warm_backlog(message)

    def _deliver(
        self, failure: LinkFailure | None, work: Payload, timeout_s: float, began_at: float
    ) -> Operation[str | None]:
        """Send to the primary or a backlog queue, whose path is returned. `failure`: of the first attempt, if any."""
        client, backlog = self._client, self._backlog
        attempts = self if failure is None else _Begun(self, failure)
        if client.options.preserve_session_order:
            if client._fleet.sessions is not None:
                parts = self._parts(work)
                if any(session is not None for session, _ in parts):
                    return self._in_order(work, parts, timeout_s, began_at)
            backlog = self._backlog_for(work.session)
        return send(
            attempts,
            work,
            self._entity,
            backlog,
            self._now,
            timeout_s=timeout_s,
            wait_when_busy=self._waits_when_busy,
            began_at=began_at,
        )

    def _in_order(self, work: Payload, parts: "list[Part]", timeout_s: float, began_at: float) -> Operation[str | None]:
        order = self._client._fleet.sessions
        assert order is not None
        deadline, waits = began_at + timeout_s, self._waits_when_busy
        one_call = order.send(
            self, self._entity, order, self._backlog_for, self._now, deadline, waits, is_gone, began_at
        )
        return one_call.run(work, parts)

    def _parts(self, work: Payload) -> "list[Part]":
        parts = work.parts()
        for _, part in parts:
            if part is not work:
                part.measure(self._client._backlog_limit, False)
        return list(parts)

    def _backlog_for(self, session: str | None) -> SenderBacklog:
        return self._backlog if session is None else SenderBacklog(self._client.pair_state, session=session)

    def _measured(self, work: Payload | None) -> Payload | None:
        client = self._client
        if work is not None:
            if client.tracing is not None:
                client.tracing.carry(work)
            limit = client._backlog_batch_limit if isinstance(work.outgoing, list) else client._backlog_limit
            work.measure(limit, client.options.require_headroom)
        return work

    def _traced(self, operation: str) -> AbstractContextManager[None]:
        """The span of a call, if tracing is enabled."""
        tracing = self._client.tracing
        return _UNTRACED if tracing is None else tracing.sending(operation, self.entity_name)

    # Attempts ------------------------------------------------------------------------------------------------------

    def to_primary(self, work: Payload, timeout_s: float) -> Operation[Outcome]:
        """Send the messages to the entity in the primary."""
        return self._outcome(work, (yield from call(self._link.send, work.outgoing, timeout_s)))

    def _outcome(self, work: Payload, failure: LinkFailure | None) -> Outcome:
        """Meter an attempt on the primary, and return its outcome."""
        client = self._client
        if not self._has_warmed:
            self._warm_backlog(work.messages[0])
        if failure is None or not failure.is_crowded:
            client._count_send("send", client.primary.namespace, work, accepted=failure is None)
        if failure is None:
            return DONE
        if condition(failure.error) == NOT_ALLOWED:
            client._required_sessions.ask(self.entity_name)
        return client._primary_failed(failure.error, self.entity_name, reused=failure.reused)

    def to_backlog(self, work: Payload, queue: str, timeout_s: float) -> Operation[Outcome]:
        """Send the messages, rewritten, to a backlog queue."""
        tracing = self._client.tracing
        if tracing is None:
            return (yield from self._to_backlog(work, queue, timeout_s))
        with tracing.redirecting(queue, work) as ended:
            outcome = yield from self._to_backlog(work, queue, timeout_s)
            ended(outcome)
            return outcome

    def _to_backlog(self, work: Payload, queue: str, timeout_s: float) -> Operation[Outcome]:
        client, until = self._client, self._now() + timeout_s
        if refusal := client._required_sessions.refusal(work.path, work.messages):
            return client._backlog_failed(refusal, reused=False)
        try:
            for _ in work.rewriting():
                if self._now() >= until:
                    return Failed(Fault.CALLER, OperationTimeoutError(message=_TOO_LATE), is_crowded=True)
                yield from self.pause(0)  # let others go on
            outgoing = work.rewritten()
        except Exception as error:
            return client._backlog_failed(error, reused=False)
        failure = yield from call(client._backlog_link(queue).send, outgoing, until - self._now())
        if failure is None or not failure.is_crowded:
            client._count_send("send_backlog", client.secondary.namespace, work, accepted=failure is None)
        return DONE if failure is None else client._backlog_failed(failure.error, reused=failure.reused)

    def wait(self, seconds: float) -> Operation[None]:
        """Wait for this time, or until the entity fails over."""
        until = self._now() + seconds
        while (left := until - self._now()) > 0 and not self._entity.is_failed_over(self._now()):
            yield from self.pause(min(_LOOK_S, left))

    def pause(self, seconds: float) -> Operation[None]:
        """Wait for this time."""
        yield from call(self._runtime.sleep, seconds)

    def ask(self, question: Callable[[], R]) -> Operation[R]:
        """Call a function that may block on Redis."""
        return (yield from call(self._runtime.block, question))

    # Everything else -----------------------------------------------------------------------------------------------

    def _schedule(self, messages: Messages, when: datetime, timeout: float | None) -> Operation[list[int]]:
        began_at = self._now()
        with self._traced("schedule"):
            self._check_live()
            timeout_s = self._checked(timeout)
            work = self._measured(scheduled_payload(messages, when, self.entity_name))
            if work is None:
                return []
            scheduling = _Scheduling(self, when)
            queue = yield from send(
                scheduling,
                work,
                self._entity,
                self._backlog,
                self._now,
                timeout_s=timeout_s,
                wait_when_busy=self._waits_when_busy,
                began_at=began_at,
            )
            if queue is None:
                return scheduling.numbers
            self._scheduled_in_backlog = True
            return ScheduledInBacklog()

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
        client = self._client
        client.meter.count("manage", client.primary.namespace, self.entity_name, billing_units=0 if failure else 1)
        if failure is not None:
            raise failure.error

    def _cancellable(self, sequence_numbers: int | list[int]) -> list[int]:
        numbers = [sequence_numbers] if isinstance(sequence_numbers, int) else sequence_numbers
        if isinstance(numbers, ScheduledInBacklog) or (not numbers and self._scheduled_in_backlog):
            raise ScheduledInBacklogError(
                f"the message was scheduled while {self.entity_name} was failed over: it is in a backlog queue, "
                "where it has no sequence number of the primary and cannot be cancelled"
            )
        return numbers

    def _create_batch(self, max_size_in_bytes: int | None) -> Operation[PairedMessageBatch]:
        self._check_live()
        if not self._entity.is_failed_over(self._now()):
            yield from call(self._link.warm, min(LONGEST_OPENING_S, self._timeout_s / 2))
        if not self._has_warmed:
            self._warm_backlog()  # in the background: later the batch knows the limit of the backlog
        client = self._client
        found = getattr(self._link.sender, "_max_batch_size_on_link", None)
        limit = int(found) if found else client._backlog_batch_limit
        if max_size_in_bytes and max_size_in_bytes > limit:
            raise ValueError(
                f"Max message size: {max_size_in_bytes} is too large, acceptable max batch size is: {limit} bytes."
            )
        headroom = (lambda: client._backlog_batch_limit) if client.options.require_headroom else None
        create = None if client.tracing is None else client.tracing.create
        return PairedMessageBatch(
            max_size_in_bytes or limit, path=self.entity_name, backlog_limit=headroom, create=create
        )

    def _close(self) -> Operation[None]:
        self._closed = True
        yield from call(self._link.close, min(CLOSE_S - 1.0, self._client.options.close_grace.total_seconds()))

    def _warm_backlog(self, message: ServiceBusMessage | None = None) -> None:
        """Once a send to the primary was tried, open the link to the probable backlog queue in the background.

        The first message also shows whether the entity may require sessions.
        """
        self._has_warmed = message is not None
        if message is not None and message.session_id is not None:
            self._client._required_sessions.ask(self.entity_name)
        queue = self._backlog.choose(())
        if queue is not None:
            self._client._warm(queue)

    def _checked(self, timeout: float | None) -> float:
        if timeout is None:
            return self._timeout_s
        if not isinstance(timeout, int | float):
            raise TypeError(f"The timeout must be a number of seconds, not a {type(timeout).__name__}.")
        if not timeout > 0:  # nor is NaN
            raise ValueError("The timeout must be greater than 0.")
        return timeout

    def _check_live(self) -> None:
        refusal = self._client._refusal
        if refusal is not None:
            raise refusal
        if self._closed:
            raise ValueError("The sender has been closed. Please use the client to create a new one.")


class _Begun:
    """The attempts of a call whose first one on the primary has failed."""

    def __init__(self, sender: SendOperations, failure: LinkFailure) -> None:
        self._sender, self._failure = sender, [failure]
        self.to_backlog, self.wait, self.pause, self.ask = sender.to_backlog, sender.wait, sender.pause, sender.ask

    def to_primary(self, work: Payload, timeout_s: float) -> Operation[Outcome]:
        """The outcome of the first attempt, or another one."""
        if self._failure:
            return self._sender._outcome(work, self._failure.pop())
        return (yield from self._sender.to_primary(work, timeout_s))


class _Scheduling:
    """The attempts of one call that schedules messages."""

    def __init__(self, sender: SendOperations, when: datetime) -> None:
        self._sender, self._when = sender, when
        self.numbers: list[int] = []
        """The sequence numbers of the scheduled messages."""
        self.to_backlog, self.wait = sender.to_backlog, sender.wait

    def to_primary(self, work: Payload, timeout_s: float) -> Operation[Outcome]:
        """Schedule the messages in the primary."""
        sender = self._sender

        def schedule(sdk: Any, left: float) -> Any:
            return sender._runtime.run(self._schedule(sdk, work, left))

        return sender._outcome(work, (yield from call(sender._link.attempt, schedule, timeout_s)))

    def _schedule(self, sdk: Any, work: Payload, left: float) -> Operation[None]:
        self.numbers = yield from call(sdk.schedule_messages, work.outgoing, self._when, timeout=left)
