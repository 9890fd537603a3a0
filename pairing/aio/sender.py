"""The asyncio sender: the SDK's methods, over two namespaces."""

from datetime import datetime
from typing import Never, Self

from azure.servicebus import ServiceBusMessageBatch
from azure.servicebus.aio import ServiceBusSender

from pairing.aio.links import Link
from pairing.drive import run_async
from pairing.messages.payload import Messages, PairedMessageBatch
from pairing.operations.sender import SendOperations


class PairedSender(SendOperations, ServiceBusSender):  # type: ignore[misc]
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

    async def send_messages(
        self, message: Messages | ServiceBusMessageBatch, *, timeout: float | None = None, **unknown: Never
    ) -> None:
        """Return once a namespace has accepted the message, list or batch; raise after ``timeout`` seconds.

        Raises the SDK's own error during the failover interval or for errors of the caller, MessageSizeExceededError
        also for messages that cannot be failed over, BacklogUnavailableError if the entity is failed over and no
        backlog queue accepts.
        """
        await run_async(self._send(message, timeout, **unknown))

    async def schedule_messages(
        self, messages: Messages, schedule_time_utc: datetime, *, timeout: float | None = None, **unknown: Never
    ) -> list[int]:
        """The sequence numbers of the scheduled messages; none if they were scheduled in a backlog queue."""
        return await run_async(self._schedule(messages, schedule_time_utc, timeout, **unknown))

    async def cancel_scheduled_messages(
        self, sequence_numbers: int | list[int], *, timeout: float | None = None, **unknown: Never
    ) -> None:
        """Cancel messages scheduled in the primary; ScheduledInBacklogError for those in a backlog queue."""
        await run_async(self._cancel(sequence_numbers, timeout, **unknown))

    async def create_message_batch(self, max_size_in_bytes: int | None = None) -> PairedMessageBatch:
        """An empty batch with headroom for the backlog; ValueError if the limit exceeds that of the entity."""
        return await run_async(self._create_batch(max_size_in_bytes))

    async def close(self) -> None:
        """Close the sender within 5 s, regardless of the namespaces; idempotent."""
        await run_async(self._close())
