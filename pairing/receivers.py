"""The application's receivers: the SDK's own, of the primary, with every operation metered."""

from collections.abc import Callable, Iterator
from typing import Any, cast

from azure.core.paging import ItemPaged
from azure.servicebus import ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSession

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

    def __iter__(self) -> Iterator[ServiceBusReceivedMessage]:
        """The messages as they come, each counted as ``receive``; the SDK's own loop does not ask ``__next__``."""
        for message in super().__iter__():
            count_received(self._count, [message])
            yield message

    def __next__(self) -> ServiceBusReceivedMessage:
        """The next message, counted as ``receive``."""
        message: ServiceBusReceivedMessage = super().__next__()
        count_received(self._count, [message])
        return message


class MeteredSession(ServiceBusSession):
    """A session of the SDK; each request is counted as ``manage``."""

    _count: Count

    def get_state(self, *arguments: Any, **keywords: Any) -> bytes:
        """As in the SDK."""
        self._count("manage", billing_units=1)
        return super().get_state(*arguments, **keywords)

    def set_state(self, *arguments: Any, **keywords: Any) -> None:
        """As in the SDK."""
        self._count("manage", billing_units=1)
        super().set_state(*arguments, **keywords)

    def renew_lock(self, *arguments: Any, **keywords: Any) -> Any:
        """As in the SDK."""
        self._count("manage", billing_units=1)
        return super().renew_lock(*arguments, **keywords)


class MeteredPages(ItemPaged[str]):
    """Pages of the SDK, each counted as ``manage``."""

    _count: Count

    def by_page(self, continuation_token: str | None = None) -> Iterator[Iterator[str]]:
        """As in the SDK."""
        for page in super().by_page(continuation_token):
            self._count("manage", billing_units=1)
            yield page


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
    metered._count = counting(meter, namespace, entity)
    if receiver.session is not None:
        receiver.session.__class__ = MeteredSession
        cast(MeteredSession, receiver.session)._count = metered._count
    return metered


def meter_pages(pages: ItemPaged[str], meter: UsageMeter, namespace: str, entity: str) -> ItemPaged[str]:
    """The pages, counted as they are fetched."""
    pages.__class__ = MeteredPages
    cast(MeteredPages, pages)._count = counting(meter, namespace, entity)
    return pages


def counting(meter: UsageMeter, namespace: str, entity: str) -> Count:
    """Counts what is done for an entity."""
    return lambda kind, **numbers: meter.count(kind, namespace, entity, **numbers)
