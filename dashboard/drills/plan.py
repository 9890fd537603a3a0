"""The plan of a drill: its steps, and what has happened so far.

A worker stores the plan before and after each task, so that its successor knows what was started. `decisions.py` finds
the next task, `results.py` records what came of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any


class Step(StrEnum):
    """The steps of a drill in the order of a successful one; the last two are for aborted or failed drills."""

    PREPARING = "preparing"
    SENDING = "sending"
    FORCING = "forcing"
    DIVERTING = "diverting"
    RELEASING = "releasing"
    RETURNING = "returning"
    DRAINING = "draining"
    COUNTING = "counting"
    ROLLING_BACK = "rolling_back"
    ENDED = "ended"


LIMITS_S: Mapping[Step, float] = {
    Step.PREPARING: 60,
    Step.SENDING: 90,
    Step.FORCING: 30,
    Step.DIVERTING: 120,
    Step.RELEASING: 60,
    Step.RETURNING: 90,
    Step.DRAINING: 300,
    Step.COUNTING: 90,
    Step.ROLLING_BACK: 120,
}
"""Seconds after which a step fails; the last step is given up after this time if nothing is forced."""
WORDS: Mapping[Step, str] = {
    Step.PREPARING: "Preparing the canary",
    Step.SENDING: "Sending to the primary",
    Step.FORCING: "Forcing the failover",
    Step.DIVERTING: "Sending to the backlog",
    Step.RELEASING: "Releasing the canary",
    Step.RETURNING: "Sending to the primary again",
    Step.DRAINING: "Draining the backlog",
    Step.COUNTING: "Receiving and counting",
    Step.ROLLING_BACK: "Rolling back",
    Step.ENDED: "Over",
}
PASSED, FAILED, ABORTED = "passed", "failed", "aborted"


@dataclass(frozen=True, slots=True)
class Arrival:
    """One received message: its number in the drill, and its sequence number in the queue."""

    number: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The state of a drill; times are None until they occur."""

    step: Step
    since: datetime
    """Start of the step."""
    total: int
    sent: int = 0
    """Messages up to this number were accepted by either namespace."""
    sending: int = 0
    """The message whose send was started; 0 if none."""
    unsure: tuple[int, ...] = ()
    """Messages whose send was started more than once: each may exist twice."""
    is_prepared: bool = False
    created: str = ""
    """What of the canary this drill has created, and deletes in the end; empty if nothing."""
    is_forced: bool = False
    """A forced failover was started and has to be released."""
    forced_at: datetime | None = None
    forced_version: int = 0
    """The version of the forced state, with which processes report its adoption."""
    fleet: tuple[str, ...] = ()
    """The processes that were alive when it was forced."""
    heard: Mapping[str, float] = field(default_factory=dict)
    """Seconds after which each of them adopted it, as far as reported."""
    known_at: datetime | None = None
    diverted_at: datetime | None = None
    released_at: datetime | None = None
    healed_at: datetime | None = None
    home_at: datetime | None = None
    seen_in_backlog: int = 0
    """Maximum number of its messages seen in the backlog at once."""
    left_in_backlog: int | None = None
    arrivals: tuple[Arrival, ...] = ()
    quiet: int = 0
    """Number of consecutive empty receives."""
    failure: str = ""
    aborted_by: str = ""
    trouble: str = ""
    """The current error; the task is retried."""
    operations: Mapping[str, int] = field(default_factory=dict)
    """Operations by kind of usage."""

    @property
    def first_part(self) -> int:
        """The last message that is sent before the failover."""
        return self.total // 3

    @property
    def second_part(self) -> int:
        """The last message that is sent while it is failed over."""
        return 2 * (self.total // 3)

    @property
    def diverted(self) -> int:
        """How many were sent while it was failed over."""
        return max(0, min(self.sent, self.second_part) - self.first_part)

    @property
    def arrived(self) -> set[int]:
        return {one.number for one in self.arrivals}

    @property
    def lost(self) -> list[int]:
        """Messages accepted but not received."""
        return sorted(set(range(1, self.sent + 1)) - self.arrived)

    def unsure_with(self, number: int) -> tuple[int, ...]:
        """The messages that may exist twice, this one included."""
        return self.unsure if number in self.unsure else (*self.unsure, number)

    def as_json(self) -> dict[str, Any]:
        """The JSON stored in the row."""
        reported = {one.name: getattr(self, one.name) for one in fields(self)}  # asdict makes slow deep copies
        times = {name: value.isoformat() for name, value in reported.items() if isinstance(value, datetime)}
        arrivals = [[one.number, one.sequence] for one in self.arrivals]
        lists = {"arrivals": arrivals, "unsure": list(self.unsure), "fleet": list(self.fleet)}
        counts = {"heard": dict(self.heard), "operations": dict(self.operations)}
        return {**reported, **times, **lists, **counts, "step": self.step.value}

    @classmethod
    def from_json(cls, reported: Mapping[str, Any]) -> Plan:
        """Parse the output of `as_json`."""
        times = {
            name: datetime.fromisoformat(reported[name])
            for name in ("since", "forced_at", "known_at", "diverted_at", "released_at", "healed_at", "home_at")
            if reported[name]
        }
        arrivals = tuple(Arrival(*one) for one in reported["arrivals"])
        tuples = {"arrivals": arrivals, "unsure": tuple(reported["unsure"]), "fleet": tuple(reported.get("fleet", ()))}
        return cls(**{**reported, **times, **tuples, "step": Step(reported["step"])})
