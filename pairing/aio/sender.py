"""The asyncio sender: the SDK's methods, over two namespaces."""

import asyncio
from collections.abc import Awaitable
from datetime import datetime
from typing import TYPE_CHECKING, Self

from azure.servicebus import ServiceBusMessageBatch

from pairing.aio.links import Link
from pairing.drive import Operation, Reply, run_async
from pairing.messages.payload import Messages, PairedMessageBatch
from pairing.operations.sender import SendOperations, T

if TYPE_CHECKING:  # loaded by a client that keeps the order of sessions, and only there
    from pairing.sessions.order import Consult, Move

_LOOK_S = 0.05


class PairedSender(SendOperations):
    """Sends to one queue or topic: to the primary, or to a backlog queue while the entity is failed over.

    At least once: if the result of an attempt is unknown, the message is sent again with the same message_id. After a
    cancelled call, the message may or may not have been sent.
    """

    _link: Link

    async def __aenter__(self) -> Self:
        self._check_live()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def send_messages(self, message: Messages | ServiceBusMessageBatch, *, timeout: float | None = None) -> None:
        """Return once a namespace has accepted the message: one, a list, or a batch; within ``timeout`` seconds, or
        raise.

        Raises the SDK's own error during the failover interval or for errors of the caller, MessageSizeExceededError
        also for messages that cannot be failed over, BacklogUnavailableError if the entity is failed over and no
        backlog queue accepts.
        """
        began_at = self._now()
        if not (size := self._plain_size(message, timeout)):
            await run_async(self._send(message, timeout, began_at))
        elif failure := await self._link.send(message, self._first_timeout_s):
            await run_async(self._send_after(failure, message, began_at))
        else:
            self._note_accepted(size, message)

    async def schedule_messages(
        self, messages: Messages, schedule_time_utc: datetime, *, timeout: float | None = None
    ) -> list[int]:
        """The sequence numbers of the scheduled messages; none if they were scheduled in a backlog queue."""
        return await run_async(self._schedule(messages, schedule_time_utc, timeout))

    async def cancel_scheduled_messages(
        self, sequence_numbers: int | list[int], *, timeout: float | None = None
    ) -> None:
        """Cancel messages scheduled in the primary; ScheduledInBacklogError for those in a backlog queue."""
        await run_async(self._cancel(sequence_numbers, timeout))

    async def create_message_batch(self, max_size_in_bytes: int | None = None) -> PairedMessageBatch:
        """An empty batch with headroom for the backlog; ValueError if the limit exceeds that of the entity."""
        return await run_async(self._create_batch(max_size_in_bytes))

    async def close(self) -> None:
        """Close the sender within 5 s, regardless of the namespaces; idempotent."""
        await run_async(self._close())

    def _drive(self, operation: Operation[T]) -> Awaitable[T]:
        return run_async(operation)

    async def _sleep(self, wait_s: float) -> None:
        await asyncio.sleep(wait_s)

    async def _wait_for_failover(self, wait_s: float) -> None:
        until = self._now() + wait_s
        while (left := until - self._now()) > 0 and not self._entity.is_failed_over(self._now()):
            await asyncio.sleep(min(_LOOK_S, left))

    async def _ask_fleet(self, action: "Consult | Move") -> Reply:
        assert self._order is not None
        if self._order.is_away:
            return action.unanswered()
        return await asyncio.to_thread(self._order.perform, action)
