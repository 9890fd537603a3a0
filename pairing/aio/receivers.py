"""The application's receivers in asyncio: the SDK's own, of the primary, with every operation metered."""

from collections.abc import Callable
from typing import Any, cast

from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusReceiver

from pairing.metering import UsageMeter
from pairing.receivers import count_received

Count = Callable[..., None]


class MeteredReceiver(ServiceBusReceiver):
    """A receiver of the SDK that counts what it does."""

    _count: Count

    async def receive_messages(self, *arguments: Any, **keywords: Any) -> list[ServiceBusReceivedMessage]:
        """As in the SDK; counted as ``receive``, or ``receive_empty``."""
        return count_received(self._count, await super().receive_messages(*arguments, **keywords))

    async def receive_deferred_messages(self, *arguments: Any, **keywords: Any) -> list[ServiceBusReceivedMessage]:
        """As in the SDK."""
        return count_received(self._count, await super().receive_deferred_messages(*arguments, **keywords))

    async def peek_messages(self, *arguments: Any, **keywords: Any) -> list[ServiceBusReceivedMessage]:
        """As in the SDK; counted as ``manage``."""
        self._count("manage", billing_units=1)
        return await super().peek_messages(*arguments, **keywords)

    async def renew_message_lock(self, *arguments: Any, **keywords: Any) -> Any:
        """As in the SDK; counted as ``manage``."""
        self._count("manage", billing_units=1)
        return await super().renew_message_lock(*arguments, **keywords)

    async def complete_message(self, message: ServiceBusReceivedMessage) -> None:
        """As in the SDK; counted as ``settle``."""
        await super().complete_message(message)
        self._count("settle", messages=1, billing_units=1)

    async def abandon_message(self, message: ServiceBusReceivedMessage) -> None:
        """As in the SDK; counted as ``settle``."""
        await super().abandon_message(message)
        self._count("settle", messages=1, billing_units=1)

    async def defer_message(self, message: ServiceBusReceivedMessage) -> None:
        """As in the SDK; counted as ``settle``."""
        await super().defer_message(message)
        self._count("settle", messages=1, billing_units=1)

    async def dead_letter_message(self, message: ServiceBusReceivedMessage, *arguments: Any, **keywords: Any) -> None:
        """As in the SDK; counted as ``settle``."""
        await super().dead_letter_message(message, *arguments, **keywords)
        self._count("settle", messages=1, billing_units=1)

    async def __anext__(self) -> ServiceBusReceivedMessage:
        """The next message, counted as ``receive``."""
        message: ServiceBusReceivedMessage = await super().__anext__()
        count_received(self._count, [message])
        return message


def meter_receiver(receiver: ServiceBusReceiver, meter: UsageMeter, namespace: str, entity: str) -> ServiceBusReceiver:
    """The receiver, counting from now on; it stays an instance of the SDK's class."""
    receiver.__class__ = MeteredReceiver
    metered = cast(MeteredReceiver, receiver)
    metered._count = lambda kind, **numbers: meter.count(kind, namespace, entity, **numbers)
    return metered
