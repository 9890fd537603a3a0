"""The plan of a drill: what was done and seen so far, and what comes next. Pure: time and sight are passed in.

A worker writes the plan down before each task and after it, so that whoever is killed anywhere is succeeded by one
who knows what was begun. The forced failover always ends: each way leads through its release, each step has a limit,
and the forced state itself expires (docs/readiness.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from pairing.fleet.presence import Presence


class Step(StrEnum):
    """Where a drill is, in the order of a good one; the last two are for those that were called off or failed."""

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
"""Seconds after which a step counts as failed; of the last one, after which it is given up once nothing is forced."""
QUIET_LOOKS = 2
"""So often in a row nothing may come before nothing more is waited for."""
PASSED, FAILED, ABORTED = "passed", "failed", "aborted"


@dataclass(frozen=True, slots=True)
class Arrival:
    """One message that was received: its number in the drill, and the broker's in the queue."""

    number: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a drill has to remember; times are None until they come."""

    step: Step
    since: datetime
    """When the step began."""
    total: int
    sent: int = 0
    """Messages 1 to this one were accepted, by either namespace."""
    sending: int = 0
    """The message whose send was begun; 0 where none is."""
    unsure: tuple[int, ...] = ()
    """Messages whose send was begun more than once: each may be there twice."""
    is_prepared: bool = False
    is_forced: bool = False
    """A forced failover was begun, and is to be released."""
    forced_at: datetime | None = None
    forced_version: int = 0
    """Of the forced state, by which processes tell that they heard of it."""
    fleet: tuple[str, ...] = ()
    """The processes that were alive when it was forced."""
    heard: Mapping[str, float] = field(default_factory=dict)
    """After how many seconds each of them had taken it over, as far as they told."""
    known_at: datetime | None = None
    diverted_at: datetime | None = None
    released_at: datetime | None = None
    healed_at: datetime | None = None
    home_at: datetime | None = None
    seen_in_backlog: int = 0
    """The most of its messages that were seen in the backlog at once."""
    left_in_backlog: int | None = None
    arrivals: tuple[Arrival, ...] = ()
    quiet: int = 0
    """How often in a row nothing came."""
    failure: str = ""
    aborted_by: str = ""
    trouble: str = ""
    """What stands in the way at the moment; it is tried again."""
    operations: Mapping[str, int] = field(default_factory=dict)
    """What it took, by kind of usage."""

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
        """Accepted, and not received."""
        return sorted(set(range(1, self.sent + 1)) - self.arrived)

    def as_json(self) -> dict[str, Any]:
        """As a row keeps it."""
        told = {one.name: getattr(self, one.name) for one in fields(self)}  # asdict copies all, deeply: it takes long
        times = {name: value.isoformat() for name, value in told.items() if isinstance(value, datetime)}
        arrivals = [[one.number, one.sequence] for one in self.arrivals]
        lists = {"arrivals": arrivals, "unsure": list(self.unsure), "fleet": list(self.fleet)}
        counts = {"heard": dict(self.heard), "operations": dict(self.operations)}
        return {**told, **times, **lists, **counts, "step": self.step.value}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Plan:
        """What `as_json` wrote."""
        times = {
            name: datetime.fromisoformat(told[name])
            for name in ("since", "forced_at", "known_at", "diverted_at", "released_at", "healed_at", "home_at")
            if told[name]
        }
        arrivals = tuple(Arrival(*one) for one in told["arrivals"])
        tuples = {"arrivals": arrivals, "unsure": tuple(told["unsure"]), "fleet": tuple(told.get("fleet", ()))}
        return cls(**{**told, **times, **tuples, "step": Step(told["step"])})


# Deeds -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prepare:
    """Make the canary if it is wanted and missing; see that it can be used."""


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
    """End the hold, so that an accepted ping heals the canary."""


@dataclass(frozen=True, slots=True)
class MarkHealthy:
    """End hold and failover, if it is the drill's own."""


@dataclass(frozen=True, slots=True)
class Receive:
    """Receive what is there of the drill's messages."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do but look again in a moment."""

    why: str


@dataclass(frozen=True, slots=True)
class Finish:
    """It is over."""

    outcome: str
    detail: str


Task = Prepare | Send | Force | Look | Release | MarkHealthy | Receive | Wait | Finish


@dataclass(frozen=True, slots=True)
class Sight:
    """What the worker sees at this moment."""

    is_away: bool
    """Its own client has the canary failed over."""
    is_ours: bool | None
    """The fleet has it failed over by this drill, held or not; None: Redis does not tell."""
    is_expired: bool = False
    """The forced state's time is over."""
    abort_wanted_by: str = ""


# Deciding ----------------------------------------------------------------------------------------------------------


def resumed(plan: Plan) -> Plan:
    """The plan as another worker takes it on: what was begun may have been done, or not."""
    if not plan.sending:
        return plan
    return replace(plan, sending=0, unsure=_with(plan.unsure, plan.sending))


def decide(plan: Plan, sight: Sight, now: datetime) -> tuple[Plan, Task]:
    """What comes next, and the plan to be written down before it is done."""
    plan = _called_off(plan, sight, now)
    while (following := _following(plan, sight)) is not None:
        plan = enter(plan, following, now)
    return _begun(plan, _task(plan, sight, now), now)


def _called_off(plan: Plan, sight: Sight, now: datetime) -> Plan:
    """Rolling back as soon as somebody wants it, or a step takes too long, or has failed."""
    if plan.step in (Step.ROLLING_BACK, Step.ENDED):
        return plan
    if sight.abort_wanted_by:
        return enter(replace(plan, aborted_by=sight.abort_wanted_by), Step.ROLLING_BACK, now)
    failure = plan.failure or _overdue(plan, now) or _broken_off(plan, sight)
    return enter(replace(plan, failure=failure), Step.ROLLING_BACK, now) if failure else plan


def _overdue(plan: Plan, now: datetime) -> str:
    limit_s = LIMITS_S[plan.step]
    if plan.step is Step.COUNTING or (now - plan.since).total_seconds() <= limit_s:
        return ""  # what has not arrived when counting is over is no trouble of the drill, but its finding
    last = f" {plan.trouble}" if plan.trouble else ""
    return f"{WORDS[plan.step]} took longer than {limit_s:.0f} s.{last}"


def _broken_off(plan: Plan, sight: Sight) -> str:
    """Somebody else ended the forced failover, or its time was over."""
    if plan.step is Step.DIVERTING and sight.is_ours is False:
        why = "its time was over" if sight.is_expired else "somebody ended it"
        return f"The failover ended before all was sent: {why}."
    return ""


def _following(plan: Plan, sight: Sight) -> Step | None:
    """The step to go on to; None while the present one is not done."""
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
            return Wait("until this worker has heard of the failover")  # it has only just begun to work
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
    """Release first, whatever else; then bring home and take away what the drill has sent."""
    may_stand = sight.is_ours is None and not sight.is_expired  # not known counts as ours
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
        return Finish(ABORTED, f"Called off by {plan.aborted_by}.{rest}")
    return Finish(FAILED, f"{plan.failure}{rest}")


def _begun(plan: Plan, task: Task, now: datetime) -> tuple[Plan, Task]:
    """What has to be known of a task before it is done."""
    match task:
        case Send(number):
            again = number in plan.unsure or number == plan.sending
            unsure = _with(plan.unsure, number) if again else plan.unsure
            return replace(plan, sending=number, unsure=unsure), task
        case Force():
            return replace(plan, is_forced=True), task
    return plan, task


def enter(plan: Plan, step: Step, now: datetime) -> Plan:
    """The plan at the beginning of a step."""
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


# What came of it ---------------------------------------------------------------------------------------------------


def troubled(plan: Plan, task: Task, why: str, *, is_final: bool = False) -> Plan:
    """The task raised: it is tried again until the step is overdue, unless that would be in vain."""
    if isinstance(task, Send):
        plan = replace(plan, sending=0, unsure=_with(plan.unsure, task.number))
    if is_final and plan.step is not Step.ROLLING_BACK:
        return replace(plan, failure=why)
    return replace(plan, trouble=why)


def done(plan: Plan, task: Task, now: datetime, *, counted: int = 0, complete: bool = True) -> Plan:
    """The task is done; `counted` is what a look or a receive has found, `complete` whether it has seen all."""
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
    """What a look leaves to be wished for."""
    if plan.step is Step.DIVERTING and plan.seen_in_backlog < plan.diverted:
        return f"{plan.seen_in_backlog} of {plan.diverted} messages were seen in the backlog."
    if plan.step is Step.DRAINING and plan.left_in_backlog != 0:
        return f"{plan.left_in_backlog if plan.left_in_backlog is not None else 'Some'} still in the backlog."
    return ""


def received(plan: Plan, number: int, sequence: int) -> Plan:
    """One more of the drill's messages; the same one delivered again counts once."""
    arrival = Arrival(number, sequence)
    if arrival in plan.arrivals:
        return plan
    return replace(plan, arrivals=(*plan.arrivals, arrival))


def with_reports(plan: Plan, path: str, living: Mapping[str, Presence]) -> Plan:
    """What the living processes tell of how soon the forced failover reached them; those that are gone told before."""
    told = {
        process: one.after_s
        for process, presence in living.items()
        for one in presence.heard
        if process in plan.fleet and (one.path, one.version) == (path, plan.forced_version)
    }
    return replace(plan, heard={**plan.heard, **told}) if told else plan


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
    Step.DRAINING: "Bringing the messages home",
    Step.COUNTING: "Receiving and counting",
    Step.ROLLING_BACK: "Rolling back",
    Step.ENDED: "Over",
}


def _with(numbers: tuple[int, ...], number: int) -> tuple[int, ...]:
    return numbers if number in numbers else (*numbers, number)


def _numbers(found: list[int]) -> str:
    told = ", ".join(map(str, found[:10]))
    return f"{told} and {len(found) - 10} more" if len(found) > 10 else told
