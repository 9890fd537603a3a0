"""The links of a dead-letter job: dead letters are received, resubmitted, settled and metered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from azure.servicebus import ServiceBusSubQueue

from pairing import PairedServiceBusClient
from pairing.drain.backlog_queue import Item, Settled
from pairing.drain.refusals import why_refused
from pairing.drain.settlement import choose
from pairing.drive import run
from pairing.health.faults import describe
from pairing.links.link import Link
from pairing.messages.sizes import received_size
from pairing.telemetry.metering import billing_units

BATCH = 100
_PAGE = 250
_WAIT_S, _OPEN_S, _SEND_S, _SETTLE_S = 2.0, 10.0, 10.0, 15.0


class Unreachable(Exception):
    """A namespace does not execute a request now; the job waits and continues. The text is shown to operators."""


class DeadLetterLinks:
    """The links of one job. Each call is bounded in time and metered as a billable operation."""

    def __init__(self, connected: PairedServiceBusClient, path: str, role: str) -> None:
        self._connected, self._path = connected, path
        self._end_of = connected.primary if role == "primary" else connected.secondary
        self._receiver = Link(self._make_receiver, connected.watchdog)
        self._senders: dict[str, Link] = {}

    @property
    def is_of_the_primary(self) -> bool:
        return self._end_of is self._connected.primary

    def receive(self) -> list[Any]:
        """Some dead letters, locked; empty if none arrives within two seconds. Raises Unreachable."""
        received: list[Any] = []

        def receive(receiver: Any, _: float) -> None:
            received.extend(receiver.receive_messages(max_message_count=BATCH, max_wait_time=_WAIT_S))

        self._with_receiver(receive, _OPEN_S + _WAIT_S)
        sizes = [received_size(message) for message in received]
        self._connected.meter.count(
            "receive" if received else "receive_empty",
            self._end_of.namespace,
            self._path,
            messages=len(sizes),
            bytes=sum(sizes),
            billing_units=sum(map(billing_units, sizes)) or 1,
        )
        return received

    def peek(self, number: int) -> list[Any]:
        """One page of dead letters from a sequence number. Raises Unreachable."""
        page: list[Any] = []

        def peek(receiver: Any, left_s: float) -> None:
            page.extend(receiver.peek_messages(_PAGE, sequence_number=number, timeout=left_s))

        self._with_receiver(peek, _SETTLE_S)
        self._connected.meter.count("manage", self._end_of.namespace, self._path, operations=1, billing_units=1)
        return page

    def settle(self, verb: Any, messages: list[Any]) -> list[Settled]:
        """Settle these messages. Returns the outcome of each. Raises Unreachable."""
        outcomes: list[Settled] = ["unknown"] * len(messages)

        def settle(receiver: Any, left_s: float) -> None:
            run(choose(receiver)(receiver, (verb, messages, "", ""), outcomes, left_s))

        self._with_receiver(settle, _SETTLE_S)
        count = len(messages)
        self._connected.meter.count(
            "settle", self._end_of.namespace, self._path, operations=count, messages=count, billing_units=count
        )
        return outcomes

    def send(self, path: str, items: list[Item], *, alone: bool) -> str:
        """Send to an entity of the primary in one transfer. Returns why it is rejected; empty if it is acknowledged.

        `alone`: send one message, not a batch. Raises Unreachable.
        """
        messages = [item.message for item in items]

        def send(sender: Any, left_s: float) -> None:
            sender.send_messages(messages[0] if alone else messages, timeout=left_s)

        meter, namespace = self._connected.meter, self._connected.primary.namespace
        meter.count("send", namespace, path, billing_units=1, messages=0)
        failure = self._sender(path).attempt(send, _SEND_S)
        if failure is None:
            sizes = [item.size for item in items]
            units = sum(map(billing_units, sizes)) - 1
            meter.count(
                "send", namespace, path, operations=0, messages=len(sizes), bytes=sum(sizes), billing_units=units
            )
            return ""
        if why_refused(failure.error) in ("outage", "busy", "shortage"):
            raise Unreachable(f"{path} does not accept them: {describe(failure.error)}.")
        return f"{path} refuses it: {describe(failure.error)}"

    def close(self) -> None:
        """Close all links."""
        for link in (self._receiver, *self._senders.values()):
            link.close(1.0)

    def _make_receiver(self) -> Any:
        return self._end_of.sdk.get_queue_receiver(self._path, sub_queue=ServiceBusSubQueue.DEAD_LETTER, keep_alive=0)

    def _sender(self, path: str) -> Link:
        if path not in self._senders:
            self._senders[path] = Link(lambda: self._connected.sdk_sender("primary", path), self._connected.watchdog)
        return self._senders[path]

    def _with_receiver(self, operation: Callable[[Any, float], None], timeout_s: float) -> None:
        failure = self._receiver.attempt(operation, timeout_s)
        if failure is not None:
            raise Unreachable(f"{self._path} does not answer: {describe(failure.error)}.")
