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
from emulator.amqp.types import AmqpError, DecodeError, Described, Int
from emulator.broker.errors import BrokerError, EntityDisabled
from emulator.broker.message import BATCH_FORMAT, StoredMessage, encode_delivery, parse, parse_batch
from emulator.broker.namespace import parse_address
from emulator.broker.queue import Queue
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


class Producing(Endpoint):
    """A link on which a client sends to an entity."""

    def open(self) -> None:
        queue = self.host.namespace.resolve_sender(self.link.address)
        if not queue.description.status.accepts_sends:
            raise EntityDisabled
        self.link.accept(max_message_size=MAX_MESSAGE_SIZE)

    def message(self, event: e.MessageReceived) -> None:
        session = self.link.session
        self.conversation.attempt(
            "send",
            self.entity,
            self.link,
            lambda answered: self._store(event, answered),
            lambda condition, text: session.settle(event.delivery_id, encode(p.rejected(p.error(condition, text)))),
        )

    def _store(self, event: e.MessageReceived, answered: bool) -> None:
        session = self.link.session
        try:
            self._enqueue(event)
        except (BrokerError, AmqpError) as error:
            session.settle(event.delivery_id, encode(p.rejected(p.error(error.condition, str(error)))))
            return
        if answered and not event.settled:
            session.accept(event.delivery_id)

    def _enqueue(self, event: e.MessageReceived) -> None:
        now = self.host.clock()
        if len(event.payload) > MAX_MESSAGE_SIZE:
            raise AmqpError(
                "amqp:link:message-size-exceeded", f"The message exceeds the limit of {MAX_MESSAGE_SIZE} bytes."
            )
        batch = event.message_format == BATCH_FORMAT
        messages = parse_batch(event.payload) if batch else [parse(event.payload)]
        self.host.namespace.enqueue_all(self.entity, messages, now)


class Consuming(Endpoint):
    """A link on which a client receives from an entity."""

    queue: Queue

    def open(self) -> None:
        self.queue = self.host.namespace.resolve_receiver(self.link.address)
        if not self.queue.description.status.accepts_receives:
            raise EntityDisabled
        self.deletes = self.link.attach.snd_settle_mode == 1
        self.link.accept(max_message_size=MAX_MESSAGE_SIZE)

    def credit(self, event: e.CreditGranted) -> None:
        if event.drain:
            self._offer()
            self.link.drain()
        elif self.link.credit > 0:
            self.conversation.attempt(
                "receive",
                self.entity,
                self.link,
                lambda answered: self._offer(),
                lambda condition, text: None,
            )
        else:
            self.queue.leave(self)

    def _offer(self) -> None:
        if self.link.is_open and self.link.credit > 0:
            self.queue.wait(self, self.host.clock())

    # --- broker.queue.Consumer -------------------------------------------------------------------------------------

    def accepts(self, now: float) -> bool:
        if self.link.credit <= 0 or not self.link.is_open or not self.link.session.has_room:
            return False
        if not self.host.outages:
            return True
        return self._is_spared()

    def _is_spared(self) -> bool:
        """Whether no fault strikes this delivery; a delay strikes when credit is granted, not each message."""
        spared: list[bool] = []
        self.conversation.attempt(
            "receive", self.entity, self.link, lambda answered: spared.append(True), lambda condition, text: None
        )
        return bool(spared)

    def deliver(self, stored: StoredMessage, now: float) -> None:
        payload = encode_delivery(stored, locked=not self.deletes)
        tag = stored.lock_token.bytes_le if stored.lock_token else stored.sequence_number.to_bytes(16, "little")
        self.link.deliver(payload, tag, settled=self.deletes)
        self.conversation.touch()

    def entity_gone(self, condition: str, text: str) -> None:
        self.link.detach(condition, text)
        self.conversation.touch()

    # --- settlement ------------------------------------------------------------------------------------------------

    def settled(self, event: e.Settled) -> None:
        self.conversation.attempt(
            "settle",
            self.entity,
            self.link,
            lambda answered: self._settle(event, answered),
            lambda condition, text: self._answer(event, p.rejected(p.error(condition, text))),
        )

    def _settle(self, event: e.Settled, answered: bool) -> None:
        try:
            answer = self._apply(event)
        except BrokerError as error:
            answer = p.rejected(p.error(error.condition, str(error)))
        if answered:
            self._answer(event, answer)

    def _apply(self, event: e.Settled) -> Described:
        token, now, queue = uuid.UUID(bytes_le=event.tag), self.host.clock(), self.queue
        match event.outcome:
            case p.ACCEPTED:
                queue.complete(token, now)
                return p.accepted()
            case p.REJECTED:
                queue.dead_letter(token, *_dead_letter_reason(event.fields), now)
                return p.rejected()
            case p.MODIFIED if len(event.fields) > 1 and event.fields[1]:
                queue.defer(token, now)
                return p.modified()
            case p.MODIFIED if event.fields and event.fields[0]:
                queue.abandon(token, now)
                return p.modified()
        queue.release(token, now)
        return p.released() if event.outcome == p.RELEASED else p.modified()

    def _answer(self, event: e.Settled, answer: Described) -> None:
        if not event.settled:
            self.link.session.settle(event.delivery_id, encode(answer), role=False)

    def detached(self) -> None:
        self.queue.leave(self)


def _dead_letter_reason(fields: list[Any]) -> tuple[str | None, str | None]:
    condition, description, info = p.error_parts(fields[0] if fields else None)
    reason, text = info.get("DeadLetterReason"), info.get("DeadLetterErrorDescription")
    if reason is None and condition and condition != "com.microsoft:dead-letter":
        reason = condition
    return _text(reason), _text(text) or (description or None if reason is not None else None)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


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
            lambda status: self._respond(request, status, "A fault said so."),
        )

    def _put_token(self, request: Request, audience: str) -> None:
        now = self.host.clock()
        try:
            grant = cbs.grant(request.body, audience, self.host.keys, now)
        except TokenError as error:
            self._respond(request, 401, str(error))
            return
        if audience and not self.host.namespace.knows(audience):
            self._respond(request, 404, f"The messaging entity '{audience}' could not be found.")
            return
        self.conversation.grants[grant.path] = grant
        self._respond(request, 202, "Accepted")

    def _respond(self, request: Request, status: int, description: str) -> None:
        self.answer(response(request, {"status-code": Int(status), "status-description": description}))
