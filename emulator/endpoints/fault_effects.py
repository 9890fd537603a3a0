"""What a triggered fault does to the connection of a client, and to the operation that triggered it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from amqp10 import performatives as p
from amqp10.codec import encode
from amqp10.link import Link
from emulator.broker.transactions import Transactions
from emulator.faults import Fault
from emulator.host import Host

_PERFORMED = ("delay", "lose_ack")
_OUTCOMES = {"released": encode(p.released()), "modified": encode(p.modified(True, False))}


class FaultyConnection(Protocol):
    """The connection of a client, as faults see it."""

    host: Host
    transactions: Transactions

    @property
    def is_over(self) -> bool:
        """Whether nothing is answered any more."""

    def request_flush(self) -> None:
        """Have the output written at the end of this turn."""

    def reset(self) -> None:
        """Abort the connection without answering."""

    def close(self, condition: str | None = None, description: str = "") -> None:
        """End the connection from our side."""

    def detach(self, link: Link, condition: str, text: str) -> None:
        """Detach a link with an error."""

    def end_session(self, link: Link, condition: str, text: str) -> None:
        """End the session of a link with an error."""


class FaultEffects:
    """Performs the operations of one connection, unless a fault is triggered by them."""

    def __init__(self, connection: FaultyConnection) -> None:
        self._connection = connection
        self._host = connection.host

    def attempt(
        self,
        operation: str,
        entity: str | None,
        link: Link | None,
        perform: Callable[[bool], Any],
        refuse: Callable[[str, str], Any],
        status: Callable[[Fault], Any] | None = None,
        outcome: Callable[[bytes], Any] | None = None,
        transaction: bytes | None = None,
    ) -> None:
        """Perform an operation, unless a fault is triggered by it.

        `perform` gets whether to answer; the others answer with a condition, a status or another encoded outcome.
        An operation that is not performed undoes its transaction.
        """
        fault = self._host.faults.trigger(operation, entity, self._host.clock()) if self._host.faults else None
        if fault is None:
            perform(True)
        else:
            if fault.effect not in _PERFORMED:
                self._connection.transactions.fail(transaction, f"Fault {fault.id}: {fault.effect}.")
            self.apply(fault, link, perform, refuse, status, outcome)

    def apply(
        self,
        fault: Fault,
        link: Link | None,
        perform: Callable[[bool], Any],
        refuse: Callable[[str, str], Any],
        status: Callable[[Fault], Any] | None = None,
        outcome: Callable[[bytes], Any] | None = None,
    ) -> None:
        """Apply the effect of a triggered fault."""
        connection, text = self._connection, f"Fault {fault.id}: {fault.effect}."
        match fault.effect:
            case "silent":
                fault.add_unanswered(connection.reset)
            case "lose_ack":
                perform(False)
                fault.add_unanswered(connection.reset)
            case "reset":
                connection.reset()
            case "reject" | "refuse":
                refuse(fault.condition, text)
            case "released" | "modified" if outcome is not None:
                outcome(_OUTCOMES[fault.effect])
                if fault.operation == "send":  # the SDK keeps waiting for another answer
                    fault.add_unanswered(connection.reset)
            case "status" if status is not None:
                status(fault)
            case "delay":
                self._host.later(fault.delay_s, lambda: self._resume(perform))
            case "detach" if link is not None:
                connection.detach(link, fault.condition, text)
            case "end" if link is not None:
                connection.end_session(link, fault.condition, text)
            case "close":
                connection.close(fault.condition, text)
        connection.request_flush()

    def _resume(self, perform: Callable[[bool], Any]) -> None:
        if not self._connection.is_over:
            perform(True)
            self._connection.request_flush()
