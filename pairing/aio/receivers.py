"""The application's receivers for asyncio: the SDK's receivers of the primary, with metering."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from azure.core.async_paging import AsyncItemPaged
from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusReceiver, ServiceBusSession

from pairing.aio.cancellation import handed_over
from pairing.drive import Operation, run_async
from pairing.operations.receivers import RECEIVER, SESSION, Count, count_handed_back, count_received, metered


def _awaited(operation: Callable[..., Operation[Any]]) -> Callable[..., Awaitable[Any]]:
    async def run_operation(*arguments: Any, **keywords: Any) -> Any:
        return await handed_over(run_async(operation(*arguments, **keywords)))

    return run_operation


@metered(RECEIVER, _awaited)
class MeteredReceiver(ServiceBusReceiver):
    """A receiver of the SDK that counts what it does."""

    _count: Count

    def _create_handler(self, *arguments: Any, **keywords: Any) -> None:
        """As in the SDK; what it hands back unseen is counted."""
        super()._create_handler(*arguments, **keywords)
        count_handed_back(self, "_message_received_async")

    async def __aiter__(self) -> AsyncIterator[ServiceBusReceivedMessage]:
        """The messages as they come, each counted as ``receive``; the SDK's own loop does not ask ``__anext__``."""
        messages = super().__aiter__()
        while True:
            try:
                message = await handed_over(anext(messages))
            except StopAsyncIteration:
                return
            count_received(self._count, [message])
            yield message

    async def __anext__(self) -> ServiceBusReceivedMessage:
        """The next message, counted as ``receive``."""
        message: ServiceBusReceivedMessage = await handed_over(super().__anext__())
        count_received(self._count, [message])
        return message


@metered(SESSION, _awaited)
class MeteredSession(ServiceBusSession):
    """A session of the SDK; each request is counted as ``manage``."""

    _count: Count


class MeteredPages(AsyncItemPaged[str]):
    """Pages of the SDK, each counted as ``manage``."""

    _count: Count

    async def by_page(self, continuation_token: str | None = None) -> AsyncIterator[AsyncIterator[str]]:
        """As in the SDK."""
        async for page in super().by_page(continuation_token):
            self._count("manage", billing_units=1)
            yield page
