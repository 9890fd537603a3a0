"""The application's receivers in asyncio: the SDK's own, of the primary, with every operation metered."""

from collections.abc import AsyncIterator
from typing import Any, cast

from azure.core.async_paging import AsyncItemPaged
from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusReceiver, ServiceBusSession

from pairing.receivers import Count, count_handed_back, count_received, counted, counting, unless_failed
from pairing.telemetry.metering import UsageMeter


class MeteredReceiver(ServiceBusReceiver):
    """A receiver of the SDK that counts what it does."""

    _count: Count

    def _create_handler(self, *arguments: Any, **keywords: Any) -> None:
        """As in the SDK; what it hands back unseen is counted."""
        super()._create_handler(*arguments, **keywords)
        count_handed_back(self, "_message_received_async")

    async def receive_messages(self, *arguments: Any, **keywords: Any) -> list[ServiceBusReceivedMessage]:
        """As in the SDK; counted as ``receive``, or ``receive_empty``."""
        with unless_failed(self._count, "receive"):
            return count_received(self._count, await super().receive_messages(*arguments, **keywords))

    async def receive_deferred_messages(self, *arguments: Any, **keywords: Any) -> list[ServiceBusReceivedMessage]:
        """As in the SDK."""
        with unless_failed(self._count, "receive"):
            return count_received(self._count, await super().receive_deferred_messages(*arguments, **keywords))

    async def peek_messages(self, *arguments: Any, **keywords: Any) -> list[ServiceBusReceivedMessage]:
        """As in the SDK; counted as ``manage``."""
        with counted(self._count, "manage", billing_units=1):
            return await super().peek_messages(*arguments, **keywords)

    async def renew_message_lock(self, *arguments: Any, **keywords: Any) -> Any:
        """As in the SDK; counted as ``manage``."""
        with counted(self._count, "manage", billing_units=1):
            return await super().renew_message_lock(*arguments, **keywords)

    async def complete_message(self, message: ServiceBusReceivedMessage) -> None:
        """As in the SDK; counted as ``settle``."""
        with counted(self._count, "settle", messages=1, billing_units=1):
            await super().complete_message(message)

    async def abandon_message(self, message: ServiceBusReceivedMessage) -> None:
        """As in the SDK; counted as ``settle``."""
        with counted(self._count, "settle", messages=1, billing_units=1):
            await super().abandon_message(message)

    async def defer_message(self, message: ServiceBusReceivedMessage) -> None:
        """As in the SDK; counted as ``settle``."""
        with counted(self._count, "settle", messages=1, billing_units=1):
            await super().defer_message(message)

    async def dead_letter_message(self, message: ServiceBusReceivedMessage, *arguments: Any, **keywords: Any) -> None:
        """As in the SDK; counted as ``settle``."""
        with counted(self._count, "settle", messages=1, billing_units=1):
            await super().dead_letter_message(message, *arguments, **keywords)

    async def __aiter__(self) -> AsyncIterator[ServiceBusReceivedMessage]:
        """The messages as they come, each counted as ``receive``; the SDK's own loop does not ask ``__anext__``."""
        async for message in super().__aiter__():
            count_received(self._count, [message])
            yield message

    async def __anext__(self) -> ServiceBusReceivedMessage:
        """The next message, counted as ``receive``."""
        message: ServiceBusReceivedMessage = await super().__anext__()
        count_received(self._count, [message])
        return message


class MeteredSession(ServiceBusSession):
    """A session of the SDK; each request is counted as ``manage``."""

    _count: Count

    async def get_state(self, *arguments: Any, **keywords: Any) -> bytes:
        """As in the SDK."""
        with counted(self._count, "manage", billing_units=1):
            return await super().get_state(*arguments, **keywords)

    async def set_state(self, *arguments: Any, **keywords: Any) -> None:
        """As in the SDK."""
        with counted(self._count, "manage", billing_units=1):
            await super().set_state(*arguments, **keywords)

    async def renew_lock(self, *arguments: Any, **keywords: Any) -> Any:
        """As in the SDK."""
        with counted(self._count, "manage", billing_units=1):
            return await super().renew_lock(*arguments, **keywords)


class MeteredPages(AsyncItemPaged[str]):
    """Pages of the SDK, each counted as ``manage``."""

    _count: Count

    async def by_page(self, continuation_token: str | None = None) -> AsyncIterator[AsyncIterator[str]]:
        """As in the SDK."""
        async for page in super().by_page(continuation_token):
            self._count("manage", billing_units=1)
            yield page


def meter_receiver(receiver: ServiceBusReceiver, meter: UsageMeter, namespace: str, entity: str) -> ServiceBusReceiver:
    """The receiver, counting from now on; it stays an instance of the SDK's class."""
    receiver.__class__ = MeteredReceiver
    metered = cast(MeteredReceiver, receiver)
    metered._count = counting(meter, namespace, entity)
    if receiver.session is not None:
        receiver.session.__class__ = MeteredSession
        cast(MeteredSession, receiver.session)._count = metered._count
    return metered


def meter_pages(pages: AsyncItemPaged[str], meter: UsageMeter, namespace: str, entity: str) -> AsyncItemPaged[str]:
    """The pages, counted as they are fetched."""
    pages.__class__ = MeteredPages
    cast(MeteredPages, pages)._count = counting(meter, namespace, entity)
    return pages
