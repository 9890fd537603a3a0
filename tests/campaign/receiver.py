"""An application that receives everything, and has it in its journal before it settles it.

It uses receivers of the SDK, as a paired client gives them. One that does not come back from the SDK for a long time
ends its process, which is started again: waiting is bounded for sends only.
"""

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusReceivedMessage
from azure.servicebus.exceptions import OperationTimeoutError, ServiceBusError

from pairing import PairedServiceBusClient
from tests.campaign.application import Application, options
from tests.campaign.journal import now
from tests.campaign.letters import digest_of, identity_of, keep_types

STUCK_S = 25.0
STUCK = 3
"""The exit code of a process whose receiver did not come back."""
WAIT_S = 1.0
AT_ONCE = 50


class Receiving:
    """One thread for one inbox."""

    def __init__(self, application: Application, inbox: str, open_: Callable[[], Any]) -> None:
        self._application, self._inbox, self._open = application, inbox, open_
        self.moved_at = time.monotonic()
        self.thread = threading.Thread(target=self._run, name=inbox, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while not self._application.stop.is_set():
            try:
                with self._open() as receiver:
                    self._receive(receiver)
            except OperationTimeoutError:  # no session has messages
                self.moved_at = time.monotonic()
            except (ServiceBusError, OSError, ValueError):
                self.moved_at = time.monotonic()
                self._application.stop.wait(0.5)

    def _receive(self, receiver: Any) -> None:
        while not self._application.stop.is_set():
            self.moved_at = time.monotonic()
            received = receiver.receive_messages(max_message_count=AT_ONCE, max_wait_time=WAIT_S)
            if received:
                self._application.journal.write(*(self._record(message) for message in received))
            for message in received:
                receiver.complete_message(message)
            if not received and receiver.session is not None:  # let others have it, and take the next one
                return

    def _record(self, message: ServiceBusReceivedMessage) -> dict[str, Any]:
        enqueued = message.enqueued_time_utc
        return {
            "kind": "received",
            "at": now(),
            "id": identity_of(message),
            "inbox": self._inbox,
            "message_id": message.message_id,
            "sequence": message.sequence_number,
            "enqueued": enqueued.timestamp() if enqueued else 0.0,
            "delivery": message.delivery_count,
            "digest": digest_of(message),
            "session": message.session_id,
        }


def main() -> None:
    keep_types()
    application = Application("receivers")
    ways = application.ways
    with PairedServiceBusClient.from_connection_string(
        ways.primary, ways.secondary, options=options(ways, application.plan, pings=False)
    ) as client:
        application.begins(client.process)
        opening: dict[str, Callable[[], Any]] = {
            "orders": lambda: client.get_queue_receiver("orders"),
            "payments": lambda: client.get_queue_receiver("payments"),
            "sessions": lambda: client.get_queue_receiver(
                "sessions", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=WAIT_S
            ),
            "events/audit": lambda: client.get_subscription_receiver("events", "audit"),
            "events/mail": lambda: client.get_subscription_receiver("events", "mail"),
        }
        receiving = [Receiving(application, inbox, open_) for inbox, open_ in opening.items()]
        while not application.stop.wait(1.0):
            if any(time.monotonic() - one.moved_at > STUCK_S for one in receiving):
                os._exit(STUCK)
        for one in receiving:
            one.thread.join(3.0)
    application.ends()
    os._exit(0)  # a receiver that the SDK has not given back must not keep the process


if __name__ == "__main__":
    main()
