"""A local secondary namespace with backlog queues, as tests fill it and look at it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode, ServiceBusReceiver

from dashboard.backlog.orphans import status_of
from pairing.backlog.administration import CREATED_WITH
from pairing.messages.rewriting import to_backlog
from tests.administration import administration_of

ORPHAN = "contoso/x-servicebus-transfer/7"
OWN = "contoso/x-servicebus-transfer/0"


def dead_letter(receiver: ServiceBusReceiver, count: int, reason: str, about: str) -> None:
    """A receiver gives up so many messages."""
    while count:
        for message in receiver.receive_messages(max_message_count=count, max_wait_time=5):
            receiver.dead_letter_message(message, reason, about)
            count -= 1


class Secondary:
    """The namespace by its SDK clients; `primary` is the other one."""

    def __init__(self, strings: Mapping[str, str]) -> None:
        self.strings = strings
        text = strings["CONTOSO_SECONDARY"]
        self.administration = administration_of(text)
        self.primary_administration = administration_of(strings["CONTOSO_PRIMARY"])
        self.client = ServiceBusClient.from_connection_string(text)
        self.primary = ServiceBusClient.from_connection_string(strings["CONTOSO_PRIMARY"])

    @classmethod
    @contextmanager
    def of(cls, strings: Mapping[str, str]) -> Iterator["Secondary"]:
        """Cleared before and closed afterwards."""
        here = cls(strings)
        here.clear()
        try:
            yield here
        finally:
            here.clear()
            here.primary.close()
            here.client.close()
            here.administration.close()
            here.primary_administration.close()

    def clear(self) -> None:
        for queue in list(self.administration.list_queues()):
            self.administration.delete_queue(queue.name)

    def make(self, path: str = ORPHAN, **properties: object) -> str:
        """A backlog queue, as the library makes it but for these properties."""
        self.administration.create_queue(path, **{**CREATED_WITH, **properties})
        return path

    def fill(self, path: str, *bodies: str, entity: str = "orders", **properties: object) -> None:
        """Messages for an entity, on their way through this queue."""
        with self.client.get_queue_sender(path) as sender:
            for body in bodies:
                message = ServiceBusMessage(body, message_id=f"id-of-{body[:40]}", **properties)
                sender.send_messages(to_backlog(message, entity))

    def fill_many(self, path: str, count: int, *, entity: str) -> None:
        """So many small messages for an entity."""
        with self.client.get_queue_sender(path) as sender:
            for first in range(0, count, 100):
                numbers = range(first, min(first + 100, count))
                sender.send_messages([to_backlog(ServiceBusMessage(str(number)), entity) for number in numbers])

    def schedule(self, path: str, count: int, *, entity: str) -> None:
        """So many messages that their queue hands out tomorrow."""
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        with self.client.get_queue_sender(path) as sender:
            sender.schedule_messages([to_backlog(ServiceBusMessage("later"), entity)] * count, tomorrow)

    def dead_letter(self, path: str, count: int, reason: str = "RestoreFailed", about: str = "it was refused") -> None:
        """The first messages of the queue become dead letters."""
        with self.client.get_queue_receiver(path) as receiver:
            dead_letter(receiver, count, reason, about)

    def status(self, path: str) -> str | None:
        """None where there is no such queue."""
        try:
            return status_of(self.administration.get_queue(path))
        except ResourceNotFoundError:
            return None

    def received(self, entity: str, count: int) -> list[str]:
        """The bodies of so many messages of a queue of the primary, and what else is there."""
        found: list[str] = []
        if not count and not self._waits(entity):
            return found
        with self.primary.get_queue_receiver(entity, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
            while len(found) < count or self._waits(entity):
                messages = receiver.receive_messages(max_message_count=100, max_wait_time=5)
                if not messages:
                    break
                found += [str(message) for message in messages]
        return found

    def _waits(self, entity: str) -> bool:
        reported = self.primary_administration.get_queue_runtime_properties(entity)
        return bool(reported.active_message_count)
