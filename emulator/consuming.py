"""Links on which a client receives: from an entity, or from one session of it."""

from __future__ import annotations

from typing import Any

from emulator.amqp import events as e
from emulator.amqp import performatives as p
from emulator.amqp.codec import encode
from emulator.amqp.types import Described, Long, Symbol
from emulator.broker.errors import ArgumentError, BrokerError, EntityDisabled, NotAllowed, ServerBusy
from emulator.broker.message import StoredMessage, encode_delivery
from emulator.broker.queue import Queue
from emulator.endpoints import Endpoint
from emulator.host import MAX_MESSAGE_SIZE

SESSION_FILTER = "com.microsoft:session-filter"
LOCKED_UNTIL = Symbol("com.microsoft:locked-until-utc")
TIMEOUT_PROPERTY = "com.microsoft:timeout"
ACCEPT_TIMEOUT_S = 60.0
SETTLED_BY_SENDER = 1
_ACCEPTED, _REJECTED, _RELEASED = encode(p.accepted()), encode(p.rejected()), encode(p.released())
_TICKS_AT_1970 = 621355968000000000


class Consuming(Endpoint):
    """A link on which a client receives from an entity without sessions."""

    queue: Queue
    deletes = False
    _is_fresh = False  # credit was granted, and nothing delivered since

    def open(self) -> None:
        self._find()
        if self.queue.description.requires_session:
            raise NotAllowed("The entity requires sessions: receive from one of its sessions.")
        self.link.accept(max_message_size=MAX_MESSAGE_SIZE)

    def _find(self) -> None:
        """Look the entity up. Raises BrokerError where nobody may receive from it."""
        self.queue = self.host.namespace.resolve_receiver(self.link.address)
        self.entity = self.queue.owner_path
        if not self.queue.description.status.accepts_receives:
            raise EntityDisabled
        if self.queue.description.forward_to is not None:
            raise NotAllowed("The entity forwards its messages: there is nothing to receive.")
        self.deletes = self.link.attach.snd_settle_mode == SETTLED_BY_SENDER

    # --- credit ----------------------------------------------------------------------------------------------------

    def credit(self, event: e.CreditGranted) -> None:
        self._end_grant()
        if event.drain:
            self._is_fresh = self.link.credit > 0
            self._offer()
            self._end_grant()
            self.link.drain()
        elif self.link.credit > 0:
            self._grant()
        else:
            self._withdraw()

    def _grant(self) -> None:
        """Deliver what there is; a throttled namespace says that it is busy instead, and ends the link."""
        try:
            self.host.admit(0)
        except ServerBusy as busy:
            self.entity_gone(busy.condition, str(busy))
            return
        self._is_fresh = True
        self.conversation.attempt(
            "receive", self.entity, self.link, lambda answered: self._offer(), lambda condition, text: None
        )

    def _end_grant(self) -> None:
        """Credit that ends without a delivery is what the bill calls an empty receive."""
        if self._is_fresh:
            self._is_fresh = False
            self.host.meter.call(self.entity, "receive_empty")

    def resumed(self) -> None:
        self._offer()

    def _offer(self) -> None:
        if self.link.is_open and self.link.credit > 0:
            self._wait()

    def _wait(self) -> None:
        self.queue.wait(self, self.host.clock())

    def _withdraw(self) -> None:
        self.queue.leave(self)

    # --- broker.ready.Consumer -------------------------------------------------------------------------------------

    def accepts(self, now: float) -> bool:
        link = self.link
        if link.credit <= 0 or not link.is_open or not link.session.has_room or self.conversation.is_paused:
            return False
        return not self.host.outages or self._is_spared()

    def _is_spared(self) -> bool:
        """Whether no fault strikes this delivery. A delay strikes when credit is granted, not each message."""
        fault = self.host.outages.strike("receive", self.entity, self.host.clock(), besides="delay")
        if fault is not None:
            self.conversation.suffer(fault, self.link, lambda answered: None, lambda condition, text: None)
        return fault is None

    def deliver(self, stored: StoredMessage, now: float) -> None:
        payload = encode_delivery(stored, locked=not self.deletes)
        tag = stored.lock_token or stored.sequence_number.to_bytes(16, "little")
        self._is_fresh = False
        self.host.meter.message(self.entity, "receive", stored.message.size)
        self.host.charge(1)
        self.link.deliver(payload, tag, settled=self.deletes)
        self.conversation.touch()

    def entity_gone(self, condition: str, text: str) -> None:
        self.link.detach(condition, text)
        self.detached()
        self.conversation.touch()

    def detached(self) -> None:
        self._end_grant()
        self._withdraw()

    # --- settlement ------------------------------------------------------------------------------------------------

    def settled(self, event: e.Settled) -> None:
        if not self.host.outages:
            self._settle(event, True)
            return
        self.conversation.attempt(
            "settle",
            self.entity,
            self.link,
            lambda answered: self._settle(event, answered),
            lambda condition, text: self._answer(event, encode(p.rejected(p.error(condition, text)))),
            outcome=lambda state: self._answer(event, state),
        )

    def _settle(self, event: e.Settled, answered: bool) -> None:
        try:
            answer = self._apply(event)
        except BrokerError as error:
            answer = encode(p.rejected(p.error(error.condition, str(error))))
        if answered:
            self._answer(event, answer)
        else:
            self.queue.remember_unanswered(event.tag)

    def _apply(self, event: e.Settled) -> bytes:
        """Settle; returns the outcome to confirm, encoded. Raises BrokerError."""
        token, now, queue = event.tag, self.host.clock(), self.queue
        if event.outcome == p.RELEASED:
            queue.release(token, now)
            return _RELEASED
        self.host.meter.call(self.entity, "settle")
        if event.outcome == p.ACCEPTED:
            queue.complete(token, now)
            return _ACCEPTED
        if event.outcome == p.REJECTED:
            queue.dead_letter(token, *_dead_letter_reason(event.fields), now)
            return _REJECTED
        failed, undeliverable, annotations = [*event.fields, None, None, None][:3]
        if annotations is not None and not isinstance(annotations, dict):
            raise ArgumentError("The annotations of a modified outcome are no map.")
        if undeliverable:
            queue.defer(token, now)
        elif failed:
            queue.abandon(token, now)
        else:
            queue.release(token, now)
        return encode(p.modified(bool(failed), bool(undeliverable)))

    def _answer(self, event: e.Settled, answer: bytes) -> None:
        if not event.settled and self.link.is_open:
            self.link.session.settle(event.delivery_id, answer, role=False)


class SessionConsuming(Consuming):
    """A link on which a client receives the messages of one session, which it holds while the link is open."""

    session_id: str | None = None

    def open(self) -> None:
        self._find()
        if not self.queue.description.requires_session:
            raise NotAllowed("The entity has no sessions: receive without a session id.")
        wanted = session_filter(self.link.source)
        now = self.host.clock()
        if wanted is not None:
            self.queue.accept_session(wanted, self, now)
            return
        self.queue.accept_next_session(self, now)
        if self.session_id is None:
            self.host.later(_accept_timeout(self.link.attach.properties), self._give_up)

    def _give_up(self) -> None:
        """No session became free in time."""
        if self.queue.stop_accepting(self) and self.link.is_open:
            self.link.refuse("com.microsoft:timeout", "No session was available within the timeout.")
            self.link.owner = None
            self.conversation.touch()

    # --- broker.message_session.SessionHolder ----------------------------------------------------------------------

    def session_granted(self, session_id: str, until: float) -> None:
        self.session_id = session_id
        source = self.link.source
        self.link.accept(
            max_message_size=MAX_MESSAGE_SIZE,
            source=source.encoded({Symbol(SESSION_FILTER): session_id}) if source is not None else None,
            properties={LOCKED_UNTIL: Long(_TICKS_AT_1970 + int(until * 1000) * 10000)},
        )
        self.conversation.touch()

    def session_lost(self) -> None:
        self.session_id = None
        self.link.detach("com.microsoft:session-lock-lost", "The session lock has expired.")
        self._end_grant()
        self.conversation.touch()

    def _wait(self) -> None:
        if self.session_id is not None:
            self.queue.wait_in_session(self.session_id, self.host.clock())

    def _withdraw(self) -> None:
        """Credit of zero needs nothing: the session waits until there is some again."""

    def detached(self) -> None:
        self._end_grant()
        self.queue.stop_accepting(self)
        if self.session_id is not None:
            session_id, self.session_id = self.session_id, None
            self.queue.close_session(session_id, self, self.host.clock())


def has_session_filter(source: p.Terminus | None) -> bool:
    """Whether a receiver asks for a session, by id or the next one."""
    return source is not None and SESSION_FILTER in source.filters


def session_filter(source: p.Terminus | None) -> str | None:
    """The session id a receiver asks for; None for the next available. Raises ArgumentError."""
    value = source.filters[SESSION_FILTER] if source is not None else None
    if isinstance(value, Described):
        value = value.value
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise ArgumentError("The session id is no text.") from None
    if value is not None and not isinstance(value, str):
        raise ArgumentError("The session id is no text.")
    return value


def _accept_timeout(properties: dict[Any, Any] | None) -> float:
    """How long the client waits for a session, in seconds."""
    value = (properties or {}).get(TIMEOUT_PROPERTY)
    return value / 1000 if isinstance(value, int) and 0 <= value < 86_400_000 else ACCEPT_TIMEOUT_S


def _dead_letter_reason(fields: list[Any]) -> tuple[str | None, str | None]:
    condition, description, info = p.error_parts(fields[0] if fields else None)
    reason, text = info.get("DeadLetterReason"), info.get("DeadLetterErrorDescription")
    if reason is None and condition and condition != "com.microsoft:dead-letter":
        reason, text = condition, text or description or None
    return _text(reason), _text(text)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
