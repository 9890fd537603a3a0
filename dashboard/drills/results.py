"""What became of a task of a drill, recorded in its plan. Pure: time and observations are passed in."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from dashboard.drills.plan import Arrival, Plan, Step
from dashboard.drills.tasks import Force, Look, MarkHealthy, Prepare, Receive, Release, Send, Task
from pairing.fleet.presence import Presence


def troubled(plan: Plan, task: Task, why: str, *, is_final: bool = False) -> Plan:
    """The plan after an error: the task is retried until the step is overdue, unless retrying does not help."""
    if isinstance(task, Send):
        plan = replace(plan, sending=0, unsure=plan.unsure_with(task.number))
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
