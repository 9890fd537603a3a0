"""The plan of a drill: its progress, its observations, and the next task. Pure: time and observations are passed in.

A worker stores the plan before and after each task, so that its successor knows what was started. The forced failover
always ends: all paths release it, each step has a time limit, and the forced state expires (docs/readiness.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
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
    DRAINING = "homecoming"  # as it is stored
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
QUIET_LOOKS = 2
"""Number of consecutive empty receives after which receiving ends."""
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


# Tasks -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prepare:
    """Create the canary if requested and missing; check that it can be used."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send one numbered message."""

    number: int


@dataclass(frozen=True, slots=True)
class Force:
    """Fail the canary over, held until the drill's expiry."""


@dataclass(frozen=True, slots=True)
class Look:
    """Count the drill's messages in the backlog."""


@dataclass(frozen=True, slots=True)
class Release:
    """End the hold, so that an accepted ping ends the failover."""


@dataclass(frozen=True, slots=True)
class MarkHealthy:
    """End hold and failover, if it is the drill's own."""


@dataclass(frozen=True, slots=True)
class Receive:
    """Receive available messages of the drill."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait and check again."""

    why: str


@dataclass(frozen=True, slots=True)
class Finish:
    """End the drill."""

    outcome: str
    detail: str


Task = Prepare | Send | Force | Look | Release | MarkHealthy | Receive | Wait | Finish


@dataclass(frozen=True, slots=True)
class Sight:
    """The worker's current observations."""

    is_away: bool
    """Whether the canary is failed over in the worker's client."""
    is_ours: bool | None
    """Whether it is failed over in the fleet by this drill, held or not; None if Redis does not answer."""
    is_expired: bool = False
    """Whether the forced state has expired."""
    abort_wanted_by: str = ""


# Deciding ----------------------------------------------------------------------------------------------------------


def resumed(plan: Plan) -> Plan:
    """The plan for a succeeding worker: a started task may or may not be done."""
    if not plan.sending:
        return plan
    return replace(plan, sending=0, unsure=_with(plan.unsure, plan.sending))


def decide(plan: Plan, sight: Sight, now: datetime) -> tuple[Plan, Task]:
    """The next task, and the plan to store before executing it."""
    plan = _called_off(plan, sight, now)
    while (following := _following(plan, sight)) is not None:
        plan = enter(plan, following, now)
    return _begun(plan, _task(plan, sight, now), now)


def _called_off(plan: Plan, sight: Sight, now: datetime) -> Plan:
    """Start the rollback if requested, or if a step takes too long or has failed."""
    if plan.step in (Step.ROLLING_BACK, Step.ENDED):
        return plan
    if sight.abort_wanted_by:
        return enter(replace(plan, aborted_by=sight.abort_wanted_by), Step.ROLLING_BACK, now)
    failure = plan.failure or _overdue(plan, now) or _broken_off(plan, sight)
    return enter(replace(plan, failure=failure), Step.ROLLING_BACK, now) if failure else plan


def _overdue(plan: Plan, now: datetime) -> str:
    limit_s = LIMITS_S[plan.step]
    if plan.step is Step.COUNTING or (now - plan.since).total_seconds() <= limit_s:
        return ""  # messages that have not arrived are a finding, not an error of the drill
    last = f" {plan.trouble}" if plan.trouble else ""
    return f"{WORDS[plan.step]} took longer than {limit_s:.0f} s.{last}"


def _broken_off(plan: Plan, sight: Sight) -> str:
    """Why the forced failover ended early: it was ended by an operator, or expired."""
    if plan.step is Step.DIVERTING and sight.is_ours is False:
        why = "it expired" if sight.is_expired else "it was ended by an operator"
        return f"The failover ended before all was sent: {why}."
    return ""


def _following(plan: Plan, sight: Sight) -> Step | None:
    """The next step; None while the current one is not done."""
    match plan.step:
        case Step.PREPARING if plan.is_prepared:
            return Step.SENDING
        case Step.SENDING if plan.sent >= plan.first_part:
            return Step.FORCING
        case Step.FORCING if plan.forced_at and sight.is_away:
            return Step.DIVERTING
        case Step.DIVERTING if plan.sent >= plan.second_part and plan.seen_in_backlog >= plan.diverted:
            return Step.RELEASING
        case Step.RELEASING if plan.released_at and not sight.is_away:
            return Step.RETURNING
        case Step.RETURNING if plan.sent >= plan.total:
            return Step.DRAINING
        case Step.DRAINING if plan.left_in_backlog == 0:
            return Step.COUNTING
    return None


def _task(plan: Plan, sight: Sight, now: datetime) -> Task:
    match plan.step:
        case Step.PREPARING:
            return Prepare()
        case Step.SENDING | Step.RETURNING:
            return Send(plan.sent + 1)
        case Step.FORCING:
            return Force() if plan.forced_at is None else Wait("until this worker has heard of the failover")
        case Step.DIVERTING if not sight.is_away:
            return Wait("until this worker has heard of the failover")  # the failover was forced only now
        case Step.DIVERTING:
            return Send(plan.sent + 1) if plan.sent < plan.second_part else Look()
        case Step.RELEASING:
            return Release() if plan.released_at is None else Wait("until a ping is accepted")
        case Step.DRAINING:
            return Look()
        case Step.COUNTING:
            return _count(plan, now)
    return _roll_back(plan, sight, now)


def _count(plan: Plan, now: datetime) -> Task:
    is_late = (now - plan.since).total_seconds() > LIMITS_S[Step.COUNTING]
    if (not plan.lost and plan.quiet) or is_late:
        if lost := plan.lost:
            return Finish(FAILED, f"{len(lost)} of {plan.sent} messages did not arrive: {_numbers(lost)}.")
        return Finish(PASSED, f"All {plan.sent} messages arrived; {plan.diverted} went through the backlog.")
    return Receive()


def _roll_back(plan: Plan, sight: Sight, now: datetime) -> Task:
    """Release first; then drain and receive the messages of the drill."""
    may_stand = sight.is_ours is None and not sight.is_expired  # unknown counts as ours
    if plan.is_forced and (sight.is_ours or may_stand):
        return MarkHealthy()
    is_late = (now - plan.since).total_seconds() > LIMITS_S[Step.ROLLING_BACK]
    left = plan.left_in_backlog if plan.is_forced else 0
    if (plan.sent or plan.sending or plan.unsure) and not is_late:
        if left != 0:
            return Look()
        if plan.quiet < QUIET_LOOKS:
            return Receive()
    rest = f" {len(plan.lost)} of its messages may still be in the canary or the backlog." if plan.lost else ""
    if plan.aborted_by:
        return Finish(ABORTED, f"Aborted by {plan.aborted_by}.{rest}")
    return Finish(FAILED, f"{plan.failure}{rest}")


def _begun(plan: Plan, task: Task, now: datetime) -> tuple[Plan, Task]:
    """The plan to store before a task."""
    match task:
        case Send(number):
            again = number in plan.unsure or number == plan.sending
            unsure = _with(plan.unsure, number) if again else plan.unsure
            return replace(plan, sending=number, unsure=unsure), task
        case Force():
            return replace(plan, is_forced=True), task
    return plan, task


def enter(plan: Plan, step: Step, now: datetime) -> Plan:
    """The plan at the start of a step."""
    return replace(
        plan,
        step=step,
        since=now,
        known_at=now if step is Step.DIVERTING else plan.known_at,
        healed_at=now if step is Step.RETURNING else plan.healed_at,
        home_at=now if step is Step.COUNTING else plan.home_at,
        quiet=0,
        left_in_backlog=None,
        trouble="",
    )


# Results -----------------------------------------------------------------------------------------------------------


def troubled(plan: Plan, task: Task, why: str, *, is_final: bool = False) -> Plan:
    """The plan after an error: the task is retried until the step is overdue, unless retrying does not help."""
    if isinstance(task, Send):
        plan = replace(plan, sending=0, unsure=_with(plan.unsure, task.number))
    if is_final and plan.step is not Step.ROLLING_BACK:
        return replace(plan, failure=why)
    return replace(plan, trouble=why)


def done(plan: Plan, task: Task, now: datetime, *, counted: int = 0, complete: bool = True) -> Plan:
    """The plan after a task; `counted`: the messages found, `complete`: whether all were seen."""
    plan = replace(plan, trouble="")
    match task:
        case Prepare():
            return replace(plan, is_prepared=True)
        case Send(number):
            diverted_at = plan.diverted_at or (now if plan.step is Step.DIVERTING else None)
            kind = "send_backlog" if plan.step is Step.DIVERTING else "send"
            return spent(replace(plan, sent=number, sending=0, diverted_at=diverted_at), **{kind: 1})
        case Force():
            return replace(plan, forced_at=now)
        case Release():
            return replace(plan, released_at=now)
        case MarkHealthy():
            return replace(plan, released_at=plan.released_at or now)
        case Look():
            most = max(plan.seen_in_backlog, counted)
            looked = replace(plan, seen_in_backlog=most, left_in_backlog=counted if complete else None)
            return replace(looked, trouble=_looked(looked))
        case Receive():
            return replace(plan, quiet=0 if counted else plan.quiet + 1)
    return plan


def _looked(plan: Plan) -> str:
    """What an observation lacks."""
    if plan.step is Step.DIVERTING and plan.seen_in_backlog < plan.diverted:
        return f"{plan.seen_in_backlog} of {plan.diverted} messages were seen in the backlog."
    if plan.step is Step.DRAINING and plan.left_in_backlog != 0:
        return f"{plan.left_in_backlog if plan.left_in_backlog is not None else 'Some'} still in the backlog."
    return ""


def received(plan: Plan, number: int, sequence: int) -> Plan:
    """Add a received message; a redelivery counts once."""
    arrival = Arrival(number, sequence)
    if arrival in plan.arrivals:
        return plan
    return replace(plan, arrivals=(*plan.arrivals, arrival))


def with_reports(plan: Plan, path: str, living: Mapping[str, Presence]) -> Plan:
    """Add the adoption times reported by live processes; those of ended processes are kept."""
    reported = {
        process: one.after_s
        for process, presence in living.items()
        for one in presence.heard
        if process in plan.fleet and (one.path, one.version) == (path, plan.forced_version)
    }
    return replace(plan, heard={**plan.heard, **reported}) if reported else plan


def spent(plan: Plan, **operations: int) -> Plan:
    """More operations."""
    kinds = {*plan.operations, *operations}
    return replace(plan, operations={kind: plan.operations.get(kind, 0) + operations.get(kind, 0) for kind in kinds})


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


def _with(numbers: tuple[int, ...], number: int) -> tuple[int, ...]:
    return numbers if number in numbers else (*numbers, number)


def _numbers(found: list[int]) -> str:
    reported = ", ".join(map(str, found[:10]))
    return f"{reported} and {len(found) - 10} more" if len(found) > 10 else reported
