"""The application's receivers for threads: the SDK's receivers of the primary, with metering."""

from collections.abc import Callable, Iterator
from typing import Any

from azure.core.paging import ItemPaged
from azure.servicebus import ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSession

from pairing.drive import Operation, run
from pairing.links.sockets import close_socket_with
from pairing.operations.receivers import RECEIVER, SESSION, Count, count_handed_back, count_received, metered


def _blocking(operation: Callable[..., Operation[Any]]) -> Callable[..., Any]:
    return lambda *arguments, **keywords: run(operation(*arguments, **keywords))


@metered(RECEIVER, _blocking)
class MeteredReceiver(ServiceBusReceiver):
    """A receiver of the SDK that counts what it does."""

    _count: Count

    def _create_handler(self, *arguments: Any, **keywords: Any) -> None:
        """As in the SDK; what it hands back unseen is counted, and its socket is closed with it."""
        super()._create_handler(*arguments, **keywords)
        count_handed_back(self, "_message_received")
        close_socket_with(self._handler)

    def __iter__(self) -> Iterator[ServiceBusReceivedMessage]:
        """The messages as they arrive, each counted as ``receive``; the SDK's own loop does not call ``__next__``."""
        for message in super().__iter__():
            count_received(self._count, [message])
            yield message

    def __next__(self) -> ServiceBusReceivedMessage:
        """The next message, counted as ``receive``."""
        message: ServiceBusReceivedMessage = super().__next__()
        count_received(self._count, [message])
        return message


@metered(SESSION, _blocking)
class MeteredSession(ServiceBusSession):
    """A session of the SDK; each request is counted as ``manage``."""

    _count: Count


class MeteredPages(ItemPaged[str]):
    """Pages of the SDK, each counted as ``manage``."""

    _count: Count

    def by_page(self, continuation_token: str | None = None) -> Iterator[Iterator[str]]:
        """As in the SDK."""
        for page in super().by_page(continuation_token):
            self._count("manage", billing_units=1)
            yield page
