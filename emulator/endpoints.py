"""What stands behind a link: an entity to send to, one to receive from, or the `$cbs` node."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from emulator import cbs
from emulator.amqp import events as e
from emulator.amqp import performatives as p
from emulator.amqp.codec import decode, encode
from emulator.amqp.link import Link
from emulator.amqp.sections import APPLICATION_PROPERTIES, PROPERTIES, VALUE, split
from emulator.amqp.types import AmqpError, DecodeError, Int
from emulator.broker.errors import BrokerError, EntityDisabled, EntityNotFound, MessageTooLarge
from emulator.broker.message import BATCH_FORMAT, parse, parse_batch
from emulator.broker.namespace import parse_address
from emulator.host import MAX_MESSAGE_SIZE
from emulator.signatures import TokenError

if TYPE_CHECKING:
    from emulator.conversation import Conversation


class Endpoint:
    """One side of a link that belongs to us. Subclasses do what their node is for."""

    def __init__(self, conversation: Conversation, link: Link) -> None:
        self.conversation = conversation
        self.host = conversation.host
        self.link = link
        self.entity = parse_address(link.address).path

    def open(self) -> None:
        """Answer the attach. Raises BrokerError where the link must be refused."""
        self.link.accept()

    def message(self, event: e.MessageReceived) -> None:
        """A message came in."""

    def credit(self, event: e.CreditGranted) -> None:
        """The receiver takes messages."""

    def settled(self, event: e.Settled) -> None:
        """The receiver decided on a delivery."""

    def detached(self) -> None:
        """The link is gone."""

    def resumed(self) -> None:
        """The client reads again, or its window opened."""


class Producing(Endpoint):
    """A link on which a client sends to an entity."""

    def open(self) -> None:
        self.queue = self.host.namespace.resolve_sender(self.link.address)
        self.entity = self.queue.path
        if not self.queue.description.status.accepts_sends:
            raise EntityDisabled
        self.link.accept(max_message_size=MAX_MESSAGE_SIZE)

    def message(self, event: e.MessageReceived) -> None:
        if not self.host.outages:
            self._store(event, True)
            return
        self.conversation.attempt(
            "send",
            self.entity,
            self.link,
            lambda answered: self._store(event, answered),
            lambda condition, text: self._reject(event, condition, text),
            outcome=lambda state: self._refuse(event, state),
        )

    def _store(self, event: e.MessageReceived, answered: bool) -> None:
        try:
            self._enqueue(event)
        except (BrokerError, AmqpError) as error:
            self._reject(event, error.condition, str(error))
            return
        if answered and not event.settled:
            self.link.session.accept(event.delivery_id)

    def _reject(self, event: e.MessageReceived, condition: str, text: str) -> None:
        self._refuse(event, encode(p.rejected(p.error(condition, text))))

    def _refuse(self, event: e.MessageReceived, state: bytes) -> None:
        self.host.meter.refused(self.entity, "send")
        if not event.settled:
            self.link.session.settle(event.delivery_id, state)

    def _enqueue(self, event: e.MessageReceived) -> None:
        """Store one message, or a batch as a whole or not at all. Raises BrokerError or AmqpError."""
        check_size(len(event.payload))
        queue, now, meter = self.queue, self.host.clock(), self.host.meter
        if queue.is_closed:
            raise EntityNotFound(f"The messaging entity '{self.entity}' was deleted.")
        if event.message_format != BATCH_FORMAT:
            messages = [parse(event.payload)]
        else:
            messages = parse_batch(event.payload)
            queue.check(messages)
        self.host.admit(len(messages))
        self.host.charge(len(messages) * queue.rules_looked_at)
        for message in messages:
            queue.enqueue(message, now)
            meter.message(self.entity, "ping" if message.is_ping else "send", message.size)


def check_size(size: int) -> None:
    """Raise MessageTooLarge for a message beyond the limit of the Standard tier."""
    if size > MAX_MESSAGE_SIZE:
        raise MessageTooLarge(f"The message has {size} bytes; the limit is {MAX_MESSAGE_SIZE}.")


# --- requests and responses on a pair of links ----------------------------------------------------------------------


class Request:
    """A request message to a node: what `$cbs` and `$management` read of it."""

    def __init__(self, payload: bytes) -> None:
        self.message_id: Any = None
        self.properties: dict[Any, Any] = {}
        self.reply_to: str | None = None
        self.body: Any = None
        for part in split(payload):
            if part.code == PROPERTIES:
                fields = decode(payload, part.value)[0]
                self.message_id = fields[0] if fields else None
                self.reply_to = fields[4] if len(fields) > 4 else None
            elif part.code == APPLICATION_PROPERTIES:
                self.properties = decode(payload, part.value)[0]
            elif part.code == VALUE:
                self.body = decode(payload, part.value)[0]
        if not isinstance(self.properties, dict):
            raise DecodeError("application properties are a map")


def response(request: Request, properties: dict[str, Any], body: Any = None) -> bytes:
    """An answer: its correlation id is the request's message id, in the very same type."""
    head = [None, None, None, None, None, request.message_id]
    return b"\x00\x53\x73" + encode(head) + b"\x00\x53\x74" + encode(properties) + b"\x00\x53\x77" + encode(body)


class Requests(Endpoint):
    """The link on which a client asks a node something. Answers go out on the node's other link of the session."""

    def message(self, event: e.MessageReceived) -> None:
        session = self.link.session
        try:
            request = Request(event.payload)
        except AmqpError as error:
            session.settle(event.delivery_id, encode(p.rejected(p.error(error.condition, str(error)))))
            return
        if not event.settled:
            session.accept(event.delivery_id)
        self.ask(request)

    def ask(self, request: Request) -> None:
        """Work on a request and answer it."""

    def answer(self, payload: bytes) -> None:
        """Send an answer on the link the client receives this node's answers on, whatever its credit."""
        for link in self.link.session.links.values():
            if link.client_receives and link.address == self.link.address and link.is_attached:
                link.deliver(payload, uuid.uuid4().bytes, settled=True)
                break
        self.conversation.touch()


class CbsResponses(Endpoint):
    """The link on which a client gets `$cbs` answers."""


class CbsRequests(Requests):
    """The link on which a client puts tokens."""

    def ask(self, request: Request) -> None:
        audience = cbs.audience_path(request.properties.get("name"))
        self.conversation.attempt(
            "cbs",
            parse_address(audience).path,
            self.link,
            lambda answered: self._put_token(request, audience),
            lambda condition, text: None,
            lambda fault: self._respond(request, fault.status, "A fault said so."),
        )

    def _put_token(self, request: Request, audience: str) -> None:
        now = self.host.clock()
        try:
            grant = cbs.grant(request.body, audience, self.host.key_rings(parse_address(audience).path), now)
        except TokenError as error:
            self._respond(request, 401, str(error))
            return
        if audience and self.host.refuses_unknown_tokens and not self.host.namespace.knows(audience):
            self._respond(request, 404, f"The messaging entity '{audience}' could not be found.")
            return
        self.conversation.granted(grant)
        self._respond(request, 202, "Accepted")

    def _respond(self, request: Request, status: int, description: str) -> None:
        self.answer(response(request, {"status-code": Int(status), "status-description": description}))
