"""The application's receivers: the SDK's own, of the primary, with every operation metered."""

from collections.abc import Callable
from typing import Any, cast

from azure.servicebus import ServiceBusReceivedMessage, ServiceBusReceiver

from pairing.metering import UsageMeter, billing_units
from pairing.sizes import received_size

Count = Callable[..., None]


class MeteredReceiver(ServiceBusReceiver):
    """A receiver of the SDK that counts what it does."""

    _count: Count

    def receive_messages(self, *arguments: Any, **keywords: Any) -> list[ServiceBusReceivedMessage]:
        """As in the SDK; counted as ``receive``, or ``receive_empty``."""
        return count_received(self._count, super().receive_messages(*arguments, **keywords))

    def receive_deferred_messages(self, *arguments: Any, **keywords: Any) -> list[ServiceBusReceivedMessage]:
        """As in the SDK."""
        return count_received(self._count, super().receive_deferred_messages(*arguments, **keywords))

    def peek_messages(self, *arguments: Any, **keywords: Any) -> list[ServiceBusReceivedMessage]:
        """As in the SDK; counted as ``manage``."""
        self._count("manage", billing_units=1)
        return super().peek_messages(*arguments, **keywords)

    def renew_message_lock(self, *arguments: Any, **keywords: Any) -> Any:
        """As in the SDK; counted as ``manage``."""
        self._count("manage", billing_units=1)
        return super().renew_message_lock(*arguments, **keywords)

    def complete_message(self, message: ServiceBusReceivedMessage) -> None:
        """As in the SDK; counted as ``settle``."""
        super().complete_message(message)
        self._count("settle", messages=1, billing_units=1)

    def abandon_message(self, message: ServiceBusReceivedMessage) -> None:
        """As in the SDK; counted as ``settle``."""
        super().abandon_message(message)
        self._count("settle", messages=1, billing_units=1)

    def defer_message(self, message: ServiceBusReceivedMessage) -> None:
        """As in the SDK; counted as ``settle``."""
        super().defer_message(message)
        self._count("settle", messages=1, billing_units=1)

    def dead_letter_message(self, message: ServiceBusReceivedMessage, *arguments: Any, **keywords: Any) -> None:
        """As in the SDK; counted as ``settle``."""
        super().dead_letter_message(message, *arguments, **keywords)
        self._count("settle", messages=1, billing_units=1)

    def __next__(self) -> ServiceBusReceivedMessage:
        """The next message, counted as ``receive``."""
        message: ServiceBusReceivedMessage = super().__next__()
        count_received(self._count, [message])
        return message


def count_received(count: Count, messages: list[ServiceBusReceivedMessage]) -> list[ServiceBusReceivedMessage]:
    """The messages, counted."""
    if not messages:
        count("receive_empty", billing_units=1)
        return messages
    sizes = [received_size(message) for message in messages]
    count("receive", messages=len(messages), bytes=sum(sizes), billing_units=sum(map(billing_units, sizes)))
    return messages


def meter_receiver(receiver: ServiceBusReceiver, meter: UsageMeter, namespace: str, entity: str) -> ServiceBusReceiver:
    """The receiver, counting from now on; it stays an instance of the SDK's class."""
    receiver.__class__ = MeteredReceiver
    metered = cast(MeteredReceiver, receiver)
    metered._count = lambda kind, **numbers: meter.count(kind, namespace, entity, **numbers)
    return metered
