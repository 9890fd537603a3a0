"""The receiving application of a test."""

import threading
from collections import Counter
from collections.abc import Sequence

from azure.servicebus import ServiceBusClient, ServiceBusReceiveMode


class Inbox:
    """What has arrived in these queues of the primary, and how often each message did."""

    def __init__(self, connection_string: str, entities: Sequence[str]) -> None:
        self.arrived: Counter[str] = Counter()
        self._connection_string, self._is_over = connection_string, threading.Event()
        self._threads = [threading.Thread(target=self._receive, args=(entity,), daemon=True) for entity in entities]
        for thread in self._threads:
            thread.start()

    def _receive(self, entity: str) -> None:
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        with (
            ServiceBusClient.from_connection_string(self._connection_string) as client,
            client.get_queue_receiver(entity, receive_mode=mode) as receiver,
        ):
            while not self._is_over.is_set():
                for message in receiver.receive_messages(100, max_wait_time=0.5):
                    self.arrived[str(message.message_id)] += 1

    def end(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(60)
