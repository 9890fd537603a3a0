"""The content of a drill's page: its steps, its observations so far, and its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from dashboard.drills.course import WORDS, Course, Step
from dashboard.models import Drill

SHOWN = tuple(step for step in Step if step not in (Step.ROLLING_BACK, Step.ENDED))
TIMES = {
    "until_the_worker_knew": "Command to the worker that sends",
    "until_the_first_diverted_send": "Command to the first send into the backlog",
    "failed_over": "Failed over in total",
    "until_healed_after_release": "Release to the accepted ping",
    "until_all_was_home": "Recovery until the backlog was drained",
}
OUTCOMES = {"passed": ("healthy", "Passed"), "failed": ("failed-over", "Failed"), "aborted": ("held", "Aborted")}


@dataclass(frozen=True, slots=True)
class Stage:
    """One displayed step: `done`, `now`, `later`, or `never` if the drill ended before."""

    word: str
    state: str
    tone: str
    reported: str = ""


@dataclass(frozen=True, slots=True)
class DrillBoard:
    """One drill."""

    row: Drill
    course: Course
    stages: Sequence[Stage]
    times: Sequence[tuple[str, timedelta | None]]

    @property
    def propagation(self) -> dict[str, Any]:
        """How soon other processes adopted the failover; empty if that was not measured."""
        found: dict[str, Any] = self.row.report.get("propagation") or {}
        return found | {"p50": _quick(found.get("p50_s")), "max": _quick(found.get("max_s"))} if found else {}

    @property
    def status(self) -> str:
        return OUTCOMES[self.row.outcome][0] if self.row.outcome else "draining"

    @property
    def word(self) -> str:
        return OUTCOMES[self.row.outcome][1] if self.row.outcome else WORDS[self.course.step]

    @property
    def messages(self) -> dict[str, Any]:
        """The numbers of the report, if there is one."""
        found: dict[str, Any] = self.row.report.get("messages", {})
        return found


def drill_board(row: Drill) -> DrillBoard:
    """The content of the page."""
    course = Course.from_json(row.course)
    reported: dict[str, float | None] = row.report.get("times_s", {})
    times = [(word, _span(reported.get(name))) for name, word in TIMES.items()]
    return DrillBoard(row, course, stages(course, is_over=row.ended_at is not None), times)


def stages(course: Course, *, is_over: bool) -> list[Stage]:
    """The steps of a successful drill, and the progress of this one. Pure."""
    found = [_stage(step, number, course, is_over) for number, step in enumerate(SHOWN)]
    if course.step is Step.ROLLING_BACK or course.failure or course.aborted_by:
        state = "now" if course.step is Step.ROLLING_BACK and not is_over else "done"
        by = f"aborted by {course.aborted_by}" if course.aborted_by else ""
        found.append(Stage(WORDS[Step.ROLLING_BACK], state, "is-held", course.failure or by))
    return found


def _stage(step: Step, number: int, course: Course, is_over: bool) -> Stage:
    is_broken_off = course.step is Step.ROLLING_BACK or bool(course.failure or course.aborted_by)
    is_whole = is_over and not is_broken_off
    if step is Step.COUNTING and is_whole and course.lost:
        return Stage(WORDS[step], "done", "is-failed-over", _report(step, course))
    if number < course.done or is_whole:
        return Stage(WORDS[step], "done", "is-healthy", _report(step, course))
    if number > course.done or is_broken_off:
        return Stage(WORDS[step], "never" if is_broken_off or is_over else "later", "is-unknown")
    return Stage(WORDS[step], "now", "is-draining", course.trouble or _report(step, course))


def _report(step: Step, course: Course) -> str:
    """The observations of a step as text."""
    match step:
        case Step.SENDING:
            return f"{min(course.sent, course.first_part)} of {course.first_part} accepted"
        case Step.DIVERTING:
            wanted = course.second_part - course.first_part
            return f"{course.diverted} of {wanted} accepted, {course.seen_in_backlog} seen in the backlog"
        case Step.RETURNING:
            sent, wanted = max(0, course.sent - course.second_part), course.total - course.second_part
            return f"{sent} of {wanted} accepted"
        case Step.DRAINING if course.home_at:
            return "none is left in the backlog"
        case Step.DRAINING if course.left_in_backlog is not None:
            return f"{course.left_in_backlog} left in the backlog"
        case Step.COUNTING:
            return f"{len(course.arrived)} of {course.sent} received"
    return ""


def _span(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


def _quick(seconds: float | None) -> str:
    """A duration, in milliseconds below a second."""
    if seconds is None:
        return ""
    return f"{seconds * 1000:.0f}\N{NO-BREAK SPACE}ms" if seconds < 1 else f"{seconds:.1f}\N{NO-BREAK SPACE}s"
