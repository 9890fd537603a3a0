"""The control links of a connection, on which a client declares and discharges its transactions."""

from __future__ import annotations

from typing import Any

from amqp10 import events as e
from amqp10 import performatives as p
from amqp10.codec import decode, encode
from amqp10.sections import VALUE, split
from amqp10.types import AmqpError, Described
from emulator.broker.errors import BrokerError
from emulator.endpoints.base import Endpoint


class CoordinatorEndpoint(Endpoint):
    """A control link. Transactions that are open when it ends are rolled back."""

    def open(self) -> None:
        if next(iter(self.link.session.links.values())) is self.link:
            self.client.transactions.group(self.link.session)
        self.link.accept()

    def message(self, event: e.MessageReceived) -> None:
        if not self.link.is_open:
            return
        if event.settled:
            self.link.detach("amqp:not-allowed", "Messages to a coordinator must not be settled.")
            self.detached()
            return
        try:
            outcome = self._perform(*_control(event.payload))
        except (AmqpError, BrokerError) as error:
            outcome = p.rejected(p.error(error.condition, str(error)))
        if self.link.is_open:  # a delivery of the commit may have triggered a fault
            self.link.session.settle(event.delivery_id, encode(outcome))

    def _perform(self, code: int, fields: list[Any]) -> Described:
        first, second = [*fields, None, None][:2]
        if code == p.DECLARE and first is None:
            return p.declared(self.client.transactions.declare(self))
        if code == p.DECLARE:
            raise AmqpError("amqp:not-implemented", "Global transactions are not supported.")
        if code != p.DISCHARGE or not isinstance(first, bytes):
            raise AmqpError("amqp:invalid-field", "A coordinator expects declare or discharge.")
        self.client.transactions.discharge(first, self.host.clock(), fails=bool(second))
        return p.accepted()

    def detached(self) -> None:
        self.client.transactions.end(self)


def _control(payload: bytes) -> tuple[int, list[Any]]:
    """The code and the fields of a control message; a code of 0 for anything else. Raises DecodeError."""
    value = next((decode(payload, part.value)[0] for part in split(payload) if part.code == VALUE), None)
    return p.outcome(value) or (0, [])
