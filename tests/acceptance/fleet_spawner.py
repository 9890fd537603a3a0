"""Application processes by the dozen: a program that forks one for each line of JSON on its standard input.

Each is a process of its own, with a paired client that sends on its own pace and tells a listening test what it saw:
`("ready",)`, `("event", kind, entity, at)`, `("heard", "pulled" or "returned", queue, at)` if another process reported
of a backlog queue, `("sent", entity, message_id, took_s)`, `("raised", entity, error, took_s)`, `("answer", value)`.
`at` is `time.monotonic()`, which all processes of a machine share. It ends when the test does.
"""

import json
import os
import signal
import sys
import threading
import time
from datetime import timedelta
from multiprocessing.connection import Client
from typing import Any

from azure.servicebus import ServiceBusMessage

from pairing import Event, PairedServiceBusClient, SendAvailabilityOptions
from pairing.fleet import coordination
from pairing.pair import SenderBacklog


class Application:
    """One process of the fleet."""

    def __init__(self, reported: dict[str, Any]) -> None:
        self._name, self._every_s = reported["name"], reported["every_s"]
        self._entities: list[str] = reported["entities"]
        self._number = 0
        self._lock = threading.Lock()
        self._channel = Client(reported["address"], family="AF_UNIX")
        if reported["reconcile_s"] is not None:
            coordination._RECONCILE_S = reported["reconcile_s"]
        options = SendAvailabilityOptions(
            backlog_queue_count=2,
            creation_retry_interval=timedelta(0),
            coordination=reported["redis"],
            **{name: timedelta(seconds=value) for name, value in reported["durations"].items()},
            **reported["options"],
        )
        self.client = PairedServiceBusClient.from_connection_string(*reported["namespaces"], options=options)
        self.client.on_event(self._note)
        self._take_in, self.client.coordination.on_queue = self.client.coordination.on_queue, self._heard_of_queue

    def tell(self, *what: Any) -> None:
        with self._lock:
            self._channel.send(what)

    def _note(self, event: Event) -> None:
        self.tell("event", event.kind, event.entity, time.monotonic())

    def _heard_of_queue(self, news: Any) -> None:
        self._take_in(news)
        self.tell("heard", "returned" if news.until is None else "pulled", news.path, time.monotonic())

    def live(self) -> None:
        """Sends at its pace and does what the test asks, until the test is gone."""
        self.tell("hello", self._name, os.getpid(), self.client.process)
        with self.client:
            senders = {path: self.client.get_queue_sender(path) for path in self._entities}
            self.tell("ready")
            due = time.monotonic()
            while True:
                if self._channel.poll(max(0.0, due - time.monotonic())):
                    verb, *arguments = self._channel.recv()
                    if verb == "end":
                        break
                    self.tell("answer", getattr(self, verb)(*arguments))
                elif self._entities:
                    due = time.monotonic() + self._every_s
                    for path, sender in senders.items():
                        self._send(path, sender)
                else:
                    due = time.monotonic() + self._every_s
        self.tell("ended")

    def _send(self, path: str, sender: Any) -> None:
        self._number += 1
        message_id, began = f"{self._name}-{self._number}", time.monotonic()
        try:
            sender.send_messages(ServiceBusMessage(b"x", message_id=message_id))
        except Exception as error:
            self.tell("raised", path, repr(error), time.monotonic() - began)
        else:
            self.tell("sent", path, message_id, time.monotonic() - began)

    # What a test may ask -------------------------------------------------------------------------------------------

    def health(self, path: str) -> tuple[str, str | None, bool]:
        """State, who holds it, whether it is disputed."""
        known = self.client.entity_health(path)
        return known.state, known.held_by, known.disputed

    def is_connected(self) -> bool:
        """Whether Redis answers this process."""
        return bool(getattr(self.client.coordination, "is_connected", False))

    def pull(self, queue: int) -> tuple[str, float]:
        """Takes a backlog queue out of the rotation, as if a send to it had failed just now; its path, and when."""
        path, began = self.client.backlog_paths[queue], time.monotonic()
        now = self.client.clock.now()
        SenderBacklog(self.client.pair_state).failed(path, ConnectionError("drill"), now, began=now)
        return path, began

    def bring_back(self, queue: int) -> None:
        """Takes it in again, as if a send to it had been accepted."""
        SenderBacklog(self.client.pair_state).accepted(self.client.backlog_paths[queue], self.client.clock.now())

    def fail_over(self, path: str, reason: str) -> None:
        self.client.fail_over(path, reason, operator="ada")

    def mark_healthy(self, path: str) -> None:
        self.client.mark_healthy(path, operator="ada")

    def emit(self, count: int) -> None:
        """Reports that many events of one entity, in their order."""
        for number in range(count):
            self.client.pair_state.emit("set_aside", f"of {self._name}", str(number))


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them: their connections tell when they end
    for line in sys.stdin:
        if os.fork() == 0:
            try:
                Application(json.loads(line)).live()
            except EOFError:
                pass
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                os._exit(0)


if __name__ == "__main__":
    main()
