"""The transactions of one connection: what is sent, settled and cancelled in each is applied together or not at all.

Before the commit nothing is applied: messages to be sent are not stored, settled ones keep their locks. A commit first
checks everything again, and applies it without an interruption, so that a journal writes it as one change. An operation
that is refused undoes its transaction, which can then only be discharged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from os import urandom
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from amqp10.codec import encode
from emulator.broker.errors import (
    BrokerError,
    EntityNotFound,
    MessageLockLost,
    NotAllowed,
    QuotaExceeded,
    TransactionRolledBack,
    TransactionTimedOut,
    TransactionUnknown,
)
from emulator.broker.message import Message
from emulator.broker.queues.queue import Queue
from emulator.broker.queues.receivers import DeliveryHold
from emulator.broker.queues.settlement import Settlement
from emulator.broker.schedule import Schedule

TIME_LIMIT_S = 120.0
MAX_MESSAGES = 100
# Of one connection, which may be a client that discharges none of its transactions.
MAX_OPEN = 1000
MAX_BYTES = 64 * 1024 * 1024
_OPERATION_BYTES, _NUMBER_BYTES = 512, 48
SPANS_ENTITIES = "Local transactions cannot span multiple top-level entities such as queue or topic."


class Operation(Protocol):
    """Something that is applied when its transaction commits."""

    @property
    def queue(self) -> Queue: ...

    @property
    def size(self) -> int:
        """The bytes it holds until the commit, once it is checked."""

    def check(self, now: float) -> None:
        """Raise BrokerError unless it can be applied now."""

    def apply(self, now: float) -> None:
        """Apply it; it was checked."""


@dataclass(frozen=True, slots=True)
class Send:
    """Messages to be stored or sent on to a target, or one to be scheduled under a number that its sender knows."""

    queue: Queue
    messages: Sequence[Message]
    number: int | None = None
    target: str = ""

    @property
    def size(self) -> int:
        return sum(message.size for message in self.messages)

    def check(self, now: float) -> None:
        """Nothing: a queue checks all messages of a transaction together."""

    def apply(self, now: float) -> None:
        for message in self.messages:
            if self.target:
                self.queue.transfer(message, self.target, now)
            else:
                self.queue.add(message, now, number=self.number)


@dataclass(frozen=True, slots=True)
class Cancel:
    """Scheduled messages to be removed."""

    queue: Queue
    numbers: Sequence[int]

    @property
    def size(self) -> int:
        return _NUMBER_BYTES * len(self.numbers)

    def check(self, now: float) -> None:
        self.queue.check_scheduled(self.numbers)

    def apply(self, now: float) -> None:
        for number in self.numbers:
            # The same transaction may cancel a message twice.
            if (stored := self.queue.contents.index.get(number)) is not None:
                self.queue.contents.remove(stored)


@dataclass(frozen=True, slots=True)
class Settle:
    """A locked message to be settled. A roll-back leaves the lock as it is, and calls `undone`."""

    queue: Queue
    token: bytes
    settlement: Settlement
    undone: Callable[[], None] | None = None

    @property
    def size(self) -> int:
        settlement = self.settlement
        properties = {str(key): value for key, value in (settlement.properties or {}).items()}
        return len(encode(properties)) + len(settlement.reason or "") + len(settlement.description or "")

    def check(self, now: float) -> None:
        self.queue.deliveries.check(self.token, self.settlement, now)

    def apply(self, now: float) -> None:
        self.queue.deliveries.settle(self.token, self.settlement, now)


@dataclass(eq=False, slots=True)
class Transaction:
    """The operations of one transaction, which are all about one top-level entity."""

    coordinator: object
    failure: BrokerError | None = None
    size: int = 0
    _entity: str | None = None
    _operations: list[Operation] = field(default_factory=list)
    _tokens: set[bytes] = field(default_factory=set)
    _messages: int = 0

    @property
    def is_empty(self) -> bool:
        return not self._operations

    def add(self, entity: str, operation: Operation, now: float) -> None:
        """Add an operation. Raises BrokerError."""
        if self.failure is not None:
            raise self.failure
        if self._entity not in (None, entity):
            raise NotAllowed(SPANS_ENTITIES)
        _check(operation, now)
        if isinstance(operation, Settle):
            if operation.token in self._tokens:
                raise MessageLockLost
            self._tokens.add(operation.token)
        self._messages += len(operation.messages) if isinstance(operation, Send) else 0
        if self._messages > MAX_MESSAGES:
            raise QuotaExceeded(f"Cannot send more than {MAX_MESSAGES} messages in a single transaction.")
        self._entity = entity
        self._operations.append(operation)
        self.size += _OPERATION_BYTES + operation.size

    def commit(self, now: float) -> None:
        """Apply everything. Raises BrokerError, and then everything is undone."""
        try:
            self._check(now)
        except BrokerError as error:
            self.roll_back(TransactionRolledBack(str(error)))
        if self.failure is not None:
            raise self.failure
        # What is settled first makes room.
        for operation in sorted(self._operations, key=lambda each: isinstance(each, Send)):
            operation.apply(now)

    def _check(self, now: float) -> None:
        for operation in self._operations:
            _check(operation, now)
        sends = [each for each in self._operations if isinstance(each, Send) and not each.target]
        for queue in {each.queue for each in sends}:
            queue.check([message for each in sends if each.queue is queue for message in each.messages])

    def roll_back(self, reason: BrokerError) -> None:
        """Forget everything; from now on operations and a commit are refused."""
        if self.failure is None:
            self.failure = reason
        undone, self._operations, self.size = self._operations, [], 0
        for operation in undone:
            if isinstance(operation, Settle) and operation.undone is not None:
                operation.undone()

    def expire(self, now: float) -> None:
        """Roll back, as the time is over."""
        self.roll_back(TransactionTimedOut())


def _check(operation: Operation, now: float) -> None:
    """Raise BrokerError unless an operation can be applied now: a deleted entity may have a successor in the store."""
    if operation.queue.is_closed:
        raise EntityNotFound(f"The messaging entity '{operation.queue.path}' was deleted.")
    operation.check(now)


class Transactions:
    """The transactions that a connection has declared and not discharged. Each ends with its coordinator's link.

    In a session whose first link is a coordinator's, the entity of the next accepted link is the one through which all
    others send: transactions may then send to any entity, and receive from this one.
    """

    def __init__(self, time_limits: Schedule[Any], hold: DeliveryHold) -> None:
        self._open: dict[bytes, Transaction] = {}
        self._time_limits = time_limits
        self._hold = hold
        self._groups: WeakKeyDictionary[object, str | None] = WeakKeyDictionary()

    def group(self, session: object) -> None:
        """Let the links of a session send through the entity of the first of them, unless it had links before."""
        self._groups.setdefault(session, "")

    def entity_of(self, session: object, entity: str, *, receives: bool) -> str:
        """The top-level entity that transactions are about on a new link to this one. Raises NotAllowed."""
        via = self._groups.setdefault(session, None)
        if not via or via == entity:
            return entity
        if receives:
            raise NotAllowed(SPANS_ENTITIES)
        return via

    def accepted(self, session: object, entity: str) -> None:
        """Let a group send through this entity, if no link of it was accepted before."""
        if self._groups.get(session) == "":
            self._groups[session] = entity

    def declare(self, coordinator: object) -> bytes:
        """Begin a transaction; returns its id. Raises QuotaExceeded."""
        if len(self._open) >= MAX_OPEN:
            raise QuotaExceeded(f"A connection has at most {MAX_OPEN} open transactions.")
        name = urandom(16)
        self._open[name] = Transaction(coordinator)
        return name

    def enlist(self, name: bytes, entity: str, operation: Operation, now: float) -> None:
        """Add an operation to a transaction. Raises BrokerError: `fail` undoes the transaction then."""
        transaction = self._open.get(name)
        if transaction is None:
            raise TransactionUnknown
        if sum(each.size for each in self._open.values()) > MAX_BYTES:
            raise QuotaExceeded("The open transactions of the connection are too large.")
        is_first = transaction.is_empty
        transaction.add(entity, operation, now)
        if is_first:
            self._time_limits.set(transaction, now + TIME_LIMIT_S)

    def fail(self, name: bytes | None, reason: str) -> None:
        """Undo a transaction one of whose operations was refused, if it was in one."""
        if name is not None and name in self._open:
            self._open[name].roll_back(TransactionRolledBack(reason))

    def discharge(self, name: bytes, now: float, *, fails: bool) -> None:
        """Commit a transaction, or roll it back. Raises BrokerError if it cannot be committed."""
        transaction = self._open.pop(name, None)
        if transaction is None:
            raise TransactionUnknown
        self._time_limits.discard(transaction)
        if fails:
            transaction.roll_back(TransactionRolledBack())
            return
        # A delivery may trigger a fault, which ends locks on which the rest of the commit depends.
        with self._hold:
            transaction.commit(now)

    def end(self, coordinator: object) -> None:
        """Roll back what was declared on a link that has ended."""
        for name in [name for name, each in self._open.items() if each.coordinator is coordinator]:
            transaction = self._open.pop(name)
            self._time_limits.discard(transaction)
            transaction.roll_back(TransactionRolledBack())
