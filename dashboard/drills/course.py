"""The course of a drill: what was done and seen so far, and what comes next. Pure: time and sight are passed in.

A worker writes the course down before each deed and after it, so that whoever is killed anywhere is succeeded by one
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
    HOMECOMING = "homecoming"
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
    Step.HOMECOMING: 300,
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
class Course:
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
    def from_json(cls, told: Mapping[str, Any]) -> Course:
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


Deed = Prepare | Send | Force | Look | Release | MarkHealthy | Receive | Wait | Finish


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


def resumed(course: Course) -> Course:
    """The course as another worker takes it on: what was begun may have been done, or not."""
    if not course.sending:
        return course
    return replace(course, sending=0, unsure=_with(course.unsure, course.sending))


def decide(course: Course, sight: Sight, now: datetime) -> tuple[Course, Deed]:
    """What comes next, and the course to be written down before it is done."""
    course = _called_off(course, sight, now)
    while (following := _following(course, sight)) is not None:
        course = enter(course, following, now)
    return _begun(course, _deed(course, sight, now), now)


def _called_off(course: Course, sight: Sight, now: datetime) -> Course:
    """Rolling back as soon as somebody wants it, or a step takes too long, or has failed."""
    if course.step in (Step.ROLLING_BACK, Step.ENDED):
        return course
    if sight.abort_wanted_by:
        return enter(replace(course, aborted_by=sight.abort_wanted_by), Step.ROLLING_BACK, now)
    failure = course.failure or _overdue(course, now) or _broken_off(course, sight)
    return enter(replace(course, failure=failure), Step.ROLLING_BACK, now) if failure else course


def _overdue(course: Course, now: datetime) -> str:
    limit_s = LIMITS_S[course.step]
    if course.step is Step.COUNTING or (now - course.since).total_seconds() <= limit_s:
        return ""  # what has not arrived when counting is over is no trouble of the drill, but its finding
    last = f" {course.trouble}" if course.trouble else ""
    return f"{WORDS[course.step]} took longer than {limit_s:.0f} s.{last}"


def _broken_off(course: Course, sight: Sight) -> str:
    """Somebody else ended the forced failover, or its time was over."""
    if course.step is Step.DIVERTING and sight.is_ours is False:
        why = "its time was over" if sight.is_expired else "somebody ended it"
        return f"The failover ended before all was sent: {why}."
    return ""


def _following(course: Course, sight: Sight) -> Step | None:
    """The step to go on to; None while the present one is not done."""
    match course.step:
        case Step.PREPARING if course.is_prepared:
            return Step.SENDING
        case Step.SENDING if course.sent >= course.first_part:
            return Step.FORCING
        case Step.FORCING if course.forced_at and sight.is_away:
            return Step.DIVERTING
        case Step.DIVERTING if course.sent >= course.second_part and course.seen_in_backlog >= course.diverted:
            return Step.RELEASING
        case Step.RELEASING if course.released_at and not sight.is_away:
            return Step.RETURNING
        case Step.RETURNING if course.sent >= course.total:
            return Step.HOMECOMING
        case Step.HOMECOMING if course.left_in_backlog == 0:
            return Step.COUNTING
    return None


def _deed(course: Course, sight: Sight, now: datetime) -> Deed:
    match course.step:
        case Step.PREPARING:
            return Prepare()
        case Step.SENDING | Step.RETURNING:
            return Send(course.sent + 1)
        case Step.FORCING:
            return Force() if course.forced_at is None else Wait("until this worker has heard of the failover")
        case Step.DIVERTING if not sight.is_away:
            return Wait("until this worker has heard of the failover")  # it has only just begun to work
        case Step.DIVERTING:
            return Send(course.sent + 1) if course.sent < course.second_part else Look()
        case Step.RELEASING:
            return Release() if course.released_at is None else Wait("until a ping is accepted")
        case Step.HOMECOMING:
            return Look()
        case Step.COUNTING:
            return _count(course, now)
    return _roll_back(course, sight, now)


def _count(course: Course, now: datetime) -> Deed:
    is_late = (now - course.since).total_seconds() > LIMITS_S[Step.COUNTING]
    if (not course.lost and course.quiet) or is_late:
        if lost := course.lost:
            return Finish(FAILED, f"{len(lost)} of {course.sent} messages did not arrive: {_numbers(lost)}.")
        return Finish(PASSED, f"All {course.sent} messages arrived; {course.diverted} went through the backlog.")
    return Receive()


def _roll_back(course: Course, sight: Sight, now: datetime) -> Deed:
    """Release first, whatever else; then bring home and take away what the drill has sent."""
    may_stand = sight.is_ours is None and not sight.is_expired  # not known counts as ours
    if course.is_forced and (sight.is_ours or may_stand):
        return MarkHealthy()
    is_late = (now - course.since).total_seconds() > LIMITS_S[Step.ROLLING_BACK]
    left = course.left_in_backlog if course.is_forced else 0
    if (course.sent or course.sending or course.unsure) and not is_late:
        if left != 0:
            return Look()
        if course.quiet < QUIET_LOOKS:
            return Receive()
    rest = f" {len(course.lost)} of its messages may still be in the canary or the backlog." if course.lost else ""
    if course.aborted_by:
        return Finish(ABORTED, f"Called off by {course.aborted_by}.{rest}")
    return Finish(FAILED, f"{course.failure}{rest}")


def _begun(course: Course, deed: Deed, now: datetime) -> tuple[Course, Deed]:
    """What has to be known of a deed before it is done."""
    match deed:
        case Send(number):
            again = number in course.unsure or number == course.sending
            unsure = _with(course.unsure, number) if again else course.unsure
            return replace(course, sending=number, unsure=unsure), deed
        case Force():
            return replace(course, is_forced=True), deed
    return course, deed


def enter(course: Course, step: Step, now: datetime) -> Course:
    """The course at the beginning of a step."""
    return replace(
        course,
        step=step,
        since=now,
        known_at=now if step is Step.DIVERTING else course.known_at,
        healed_at=now if step is Step.RETURNING else course.healed_at,
        home_at=now if step is Step.COUNTING else course.home_at,
        quiet=0,
        left_in_backlog=None,
        trouble="",
    )


# What came of it ---------------------------------------------------------------------------------------------------


def troubled(course: Course, deed: Deed, why: str, *, is_final: bool = False) -> Course:
    """The deed raised: it is tried again until the step is overdue, unless that would be in vain."""
    if isinstance(deed, Send):
        course = replace(course, sending=0, unsure=_with(course.unsure, deed.number))
    if is_final and course.step is not Step.ROLLING_BACK:
        return replace(course, failure=why)
    return replace(course, trouble=why)


def done(course: Course, deed: Deed, now: datetime, *, counted: int = 0, complete: bool = True) -> Course:
    """The deed is done; `counted` is what a look or a receive has found, `complete` whether it has seen all."""
    course = replace(course, trouble="")
    match deed:
        case Prepare():
            return replace(course, is_prepared=True)
        case Send(number):
            diverted_at = course.diverted_at or (now if course.step is Step.DIVERTING else None)
            kind = "send_backlog" if course.step is Step.DIVERTING else "send"
            return spent(replace(course, sent=number, sending=0, diverted_at=diverted_at), **{kind: 1})
        case Force():
            return replace(course, forced_at=now)
        case Release():
            return replace(course, released_at=now)
        case MarkHealthy():
            return replace(course, released_at=course.released_at or now)
        case Look():
            most = max(course.seen_in_backlog, counted)
            looked = replace(course, seen_in_backlog=most, left_in_backlog=counted if complete else None)
            return replace(looked, trouble=_looked(looked))
        case Receive():
            return replace(course, quiet=0 if counted else course.quiet + 1)
    return course


def _looked(course: Course) -> str:
    """What a look leaves to be wished for."""
    if course.step is Step.DIVERTING and course.seen_in_backlog < course.diverted:
        return f"{course.seen_in_backlog} of {course.diverted} messages were seen in the backlog."
    if course.step is Step.HOMECOMING and course.left_in_backlog != 0:
        return f"{course.left_in_backlog if course.left_in_backlog is not None else 'Some'} still in the backlog."
    return ""


def received(course: Course, number: int, sequence: int) -> Course:
    """One more of the drill's messages; the same one delivered again counts once."""
    arrival = Arrival(number, sequence)
    if arrival in course.arrivals:
        return course
    return replace(course, arrivals=(*course.arrivals, arrival))


def heard(course: Course, path: str, living: Mapping[str, Presence]) -> Course:
    """What the living processes tell of how soon the forced failover reached them; those that are gone told before."""
    told = {
        process: one.after_s
        for process, presence in living.items()
        for one in presence.heard
        if process in course.fleet and (one.path, one.version) == (path, course.forced_version)
    }
    return replace(course, heard={**course.heard, **told}) if told else course


def spent(course: Course, **operations: int) -> Course:
    """More operations."""
    kinds = {*course.operations, *operations}
    return replace(
        course, operations={kind: course.operations.get(kind, 0) + operations.get(kind, 0) for kind in kinds}
    )


WORDS: Mapping[Step, str] = {
    Step.PREPARING: "Preparing the canary",
    Step.SENDING: "Sending to the primary",
    Step.FORCING: "Forcing the failover",
    Step.DIVERTING: "Sending to the backlog",
    Step.RELEASING: "Releasing the canary",
    Step.RETURNING: "Sending to the primary again",
    Step.HOMECOMING: "Bringing the messages home",
    Step.COUNTING: "Receiving and counting",
    Step.ROLLING_BACK: "Rolling back",
    Step.ENDED: "Over",
}


def _with(numbers: tuple[int, ...], number: int) -> tuple[int, ...]:
    return numbers if number in numbers else (*numbers, number)


def _numbers(found: list[int]) -> str:
    told = ", ".join(map(str, found[:10]))
    return f"{told} and {len(found) - 10} more" if len(found) > 10 else told
