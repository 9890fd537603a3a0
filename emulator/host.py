"""What all connections of a namespace share: its entities, keys, faults and clock, and when answers may be written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from amqp10.sas import KeyRing
from emulator.access import Expiring, rule_rings
from emulator.broker.journal import Journal, NoJournal
from emulator.broker.namespace import Namespace
from emulator.broker.queues.queue import Queue
from emulator.broker.schedule import Schedule
from emulator.faults import Fault, Faults
from emulator.meter import Meter
from emulator.throttle import Throttle

KEY_NAME = "RootManageSharedAccessKey"
MAX_MESSAGE_SIZE = 256 * 1024


class Flushable(Protocol):
    """A connection with answers that wait for the journal."""

    def flush(self) -> None:
        """Write the answers now."""


@dataclass(eq=False)
class Host:
    """One namespace as its connections see it. `clock` gives unix seconds; `later` calls back after some seconds.

    `refuses_unknown_tokens`: whether a token put for an entity that does not exist is refused, as the service does.
    """

    namespace: Namespace
    key: str = field(repr=False)
    clock: Callable[[], float]
    later: Callable[[float, Callable[[], None]], object]
    faults: Faults = field(default_factory=Faults)
    throttle: Throttle | None = None
    refuses_unknown_tokens: bool = True

    def __post_init__(self) -> None:
        self._dirty: dict[Flushable, None] = {}
        self._in_turn = False
        self.meter = Meter()
        self.keys = {KEY_NAME: self.key}
        """The valid keys by the names of their policies; `key` is also that of the control interface."""
        self.expiries: Schedule[Expiring] = Schedule()
        self.on_turn: Callable[[], None] = lambda: None

    def replace_keys(self, keys: Mapping[str, str]) -> None:
        """From now on only these are valid; what a connection was granted before stays until its token expires."""
        self.keys.clear()
        self.keys.update(keys)

    def key_rings(self, path: str) -> Iterator[KeyRing]:
        """The keys that are valid for an entity: those of the namespace, then those of the entity's own rules."""
        yield KeyRing(self.keys)
        entity, rules = self.namespace.authorization_rules(path)
        yield from rule_rings(entity, rules)

    def all_key_rings(self) -> Iterator[KeyRing]:
        """The keys of the namespace, then those of the rules of all queues and topics."""
        yield KeyRing(self.keys)
        for queue in self.namespace.queues():
            yield from rule_rings(queue.path, queue.description.authorization_rules)
        for topic in self.namespace.topics():
            yield from rule_rings(topic.path, topic.description.authorization_rules)

    @property
    def journal(self) -> Journal:
        return self.namespace.journal

    def request_flush(self, connection: Flushable) -> None:
        """Have the answers of a connection written at the end of the turn, after the journal is committed."""
        if not self._dirty and not self._in_turn:
            self.later(0, self.commit)
        self._dirty[connection] = None

    def begin_turn(self) -> None:
        """Bytes of a connection are about to be processed; `end_turn` follows."""
        self._in_turn = True

    def end_turn(self) -> None:
        """Write the answers of this turn: now if there is no store, otherwise together with those of other turns."""
        self._in_turn = False
        if self._dirty:
            if isinstance(self.journal, NoJournal):
                self.commit()
            else:
                self.later(0, self.commit)

    def commit(self) -> None:
        """Commit the journal, then write the answers."""
        self.journal.commit()
        dirty, self._dirty = self._dirty, {}
        for connection in dirty:
            connection.flush()
        self.on_turn()

    # --- time ------------------------------------------------------------------------------------------------------

    def next_due(self) -> float:
        """When `advance` has something to do; infinity if never."""
        return min(self.namespace.next_due(), self.faults.next_due(), self.expiries.next_due())

    def advance(self) -> None:
        """Do everything that is due."""
        now = self.clock()
        self.faults.advance(now)
        self.namespace.advance(now)
        for connection in list(self.expiries.take_due(now)):
            connection.expire(now)
        self.commit()

    def add_fault(self, fault: Fault) -> None:
        """Activate a fault."""
        self.faults.add(fault)
        self.on_turn()

    def admit(self, operations: int) -> None:
        """Spend throttling credits for these operations. Raises ServerBusy if none are left."""
        if self.throttle is not None:
            self.throttle.spend(operations, self.clock())

    def charge(self, operations: int) -> None:
        """Spend throttling credits for operations that have already been admitted."""
        if self.throttle is not None:
            self.throttle.charge(operations, self.clock())

    def stats(self) -> dict[str, dict[str, Any]]:
        """The counters of each entity since the start."""
        billed = self.meter.by_entity()
        return {queue.path: entity_stats(queue, billed.get(queue.path, {})) for queue in self.namespace.entities()}


def entity_stats(queue: Queue, billable: dict[str, int]) -> dict[str, Any]:
    """The counters of one entity, and its billable operations by kind."""
    if queue.counters.forwarded:
        billable = {**billable, "forward": queue.counters.forwarded}
    return {
        **queue.counters.as_dict(),
        "active": queue.contents.active_count
        + queue.contents.deferred_count,  # deferred messages count as active, as in the service
        "operations": sum(billable.values()),
        "billable": billable,
    }
