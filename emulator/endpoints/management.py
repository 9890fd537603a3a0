"""The `$management` node of an entity: locks, peeking, settlement, scheduling, deferred messages, sessions,
rules."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from amqp10.requests import Request, response
from amqp10.sas import LISTEN, SEND
from amqp10.types import AmqpError, Array, Int, Long, Symbol, Timestamp
from emulator.broker.delivery_encoding import encode_delivery, encode_page
from emulator.broker.descriptions import DescriptionError
from emulator.broker.errors import (
    ArgumentError,
    BrokerError,
    MessageLockLost,
    NotAllowed,
    NotImplementedByTheService,
)
from emulator.broker.message import Message, parse
from emulator.broker.namespace import parse_address
from emulator.broker.queues.queue import Queue
from emulator.broker.queues.settlement import COMPLETE, Outcome, Settlement
from emulator.broker.transactions import Cancel, Operation, Send, Settle
from emulator.endpoints.base import check_size
from emulator.endpoints.requests import RequestEndpoint
from emulator.endpoints.rules import read_rule, rule_value
from emulator.faults import Fault

PREFIX = "com.microsoft:"
OK, NO_CONTENT = 200, 204
MAX_PEEKED = 1000
# Requests of senders; all others are those of receivers.
_SENDERS = frozenset({"schedule-message", "cancel-scheduled-message"})
# The year 10000 selects sessions that have messages or a state, other times those whose state was set later.
IN_USE_MS = 253402300800000

Body = dict[Any, Any]
Answer = tuple[int, Any]


class ManagementEndpoint(RequestEndpoint):
    """The link on which a client sends requests to an entity's `$management` node."""

    queue: Queue
    transaction: bytes | None = None
    """That of the request, in which messages are scheduled, cancelled and settled; all else is done at once."""

    def process(self, request: Request) -> None:
        self.client.attempt(
            "manage",
            self.entity,
            self.link,
            lambda answered: self.perform_in_turn(request, lambda: self._perform(request, answered)),
            lambda condition, text: None,
            lambda fault: self.perform_in_turn(request, lambda: self._fail(request, fault)),
            transaction=request.transaction,
        )

    def _perform(self, request: Request, answered: bool) -> None:
        try:
            operation, kind = self._operation(request)
            if kind is not None:
                self.host.admit(1)
            status, body = operation(request.body if isinstance(request.body, dict) else {})
        except (AmqpError, BrokerError) as error:
            self.client.transactions.fail(request.transaction, str(error))
            status = error.status if isinstance(error, BrokerError) else 400
            self._respond(request, status, str(error), None, error.condition)
            return
        if kind is not None:
            self.host.meter.call(self.entity, kind)
        if answered:
            self._respond(request, status, "OK" if status == OK else "No content", body)

    def _fail(self, request: Request, fault: Fault) -> None:
        self._respond(request, fault.status, "Fault: status.", None, fault.own_condition)

    def _operation(self, request: Request) -> tuple[Callable[[Body], Answer], str | None]:
        """The method of an operation, and the kind under which the call is billed (None: its messages are billed)."""
        name = str(request.properties.get("operation", ""))
        known: dict[str, tuple[Callable[[Body], Answer], str | None]] = {
            "peek-message": (self._peek, "manage"),
            "renew-lock": (self._renew_lock, "manage"),
            "update-disposition": (self._update_disposition, None),
            "schedule-message": (self._schedule, None),
            "cancel-scheduled-message": (self._cancel_scheduled, "manage"),
            "receive-by-sequence-number": (self._receive_deferred, None),
            "renew-session-lock": (self._renew_session_lock, "manage"),
            "get-session-state": (self._get_session_state, "manage"),
            "set-session-state": (self._set_session_state, "manage"),
            "get-message-sessions": (self._get_message_sessions, "manage"),
            "add-rule": (self._add_rule, "manage"),
            "remove-rule": (self._remove_rule, "manage"),
            "enumerate-rules": (self._enumerate_rules, "manage"),
        }
        if name.removeprefix(PREFIX) not in known:
            raise NotImplementedByTheService(f"The operation '{name}' is not offered.")
        right = SEND if name.removeprefix(PREFIX) in _SENDERS else LISTEN
        self.client.authorize(parse_address(self.link.address).node, right)
        self.queue = self.host.namespace.resolve(self.link.address)
        self.entity = self.queue.owner_path
        self.transaction = request.transaction
        return known[name.removeprefix(PREFIX)]

    def _respond(self, request: Request, status: int, description: str, body: Any, condition: str = "") -> None:
        properties: dict[str, Any] = {"statusCode": Int(status), "statusDescription": description}
        if condition:
            properties["errorCondition"] = Symbol(condition)
        self.respond(request, response(request, properties, body))
        self.renew_credit_later()

    def _enlist(self, operation: Operation) -> bool:
        """Add an operation to the transaction of the request; False if it is in none. Raises BrokerError."""
        if self.transaction is None:
            return False
        entity, _ = self.host.namespace.authorization_rules(self.entity)
        self.client.transactions.enlist(self.transaction, entity.lower(), operation, self.host.clock())
        return True

    # --- messages --------------------------------------------------------------------------------------------------

    def _peek(self, body: Body) -> Answer:
        first, count = _number(body, "from-sequence-number"), _number(body, "message-count")
        found = self.queue.contents.peek(
            first, min(count, MAX_PEEKED), self.host.clock(), _session_id(body, optional=True)
        )
        if not found:
            return NO_CONTENT, None
        messages = encode_page(found)
        self.host.charge(len(messages) - 1)  # the call itself counted as one
        return OK, {"messages": [{"message": message} for message in messages]}

    def _renew_lock(self, body: Body) -> Answer:
        if self.queue.description.requires_session:
            raise NotAllowed("The entity requires sessions: renew the session's lock.")
        now = self.host.clock()
        ends = [self.queue.deliveries.renew(token, now) for token in _tokens(body)]
        return OK, {"expirations": Array(Timestamp(int(end * 1000)) for end in ends)}

    def _update_disposition(self, body: Body) -> Answer:
        now, session_id = self.host.clock(), _session_id(body, optional=True)
        if session_id is not None:
            self.queue.contents.sessions.held(session_id, now)
        settlement = _settlement(body)
        for token in _tokens(body):
            self.host.meter.call(self.entity, "settle")
            if self._enlist(Settle(self.queue, token, settlement)):
                continue
            try:
                self.queue.deliveries.settle(token, settlement, now)
            except MessageLockLost:
                if not self.queue.deliveries.was_unanswered(token):
                    raise
        return OK, None

    def _receive_deferred(self, body: Body) -> Answer:
        deletes = body.get("receiver-settle-mode") == 0
        session_id = _session_id(body, optional=not self.queue.description.requires_session)
        found = self.queue.deliveries.receive_deferred(
            _numbers(body), self.host.clock(), deletes=deletes, session_id=session_id
        )
        answers: list[dict[str, Any]] = []
        for stored in found:
            self.host.meter.message(self.entity, "receive", stored.message.size)
            until = None if deletes else self.queue.contents.locked_until(stored)
            answer: dict[str, Any] = {"message": encode_delivery(stored, until)}
            if stored.lock_token is not None:
                answer["lock-token"] = uuid.UUID(bytes_le=stored.lock_token)
            answers.append(answer)
        return OK, {"messages": answers}

    # --- schedules -------------------------------------------------------------------------------------------------

    def _schedule(self, body: Body) -> Answer:
        queue = self.host.namespace.resolve_sender(self.entity)
        messages = [self._scheduled_message(item) for item in _list(body, "messages")]
        queue.check(messages)
        self.host.admit(len(messages))
        numbers = []
        for message in messages:
            numbers.append(Long(self._schedule_message(queue, message)))
            self.host.meter.message(self.entity, "send", message.size)
        return OK, {"sequence-numbers": Array(numbers)}

    def _schedule_message(self, queue: Queue, message: Message) -> int:
        if self.transaction is None:
            return queue.schedule(message, self.host.clock())
        number = queue.reserve()
        self._enlist(Send(queue, [message], number))
        return number

    def _scheduled_message(self, item: Any) -> Message:
        encoded = item.get("message") if isinstance(item, dict) else None
        if not isinstance(encoded, bytes):
            raise ArgumentError("A message to schedule is missing or invalid.")
        check_size(len(encoded))
        return parse(encoded, assigns_id=True)

    def _cancel_scheduled(self, body: Body) -> Answer:
        cancel, now = Cancel(self.queue, _numbers(body)), self.host.clock()
        if not self._enlist(cancel):
            cancel.check(now)
            cancel.apply(now)
        return OK, None

    # --- sessions --------------------------------------------------------------------------------------------------

    def _renew_session_lock(self, body: Body) -> Answer:
        until = self.queue.receivers.renew_session(_session_id(body), self.host.clock())
        return OK, {"expiration": Timestamp(int(until * 1000))}

    def _get_session_state(self, body: Body) -> Answer:
        session = self.queue.contents.sessions.held(_session_id(body), self.host.clock())
        return OK, {"session-state": session.state}

    def _set_session_state(self, body: Body) -> Answer:
        state = body.get("session-state")
        if state is not None and not isinstance(state, bytes):
            raise ArgumentError("The session state is not a binary.")
        if state is not None:
            check_size(len(state))
        # SDKs for Go have no null here: an empty state is none, and is then answered as null.
        self.queue.receivers.set_session_state(_session_id(body), state or None, self.host.clock())
        return OK, None

    def _get_message_sessions(self, body: Body) -> Answer:
        if not self.queue.description.requires_session:
            raise NotAllowed("The entity has no sessions.")
        since, skip, top = _number(body, "last-updated-time"), _number(body, "skip"), _number(body, "top")
        sessions = self.queue.contents.sessions
        found = sessions.in_use() if since >= IN_USE_MS else sessions.with_state_since(since / 1000)
        page = sorted(found)[skip : skip + top]
        if not page:
            return NO_CONTENT, None
        return OK, {"skip": Int(skip + len(page)), "sessions-ids": Array(page)}

    # --- rules -----------------------------------------------------------------------------------------------------

    def _add_rule(self, body: Body) -> Answer:
        subscription = self.host.namespace.subscription(self.entity)
        rule = read_rule(_rule_name(body), body.get("rule-description"))
        try:
            subscription.create_rule(rule, self.host.clock())
        except DescriptionError as error:
            raise ArgumentError(str(error)) from None
        return OK, None

    def _remove_rule(self, body: Body) -> Answer:
        self.host.namespace.subscription(self.entity).delete_rule(_rule_name(body), self.host.clock())
        return OK, None

    def _enumerate_rules(self, body: Body) -> Answer:
        skip, top = _number(body, "skip"), _number(body, "top")
        rules = self.host.namespace.subscription(self.entity).rules()[skip : skip + top]
        if not rules:
            return NO_CONTENT, None
        return OK, {"rules": [{"rule-description": rule_value(rule)} for rule in rules]}


# --- fields of a request --------------------------------------------------------------------------------------------


def _settlement(body: Body) -> Settlement:
    properties = body.get("properties-to-modify")
    if properties is not None and not isinstance(properties, dict):
        raise ArgumentError("The field 'properties-to-modify' is missing or invalid.")
    match body.get("disposition-status"):
        case "completed":
            return COMPLETE
        case "abandoned":
            return Settlement(Outcome.ABANDONED, properties)
        case "defered":
            return Settlement(Outcome.DEFERRED, properties)
        case "suspended":
            reason, text = body.get("deadletter-reason"), body.get("deadletter-description")
            return Settlement(Outcome.DEAD_LETTERED, properties, _optional_text(reason), _optional_text(text))
        case other:
            raise ArgumentError(f"The disposition status {other!r} is unknown.")


def _number(body: Body, name: str) -> int:
    value = body.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ArgumentError(f"The field '{name}' is missing or invalid.")
    return value


def _list(body: Body, name: str) -> list[Any]:
    values = body.get(name)
    if not isinstance(values, list) or not values:
        raise ArgumentError(f"The field '{name}' is missing or invalid.")
    return values


def _numbers(body: Body) -> list[int]:
    numbers = _list(body, "sequence-numbers")
    if not all(isinstance(number, int) for number in numbers):
        raise ArgumentError("The field 'sequence-numbers' is missing or invalid.")
    return list(dict.fromkeys(numbers))


def _tokens(body: Body) -> list[bytes]:
    tokens = _list(body, "lock-tokens")
    if not all(isinstance(token, uuid.UUID) for token in tokens):
        raise ArgumentError("The field 'lock-tokens' is missing or invalid.")
    return [token.bytes_le for token in tokens]


def _rule_name(body: Body) -> str:
    name = body.get("rule-name")
    if not isinstance(name, str):
        raise ArgumentError("The field 'rule-name' is missing or invalid.")
    return str(name)


def _session_id(body: Body, *, optional: bool = False) -> Any:
    value = body.get("session-id")
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if not isinstance(value, str) and not (optional and value is None):
        raise ArgumentError("The field 'session-id' is missing or invalid.")
    return value


def _optional_text(value: Any) -> str | None:
    return None if value is None else str(value)
