"""The next task of a drill. Pure: time and observations are passed in.

The forced failover always ends: all paths release it, each step has a time limit, and the forced state expires
(docs/readiness.md).
"""

from dataclasses import dataclass, replace
from datetime import datetime

from dashboard.drills.plan import ABORTED, FAILED, LIMITS_S, PASSED, WORDS, Plan, Step
from dashboard.drills.tasks import Finish, Force, Look, MarkHealthy, Prepare, Receive, Release, Send, Task, Wait

QUIET_LOOKS = 2
"""Number of consecutive empty receives after which receiving ends."""


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


def resumed(plan: Plan) -> Plan:
    """The plan for a succeeding worker: a started task may or may not be done."""
    if not plan.sending:
        return plan
    return replace(plan, sending=0, unsure=plan.unsure_with(plan.sending))


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
            unsure = plan.unsure_with(number) if again else plan.unsure
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


def _numbers(found: list[int]) -> str:
    reported = ", ".join(map(str, found[:10]))
    return f"{reported} and {len(found) - 10} more" if len(found) > 10 else reported
