"""Links on which a client receives from an entity without sessions."""

from __future__ import annotations

from functools import partial
from typing import Any

from amqp10 import events as e
from amqp10 import performatives as p
from amqp10.codec import encode
from amqp10.types import Described
from emulator.broker.dead_letter import DESCRIPTION, REASON
from emulator.broker.delivery_encoding import encode_delivery
from emulator.broker.errors import (
    ArgumentError,
    BrokerError,
    EntityDisabled,
    NotAllowed,
    NotImplementedByTheService,
    ServerBusy,
)
from emulator.broker.message import StoredMessage
from emulator.broker.queues.queue import Queue
from emulator.broker.queues.settlement import COMPLETE, RELEASE, Outcome, Settlement
from emulator.broker.transactions import Settle
from emulator.endpoints.base import Endpoint, in_transaction
from emulator.host import MAX_MESSAGE_SIZE

SETTLED_BY_SENDER = 1
JMS_SELECTORS = ("apache.org:selector-filter:string", 0x468C00000004)
NO_SESSION = "It is not possible for an entity that requires sessions to create a non-sessionful message receiver."
_ACCEPTED, _REJECTED, _RELEASED = encode(p.accepted()), encode(p.rejected()), encode(p.released())


class ReceiverEndpoint(Endpoint):
    """A link on which a client receives from an entity without sessions."""

    queue: Queue
    deletes = False
    _is_fresh = False  # credit was granted, and nothing delivered since

    def open(self) -> None:
        self._find()
        if self.queue.description.requires_session:
            raise NotAllowed(NO_SESSION)
        source = self.link.source
        unfiltered = source.encoded({}) if source is not None and source.filters else None
        self._via = self.transaction_entity(receives=True)
        self.accept(max_message_size=MAX_MESSAGE_SIZE, source=unfiltered)

    def _find(self) -> None:
        """Find the entity. Raises BrokerError if it does not allow receiving, or not with the filters of the link."""
        if self.link.source is not None and any(map(_is_selector, self.link.source.filters.values())):
            raise NotImplementedByTheService("JMS selectors are not supported: use the rules of a subscription.")
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
        """Deliver what is available; a throttled namespace detaches the link as server busy instead."""
        try:
            self.host.admit(0)
        except ServerBusy as busy:
            self.entity_gone(busy.condition, str(busy))
            return
        self._is_fresh = True
        self.client.attempt(
            "receive", self.entity, self.link, lambda answered: self._offer(), lambda condition, text: None
        )

    def _end_grant(self) -> None:
        """Meter credit that ended without a delivery as an empty receive."""
        if self._is_fresh:
            self._is_fresh = False
            self.host.meter.call(self.entity, "receive_empty")

    def resumed(self) -> None:
        self._offer()

    def _offer(self) -> None:
        if self.link.is_open and self.link.credit > 0:
            self._wait()

    def _wait(self) -> None:
        self.queue.receivers.wait(self, self.host.clock())

    def _withdraw(self) -> None:
        self.queue.receivers.leave(self)

    # --- broker.ready_messages.Consumer ------------------------------------------------------------------------------

    def accepts(self, now: float) -> bool:
        link = self.link
        if link.credit <= 0 or not link.is_open or not link.session.has_room or self.client.is_paused:
            return False
        return not self.host.faults or self._is_free_of_faults()

    def _is_free_of_faults(self) -> bool:
        """Whether no fault applies to this delivery. A delay applies when credit is granted, not to each message."""
        fault = self.host.faults.trigger("receive", self.entity, self.host.clock(), excluding="delay")
        if fault is not None:
            self.client.apply_fault(fault, self.link, lambda answered: None, lambda condition, text: None)
        return fault is None

    def deliver(self, stored: StoredMessage, now: float) -> None:
        payload = encode_delivery(stored, None if self.deletes else self.queue.contents.locked_until(stored))
        tag = stored.lock_token or b""  # as the service does: clients settle by the tag, and this one is settled
        self._is_fresh = False
        self.host.meter.message(self.entity, "receive", stored.message.size)
        self.host.charge(1)
        self.link.deliver(payload, tag, settled=self.deletes)
        self.client.request_flush()

    def entity_gone(self, condition: str, text: str) -> None:
        self.link.detach(condition, text)
        self.detached()
        self.client.request_flush()

    def detached(self) -> None:
        self._end_grant()
        self._withdraw()

    # --- settlement ------------------------------------------------------------------------------------------------

    def settled(self, event: e.Settled) -> None:
        if not self.host.faults:
            self._settle(event, True)
            return
        self.client.attempt(
            "settle",
            self.entity,
            self.link,
            lambda answered: self._settle(event, answered),
            lambda condition, text: self._answer(event, self._refusal(event, condition, text)),
            outcome=lambda state: self._answer(event, state),
            transaction=event.transaction,
        )

    def _settle(self, event: e.Settled, answered: bool) -> None:
        try:
            answer = self._apply(event)
        except BrokerError as error:
            answer = self._refusal(event, error.condition, str(error))
        if answered:
            self._answer(event, answer)
        elif event.transaction is None:
            self.queue.deliveries.remember_unanswered(event.tag)

    def _refusal(self, event: e.Settled, condition: str, text: str) -> bytes:
        """The encoded outcome of a refused settlement, which undoes its transaction."""
        self.client.transactions.fail(event.transaction, text)
        return encode(p.rejected(p.error(condition, text)))

    def _apply(self, event: e.Settled) -> bytes:
        """Apply an outcome, now or when its transaction commits; returns the encoded outcome. Raises BrokerError."""
        settlement, answer = _read_outcome(event.outcome, event.fields)
        if settlement is not RELEASE:
            self.host.meter.call(self.entity, "settle")
        if event.transaction is None:
            self.queue.deliveries.settle(event.tag, settlement, self.host.clock())
        else:
            restore = partial(self.link.session.restore_delivery, self.link, event.delivery_id, event.tag)
            settle = Settle(self.queue, event.tag, settlement, None if event.settled else restore)
            self.client.transactions.enlist(event.transaction, self._via, settle, self.host.clock())
        return answer

    def _answer(self, event: e.Settled, answer: bytes) -> None:
        if not event.settled and self.link.is_open:
            self.link.session.settle(event.delivery_id, in_transaction(event.transaction, answer), role=False)


def _read_outcome(outcome: int, fields: list[Any]) -> tuple[Settlement, bytes]:
    """What an outcome does to its message, and the encoded outcome to confirm. Raises BrokerError."""
    if outcome == p.ACCEPTED:
        return COMPLETE, _ACCEPTED
    if outcome == p.RELEASED:
        return RELEASE, _RELEASED
    if outcome == p.REJECTED:
        reason, text, properties = _dead_letter_info(fields)
        return Settlement(Outcome.DEAD_LETTERED, properties, reason, text), _REJECTED
    if outcome != p.MODIFIED:
        raise NotImplementedByTheService("The delivery state is not supported.")
    failed, undeliverable, properties = [*fields, None, None, None][:3]
    if properties is not None and not isinstance(properties, dict):
        raise ArgumentError("The annotations of a modified outcome must be a map.")
    # Most SDKs leave delivery-failed out when they abandon: only undeliverable-here distinguishes deferring.
    becomes = Outcome.DEFERRED if undeliverable else Outcome.ABANDONED
    return Settlement(becomes, properties), encode(p.modified(bool(failed), bool(undeliverable)))


def _is_selector(value: Any) -> bool:
    return isinstance(value, Described) and value.descriptor in JMS_SELECTORS


def _dead_letter_info(fields: list[Any]) -> tuple[str | None, str | None, dict[Any, Any]]:
    """Reason, description and further properties of a rejected outcome."""
    condition, description, info = p.error_parts(fields[0] if fields else None)
    properties = {str(key): value for key, value in info.items()}
    reason, text = properties.pop(REASON, None), properties.pop(DESCRIPTION, None)
    if reason is None and condition and condition != "com.microsoft:dead-letter":
        reason, text = condition, text or description or None
    return _text(reason), _text(text), properties


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
