"""Scripted faults: which operations of which entities fail, how, how often and how long."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

CONDITION = "amqp:internal-error"

# The effects that can be applied to each operation.
EFFECTS: dict[str, frozenset[str]] = {
    "send": frozenset(
        {"silent", "reset", "reject", "released", "modified", "detach", "close", "end", "delay", "lose_ack"}
    ),
    "receive": frozenset({"silent", "reset", "detach", "close", "end", "delay"}),
    "settle": frozenset(
        {"silent", "reset", "reject", "released", "modified", "detach", "close", "end", "delay", "lose_ack"}
    ),
    "attach": frozenset({"refuse", "silent", "reset", "detach", "close", "end", "delay"}),
    "connect": frozenset({"refuse", "silent", "reset", "close", "delay"}),
    "open": frozenset({"silent", "reset", "close", "delay"}),
    "cbs": frozenset({"status", "silent", "reset", "detach", "close", "end", "delay"}),
    "manage": frozenset({"status", "silent", "reset", "detach", "close", "end", "delay", "lose_ack"}),
    "admin": frozenset({"status", "silent", "reset", "delay", "lose_ack"}),
}
_KINDS: dict[str, tuple[type, ...]] = {
    "entity": (str, type(None)),
    "operation": (str,),
    "effect": (str,),
    "status": (int,),
    "condition": (str,),
    "delay_s": (int, float),
    "probability": (int, float),
    "count": (int, type(None)),
    "seconds": (int, float, type(None)),
}


LONGEST_S = 366 * 86400
"""The latest time of a fault, and the longest it lasts; JSON also has NaN, and integers of any length."""


class FaultError(ValueError):
    """An invalid fault; the text says why."""


@dataclass(slots=True, eq=False)
class Fault:
    """One scripted fault, limited by `count` and `seconds` where they are given."""

    operation: str
    effect: str
    entity: str | None = None
    status: int = 503
    condition: str = CONDITION
    delay_s: float = 0.0
    probability: float = 1.0
    count: int | None = None
    seconds: float | None = None
    id: str = field(default_factory=lambda: uuid4().hex[:12])
    since: float = 0.0
    hits: int = 0
    unanswered: dict[Callable[[], None], None] = field(default_factory=dict)

    @property
    def own_condition(self) -> str:
        """The condition if one was given; empty if it is the default."""
        return "" if self.condition == CONDITION else self.condition

    def as_json(self) -> dict[str, Any]:
        """The fault as it was requested, with its id and number of hits."""
        return {name: getattr(self, name) for name in ("id", *_KINDS, "hits")}

    def is_over(self, now: float) -> bool:
        """Whether its duration is over."""
        return self.seconds is not None and now >= self.since + self.seconds

    def add_unanswered(self, end: Callable[[], None]) -> None:
        """Register something that was left unanswered: `end` is called when the fault is removed or over."""
        self.unanswered[end] = None

    def end_unanswered(self) -> None:
        """End everything this fault left unanswered."""
        unanswered, self.unanswered = self.unanswered, {}
        for end in unanswered:
            end()


def fault_from_json(data: Any, now: float) -> Fault:
    """The fault that a JSON object describes. Raises FaultError."""
    if not isinstance(data, dict):
        raise FaultError("A fault must be a JSON object.")
    for name, value in data.items():
        kinds = _KINDS.get(name)
        if kinds is None:
            raise FaultError(f"A fault has no field {name!r}; the fields are {', '.join(_KINDS)}.")
        if not isinstance(value, kinds) or (isinstance(value, bool)):
            raise FaultError(f"Invalid value {value!r} of the field {name!r}.")
    _check_combination(data.get("operation"), data.get("effect"), data.get("entity"))
    fault = Fault(**{"since": now, **data})
    _check_numbers(fault)
    return fault


def _check_combination(operation: str | None, effect: str | None, entity: str | None) -> None:
    if operation not in EFFECTS:
        raise FaultError(f"The operation must be one of {', '.join(EFFECTS)}.")
    if effect not in EFFECTS[operation]:
        raise FaultError(
            f"The effect {effect!r} has no meaning for {operation}: use {', '.join(sorted(EFFECTS[operation]))}."
        )
    if operation in ("connect", "open") and entity is not None:
        raise FaultError(f"A fault of {operation} applies to all entities: a connection has no entity yet.")


def _check_numbers(fault: Fault) -> None:
    if not 0 <= fault.probability <= 1:
        raise FaultError("probability must be between 0 and 1.")
    if not 0 <= fault.delay_s <= 86400:
        raise FaultError("delay_s must be between 0 and 86400.")
    if fault.effect == "delay" and fault.delay_s == 0:
        raise FaultError("The effect delay needs delay_s.")
    if fault.count is not None and fault.count < 1:
        raise FaultError("count must be at least 1, or null.")
    if fault.seconds is not None and not 0 < fault.seconds <= LONGEST_S:
        raise FaultError(f"seconds must be above 0 and at most {LONGEST_S}, or null.")
    if fault.effect == "status" and not 400 <= fault.status <= 599:
        raise FaultError("status must be between 400 and 599.")


class Faults:
    """The faults of one namespace."""

    def __init__(self, sample: Callable[[], float] = random.random) -> None:
        self._faults: dict[str, Fault] = {}
        self._random = sample

    def __bool__(self) -> bool:
        return bool(self._faults)

    def __iter__(self) -> Iterator[Fault]:
        return iter(list(self._faults.values()))

    def add(self, fault: Fault) -> None:
        """Activate a fault."""
        self._faults[fault.id] = fault

    def remove(self, fault_id: str) -> bool:
        """Remove a fault and end what it left unanswered; False if there is no fault with this id."""
        fault = self._faults.pop(fault_id, None)
        if fault is not None:
            fault.end_unanswered()
        return fault is not None

    def clear(self) -> None:
        """Remove all faults."""
        for fault in self:
            self.remove(fault.id)

    def trigger(self, operation: str, entity: str | None, now: float, excluding: str = "") -> Fault | None:
        """The first fault that applies to this operation, counted as a hit; None if there is none."""
        for fault in self:
            if (
                fault.operation != operation
                or fault.effect == excluding
                or not _applies_to(fault, entity)
                or fault.is_over(now)
            ):
                continue
            if fault.count is not None and fault.hits >= fault.count:
                continue
            if fault.probability < 1 and self._random() >= fault.probability:
                continue
            fault.hits += 1
            return fault
        return None

    def next_due(self) -> float:
        """When the next fault is over; infinity if none has a duration."""
        if not self._faults:
            return float("inf")
        return min((f.since + f.seconds for f in self._faults.values() if f.seconds is not None), default=float("inf"))

    def advance(self, now: float) -> None:
        """Remove the faults whose duration is over."""
        for fault in self:
            if fault.is_over(now):
                self.remove(fault.id)


def _applies_to(fault: Fault, entity: str | None) -> bool:
    return fault.entity is None or (entity is not None and fault.entity.lower() == entity.lower())
