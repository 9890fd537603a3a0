"""The application's receivers: the SDK's own, of the primary, with every operation metered."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, cast

from azure.core.paging import ItemPaged
from azure.servicebus import ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSession

from pairing.messages.sizes import received_size
from pairing.telemetry.metering import UsageMeter, billing_units

Count = Callable[..., None]


class MeteredReceiver(ServiceBusReceiver):
    """A receiver of the SDK that counts what it does."""

    _count: Count

    def _create_handler(self, *arguments: Any, **keywords: Any) -> None:
        """As in the SDK; what it hands back unseen is counted."""
        super()._create_handler(*arguments, **keywords)
        count_handed_back(self, "_message_received")

    def receive_messages(self, *arguments: Any, **keywords: Any) -> list[ServiceBusReceivedMessage]:
        """As in the SDK; counted as ``receive``, or ``receive_empty``."""
        with unless_failed(self._count, "receive"):
            return count_received(self._count, super().receive_messages(*arguments, **keywords))

    def receive_deferred_messages(self, *arguments: Any, **keywords: Any) -> list[ServiceBusReceivedMessage]:
        """As in the SDK."""
        with unless_failed(self._count, "receive"):
            return count_received(self._count, super().receive_deferred_messages(*arguments, **keywords))

    def peek_messages(self, *arguments: Any, **keywords: Any) -> list[ServiceBusReceivedMessage]:
        """As in the SDK; counted as ``manage``."""
        with counted(self._count, "manage", billing_units=1):
            return super().peek_messages(*arguments, **keywords)

    def renew_message_lock(self, *arguments: Any, **keywords: Any) -> Any:
        """As in the SDK; counted as ``manage``."""
        with counted(self._count, "manage", billing_units=1):
            return super().renew_message_lock(*arguments, **keywords)

    def complete_message(self, message: ServiceBusReceivedMessage) -> None:
        """As in the SDK; counted as ``settle``."""
        with counted(self._count, "settle", messages=1, billing_units=1):
            super().complete_message(message)

    def abandon_message(self, message: ServiceBusReceivedMessage) -> None:
        """As in the SDK; counted as ``settle``."""
        with counted(self._count, "settle", messages=1, billing_units=1):
            super().abandon_message(message)

    def defer_message(self, message: ServiceBusReceivedMessage) -> None:
        """As in the SDK; counted as ``settle``."""
        with counted(self._count, "settle", messages=1, billing_units=1):
            super().defer_message(message)

    def dead_letter_message(self, message: ServiceBusReceivedMessage, *arguments: Any, **keywords: Any) -> None:
        """As in the SDK; counted as ``settle``."""
        with counted(self._count, "settle", messages=1, billing_units=1):
            super().dead_letter_message(message, *arguments, **keywords)

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
        with counted(self._count, "manage", billing_units=1):
            return super().get_state(*arguments, **keywords)

    def set_state(self, *arguments: Any, **keywords: Any) -> None:
        """As in the SDK."""
        with counted(self._count, "manage", billing_units=1):
            super().set_state(*arguments, **keywords)

    def renew_lock(self, *arguments: Any, **keywords: Any) -> Any:
        """As in the SDK."""
        with counted(self._count, "manage", billing_units=1):
            return super().renew_lock(*arguments, **keywords)


class MeteredPages(ItemPaged[str]):
    """Pages of the SDK, each counted as ``manage``."""

    _count: Count

    def by_page(self, continuation_token: str | None = None) -> Iterator[Iterator[str]]:
        """As in the SDK."""
        for page in super().by_page(continuation_token):
            self._count("manage", billing_units=1)
            yield page


@contextlib.contextmanager
def unless_failed(count: Count, kind: str) -> Iterator[None]:
    """Counts an operation that fails: an attempt, which nobody bills."""
    try:
        yield
    except BaseException:
        count(kind)
        raise


@contextlib.contextmanager
def counted(count: Count, kind: str, **accepted: int) -> Iterator[None]:
    """Counts an operation: as it is billed where it succeeds, as an attempt where it fails."""
    with unless_failed(count, kind):
        yield
    count(kind, **accepted)


def count_received(count: Count, messages: list[ServiceBusReceivedMessage]) -> list[ServiceBusReceivedMessage]:
    """The messages, counted."""
    if not messages:
        count("receive_empty", billing_units=1)
        return messages
    sizes = [received_size(message) for message in messages]
    count("receive", messages=len(messages), bytes=sum(sizes), billing_units=sum(map(billing_units, sizes)))
    return messages


def count_handed_back(receiver: Any, callback: str) -> None:
    """Have counted as ``receive`` what comes while nobody receives: credit outlives the call that granted it.

    The SDK releases such a message at once and tells nobody; it was delivered, and is billed, all the same.
    """
    handler = getattr(receiver, "_handler", None)
    context = getattr(receiver, "_receive_context", None)
    received = vars(handler).get(callback) if hasattr(handler, "__dict__") else None
    if context is None or received is None:
        return

    def counted(frame: Any, message: Any) -> Any:
        if not context.is_set():
            with contextlib.suppress(Exception):  # of the SDK's making: what comes must not be kept from it
                count_received(receiver._count, [ServiceBusReceivedMessage(message, frame=frame, receiver=receiver)])
        return received(frame, message)

    setattr(handler, callback, counted)


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
