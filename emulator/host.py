"""What all connections of one namespace share: its entities, keys, faults, clock, and the moment answers may leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from emulator.broker.journal import Journal, NoJournal
from emulator.broker.namespace import Namespace
from emulator.broker.queue import Queue
from emulator.broker.schedule import Schedule
from emulator.cbs import Expiring, KeyRing, rule_rings
from emulator.meter import Meter
from emulator.outages import Fault, Outages
from emulator.throttle import Throttle

KEY_NAME = "RootManageSharedAccessKey"
MAX_MESSAGE_SIZE = 256 * 1024


class Flushable(Protocol):
    """Something with answers that wait for the journal."""

    def flush(self) -> None:
        """Write them now."""


@dataclass(eq=False)
class Host:
    """One namespace as its connections see it. `clock` gives unix seconds; `later` calls back after some seconds.

    `refuses_unknown_tokens`: whether a token put for an entity that does not exist is refused, as the service does.
    """

    namespace: Namespace
    key: str = field(repr=False)
    clock: Callable[[], float]
    later: Callable[[float, Callable[[], None]], object]
    outages: Outages = field(default_factory=Outages)
    throttle: Throttle | None = None
    refuses_unknown_tokens: bool = True

    def __post_init__(self) -> None:
        self._dirty: dict[Flushable, None] = {}
        self._in_turn = False
        self.meter = Meter()
        self.expiries: Schedule[Expiring] = Schedule()
        self.on_turn: Callable[[], None] = lambda: None

    @property
    def keys(self) -> dict[str, str]:
        """Keys by name."""
        return {KEY_NAME: self.key}

    def key_rings(self, path: str) -> Iterator[KeyRing]:
        """The keys that open an entity: the namespace's, then those of the entity's own rules."""
        yield KeyRing(self.keys)
        entity, rules = self.namespace.authorization_rules(path)
        yield from rule_rings(entity, rules)

    @property
    def journal(self) -> Journal:
        return self.namespace.journal

    def touch(self, connection: Flushable) -> None:
        """This connection has answers: they leave at the end of the turn, after the journal."""
        if not self._dirty and not self._in_turn:
            self.later(0, self.commit)
        self._dirty[connection] = None

    def begin_turn(self) -> None:
        """Bytes of a connection are being worked on; `end_turn` follows."""
        self._in_turn = True

    def end_turn(self) -> None:
        """They were worked on. With nothing to make durable the answers leave now; else in one go with other turns'."""
        self._in_turn = False
        if self._dirty:
            if isinstance(self.journal, NoJournal):
                self.commit()
            else:
                self.later(0, self.commit)

    def commit(self) -> None:
        """Make durable what happened in this turn, then let the answers out."""
        self.journal.commit()
        dirty, self._dirty = self._dirty, {}
        for connection in dirty:
            connection.flush()
        self.on_turn()

    # --- time ------------------------------------------------------------------------------------------------------

    def next_due(self) -> float:
        """When `advance` has something to do; infinity where nothing is due."""
        return min(self.namespace.next_due(), self.outages.next_due(), self.expiries.next_due())

    def advance(self) -> None:
        """Do everything that is due."""
        now = self.clock()
        self.outages.advance(now)
        self.namespace.advance(now)
        for connection in list(self.expiries.take_due(now)):
            connection.expire(now)
        self.commit()

    def add_fault(self, fault: Fault) -> None:
        """Let a fault strike from now on."""
        self.outages.add(fault)
        self.on_turn()

    def admit(self, operations: int) -> None:
        """Raise ServerBusy where the namespace is throttled and has no credits left for these operations."""
        if self.throttle is not None:
            self.throttle.spend(operations, self.clock())

    def charge(self, operations: int) -> None:
        """Count operations that were let in against the credits of a throttled namespace."""
        if self.throttle is not None:
            self.throttle.charge(operations, self.clock())

    def stats(self) -> dict[str, dict[str, Any]]:
        """What happened to each entity since the start."""
        billed = self.meter.by_entity()
        return {queue.path: entity_stats(queue, billed.get(queue.path, {})) for queue in self.namespace.entities()}


def entity_stats(queue: Queue, billable: dict[str, int]) -> dict[str, Any]:
    """The counters of one entity, and its billable operations by kind."""
    if queue.counters.forwarded:
        billable = {**billable, "forward": queue.counters.forwarded}
    return {
        **queue.counters.as_dict(),
        "active": queue.active_count + queue.deferred_count,  # deferred ones count as active, as in the service
        "operations": sum(billable.values()),
        "billable": billable,
    }
