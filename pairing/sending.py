"""The common part of all paired senders: everything except network access."""

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from pairing.clock import seconds
from pairing.errors import ScheduledInBacklogError
from pairing.health.faults import is_gone
from pairing.health.flows import first_timeout_s, send_flow
from pairing.messages.payload import PairedMessageBatch, Payload
from pairing.pair import GuardedEntity, SenderBacklog
from pairing.paired import PairedClient

if TYPE_CHECKING:  # loaded by a client that keeps the order, and only there
    from pairing.sessions.order import OrderedFlow, Part

LONGEST_OPENING_S = 10.0
_UNTRACED = nullcontext()


class ScheduledInBacklog(list[int]):
    """The empty list of sequence numbers of messages that were scheduled while their entity was failed over."""


class SenderCore:
    """One sender's view of its entity and of the backlog."""

    def __init__(self, client: PairedClient, entity_name: str) -> None:
        self.entity_name = entity_name
        """Path of its queue or topic."""
        self._pairing = client
        self._entity = GuardedEntity(client.pair_state, entity_name)
        self._machine = self._entity.machine
        self._meter = client.meter
        self._note = client.meter.noting("send", client.primary.namespace, entity_name)
        self._backlog = SenderBacklog(client.pair_state)
        self._now = client.clock.now
        self._timeout_s = seconds(client.options.send_timeout)
        self._first_timeout_s = first_timeout_s(self._timeout_s)
        self._require_headroom = client.options.require_headroom
        self._waits_when_busy = client.options.server_busy == "wait"
        self._preserves_sessions = client.options.preserve_session_order
        self._order = client.fleet.sessions
        self._tracing = client.tracing
        self._may_be_short = self._order is None and self._tracing is None
        self._has_warmed = False
        self._scheduled_in_backlog = False
        self._closed = False

    @property
    def fully_qualified_namespace(self) -> str:
        """Host name of the primary."""
        host: str = self._pairing.primary.endpoint.host
        return host

    def __str__(self) -> str:
        return f"Paired sender, entity: {self.entity_name}"

    def _measured(self, work: Payload | None) -> Payload | None:
        if work is not None:
            if self._tracing is not None:
                self._tracing.carry(work)
            client = self._pairing
            limit = client.backlog_batch_limit if isinstance(work.outgoing, list) else client.backlog_limit
            work.measure(limit, self._require_headroom)
        return work

    def _traced(self, operation: str) -> AbstractContextManager[None]:
        """The span of a call, if tracing is enabled."""
        return _UNTRACED if self._tracing is None else self._tracing.sending(operation, self.entity_name)

    def _flow(self, work: Payload, timeout_s: float, began_at: float) -> "OrderedFlow":
        if self._order is not None:
            parts = self._parts(work)
            if any(session is not None for session, _ in parts):
                return self._order.send(
                    self._entity,
                    self._backlog_for,
                    self._now,
                    timeout_s=timeout_s,
                    wait_when_busy=self._waits_when_busy,
                    is_gone=is_gone,
                    began_at=began_at,
                ).run(parts)
        return send_flow(
            self._entity,
            self._backlog_for(work.session) if self._preserves_sessions else self._backlog,
            self._now,
            timeout_s=timeout_s,
            wait_when_busy=self._waits_when_busy,
            began_at=began_at,
        )

    def _parts(self, work: Payload) -> "list[Part]":
        parts = work.parts()
        for _, part in parts:
            if part is not work:
                part.measure(self._pairing.backlog_limit, False)
        return list(parts)

    def _backlog_for(self, session: str | None) -> SenderBacklog:
        return self._backlog if session is None else SenderBacklog(self._pairing.pair_state, session=session)

    def _in_backlog(self) -> ScheduledInBacklog:
        self._scheduled_in_backlog = True
        return ScheduledInBacklog()

    def _cancellable(self, sequence_numbers: int | list[int]) -> list[int]:
        numbers = [sequence_numbers] if isinstance(sequence_numbers, int) else sequence_numbers
        if isinstance(numbers, ScheduledInBacklog) or (not numbers and self._scheduled_in_backlog):
            raise ScheduledInBacklogError(
                f"the message was scheduled while {self.entity_name} was failed over: it is in a backlog queue, "
                "where it has no sequence number of the primary and cannot be cancelled"
            )
        return numbers

    def _batch(self, sdk_sender: Any, max_size_in_bytes: int | None) -> PairedMessageBatch:
        found = getattr(sdk_sender, "_max_batch_size_on_link", None)
        limit = int(found) if found else self._pairing.backlog_batch_limit
        if max_size_in_bytes and max_size_in_bytes > limit:
            raise ValueError(
                f"Max message size: {max_size_in_bytes} is too large, acceptable max batch size is: {limit} bytes."
            )
        headroom = (lambda: self._pairing.backlog_batch_limit) if self._require_headroom else None
        create = None if self._tracing is None else self._tracing.create
        return PairedMessageBatch(
            max_size_in_bytes or limit, path=self.entity_name, backlog_limit=headroom, create=create
        )

    def _checked(self, timeout: float | None) -> float:
        if timeout is None:
            return self._timeout_s
        if not isinstance(timeout, int | float):
            raise TypeError(f"The timeout must be a number of seconds, not a {type(timeout).__name__}.")
        if not timeout > 0:  # nor is NaN
            raise ValueError("The timeout must be greater than 0.")
        return timeout

    def _check_live(self) -> None:
        refusal = self._pairing.refusal
        if refusal is not None:
            raise refusal
        if self._closed:
            raise ValueError("The sender has been closed. Please use the client to create a new one.")
