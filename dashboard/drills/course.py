"""The course of a drill: its steps, and what has happened so far. It is stored in the row, where pages read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

from pairing.fleet.presence import Presence


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


@dataclass(slots=True)
class Course:
    """The progress and observations of a drill; times are None until they occur."""

    step: Step
    total: int
    sent: int = 0
    """Messages up to this number were accepted by either namespace."""
    resent: tuple[int, ...] = ()
    """Messages that were sent again after an error: each may exist twice."""
    done: int = 0
    """Steps that are complete."""
    created: str = ""
    """What of the canary this drill has created, and deletes in the end; empty if nothing."""
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
    failure: str = ""
    aborted_by: str = ""
    trouble: str = ""
    """The current error; the step is tried again."""
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
        """The number of messages that were sent while it was failed over."""
        return max(0, min(self.sent, self.second_part) - self.first_part)

    @property
    def arrived(self) -> set[int]:
        return {one.number for one in self.arrivals}

    @property
    def lost(self) -> list[int]:
        """Messages accepted but not received."""
        return sorted(set(range(1, self.sent + 1)) - self.arrived)

    def spend(self, **operations: int) -> None:
        """Count operations."""
        self.operations = dict(Counter(self.operations) + Counter(operations))

    def receive(self, number: int, sequence: int) -> None:
        """Add a received message; a redelivery counts once."""
        if (arrival := Arrival(number, sequence)) not in self.arrivals:
            self.arrivals = (*self.arrivals, arrival)

    def hear(self, path: str, living: Mapping[str, Presence]) -> None:
        """Add the adoption times that live processes report; those of ended processes are kept."""
        adopted = {
            process: one.after_s
            for process, presence in living.items()
            for one in presence.heard
            if process in self.fleet and (one.path, one.version) == (path, self.forced_version)
        }
        self.heard = {**self.heard, **adopted}

    def as_json(self) -> dict[str, Any]:
        """The JSON stored in the row."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}  # asdict makes slow deep copies
        times = {name: value.isoformat() for name, value in values.items() if isinstance(value, datetime)}
        return {**values, **times, "arrivals": [[one.number, one.sequence] for one in self.arrivals]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Course:
        """Parse the output of `as_json`."""
        times = {
            name: datetime.fromisoformat(value) for name, value in values.items() if name.endswith("_at") and value
        }
        arrivals = tuple(Arrival(*one) for one in values["arrivals"])
        tuples = {"arrivals": arrivals, "resent": tuple(values["resent"]), "fleet": tuple(values["fleet"])}
        return cls(**{**values, **times, **tuples, "step": Step(values["step"])})
