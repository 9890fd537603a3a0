"""Links on which a client sends to an entity."""

from __future__ import annotations

from amqp10 import events as e
from amqp10 import performatives as p
from amqp10.codec import encode
from amqp10.sas import SEND
from amqp10.types import AmqpError
from emulator.broker.errors import BrokerError, EntityDisabled, EntityNotFound
from emulator.broker.message import BATCH_FORMAT, parse, parse_batch
from emulator.broker.namespace import parse_address
from emulator.broker.transactions import Send
from emulator.endpoints.base import Endpoint, check_size, in_transaction
from emulator.host import MAX_MESSAGE_SIZE

# The entity that gets the messages of a link to another, through which they are sent in a transaction.
DESTINATION = "com.microsoft:transfer-destination-address"
_ACCEPTED = encode(p.accepted())


class SenderEndpoint(Endpoint):
    """A link on which a client sends to an entity."""

    _destination = ""

    def open(self) -> None:
        address, destination = self.link.address, (self.link.attach.properties or {}).get(DESTINATION)
        self.host.namespace.resolve_sender(address)
        if isinstance(destination, str):
            address = destination
            self._destination = parse_address(address).node
            self.client.authorize(self._destination, SEND)
        self.queue = self.host.namespace.resolve_sender(address)
        if not self.queue.description.status.accepts_sends:
            raise EntityDisabled
        self._via = self.transaction_entity(receives=False)
        self.entity = self.queue.path
        self.accept(max_message_size=MAX_MESSAGE_SIZE)

    def nodes(self) -> list[str]:
        return [*super().nodes(), *([self._destination] if self._destination else [])]

    def message(self, event: e.MessageReceived) -> None:
        if not self.host.faults:
            self._store(event, True)
            return
        self.client.attempt(
            "send",
            self.entity,
            self.link,
            lambda answered: self._store(event, answered),
            lambda condition, text: self._reject(event, condition, text),
            outcome=lambda state: self._refuse(event, state),
            transaction=event.transaction,
        )

    def _store(self, event: e.MessageReceived, answered: bool) -> None:
        try:
            self._enqueue(event)
        except (BrokerError, AmqpError) as error:
            self._reject(event, error.condition, str(error))
            return
        if not answered or event.settled:
            return
        if event.transaction is None:
            self.link.session.accept(event.delivery_id)
        else:
            self.link.session.settle(event.delivery_id, in_transaction(event.transaction, _ACCEPTED))

    def _reject(self, event: e.MessageReceived, condition: str, text: str) -> None:
        self._refuse(event, encode(p.rejected(p.error(condition, text))), text)

    def _refuse(self, event: e.MessageReceived, state: bytes, reason: str = "A message was refused.") -> None:
        self.host.meter.refused(self.entity, "send")
        self.client.transactions.fail(event.transaction, reason)
        if not event.settled:
            self.link.session.settle(event.delivery_id, in_transaction(event.transaction, state))

    def _enqueue(self, event: e.MessageReceived) -> None:
        """Store one message, or a whole batch or nothing of it. Raises BrokerError or AmqpError."""
        check_size(len(event.payload))
        queue, now, meter = self.queue, self.host.clock(), self.host.meter
        if queue.is_closed:
            raise EntityNotFound(f"The messaging entity '{self.entity}' was deleted.")
        if event.message_format != BATCH_FORMAT:
            messages = [parse(event.payload, assigns_id=True)]
        else:
            messages = parse_batch(event.payload, assigns_ids=True)
        queue.check(messages)
        self.host.admit(len(messages))
        self.host.charge(len(messages) * queue.rules_evaluated)
        if event.transaction is not None:
            send = Send(queue, messages)
            if self._via != self.entity.lower():
                send = Send(self.host.namespace.resolve_sender(self._via), messages, target=self.entity)
            self.client.transactions.enlist(event.transaction, self._via, send, now)
        for message in messages:
            if event.transaction is None:
                queue.add(message, now)
            meter.message(self.entity, "ping" if message.is_ping else "send", message.size)
