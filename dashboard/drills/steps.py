"""A drill from its first step to its outcome. `hands` touch the namespaces; nothing here does.

The forced failover always ends: each way out heals the canary, each step has a time limit, and the forced state
expires by itself (docs/readiness.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from azure.core.exceptions import AzureError

from dashboard.access.audited import ActionError
from dashboard.drills.course import ABORTED, FAILED, PASSED, WORDS, Course, Step
from dashboard.site.redis import RedisError
from pairing import PairingError
from pairing.health.faults import describe

TROUBLES = (AzureError, ActionError, RedisError, OSError)
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
"""Seconds after which a step fails."""
QUIET_RECEIVES = 2
"""Number of consecutive empty receives after which a rollback ends."""


class Unfit(Exception):
    """The canary cannot be used, or a drill is not possible now; trying again does not help."""


class Lost(Exception):
    """The drill was ended because this worker did not renew its claim."""


class _Broken(Exception):
    """The drill is rolled back; the text says why."""


class Hands(Protocol):
    """The effects of a drill, as `hands.Exercise` has them. They raise TROUBLES; then a step is tried again."""

    def now(self) -> datetime: ...
    def pause(self, *, brief: bool = False) -> None: ...
    def is_stopped(self) -> bool: ...
    def is_away(self) -> bool: ...
    def is_ours(self) -> bool | None: ...
    def store(self, course: Course) -> str: ...
    def prepare(self, course: Course) -> None: ...
    def send(self, course: Course, number: int) -> None: ...
    def force(self, course: Course) -> None: ...
    def release(self) -> None: ...
    def heal(self) -> None: ...
    def look(self, course: Course) -> int | None: ...
    def receive(self, course: Course) -> int: ...


@dataclass(slots=True)
class Drilling:
    """One drill."""

    course: Course
    hands: Hands
    since: datetime

    def run(self) -> tuple[str, str]:
        """The outcome and its reason, with the canary healed as far as that is possible. Raises Lost."""
        try:
            for step, attempt in self._steps():
                self._until_done(step, attempt)
            return self._count()
        except _Broken as broken:
            self.course.failure = str(broken)
        except Lost:
            self._heal()
            raise
        self._roll_back()
        lost, by = len(self.course.lost), self.course.aborted_by
        rest = f" {lost} of its messages may still be in the canary or the backlog." if lost else ""
        return (ABORTED, f"Aborted by {by}.{rest}") if by else (FAILED, f"{self.course.failure}{rest}")

    def _steps(self) -> list[tuple[Step, Callable[[], bool]]]:
        course = self.course
        return [
            (Step.PREPARING, self._prepare),
            (Step.SENDING, lambda: self._send(course.first_part)),
            (Step.FORCING, self._force),
            (Step.DIVERTING, self._divert),
            (Step.RELEASING, self._release),
            (Step.RETURNING, lambda: self._send(course.total)),
            (Step.DRAINING, self._drain),
        ]

    def _until_done(self, step: Step, attempt: Callable[[], bool]) -> None:
        """Repeat the attempt. Raises _Broken if the drill is aborted, or the step takes too long."""
        self._enter(step)
        while True:
            self._check()
            try:
                if attempt():
                    self.course.done += 1
                    return
            except Unfit as error:
                raise _Broken(str(error)) from None
            except TROUBLES as error:
                is_ours = isinstance(error, PairingError | ActionError | RedisError)
                self.course.trouble = str(error) if is_ours else describe(error)
            self.hands.pause(brief=step is Step.FORCING and not self.course.trouble)

    def _enter(self, step: Step) -> None:
        self.course.step, self.course.trouble, self.since = step, "", self.hands.now()

    def _check(self) -> None:
        course = self.course
        course.aborted_by = self.hands.store(course)
        if course.aborted_by:
            raise _Broken("")
        if self.hands.is_stopped():
            raise _Broken("The worker that ran it was stopped.")
        if course.step is not Step.COUNTING and self._is_late():
            late = f"{WORDS[course.step]} took longer than {LIMITS_S[course.step]:.0f} s."
            raise _Broken(f"{late} {course.trouble}".strip())

    def _is_late(self) -> bool:
        return self.hands.now() - self.since > timedelta(seconds=LIMITS_S[self.course.step])

    # The attempts: each returns whether its step is done ---------------------------------------------------------

    def _prepare(self) -> bool:
        self.hands.prepare(self.course)
        return True

    def _send(self, last: int) -> bool:
        course = self.course
        while course.sent < last:
            number = course.sent + 1
            try:
                self.hands.send(course, number)
            except TROUBLES:
                course.resent = (*course.resent, number)
                raise
            course.sent, course.trouble = number, ""
            self._check()
        return True

    def _force(self) -> bool:
        course = self.course
        if course.forced_at is None:
            self.hands.force(course)
            course.forced_at = self.hands.now()
        if not self.hands.is_away():
            return False
        course.known_at = self.hands.now()
        return True

    def _divert(self) -> bool:
        """Send the second third into the backlog, and see it there."""
        course = self.course
        while course.sent < course.second_part:
            if self.hands.is_ours() is False:
                raise _Broken("The failover ended before all was sent: an operator ended it, or it expired.")
            self._send(course.sent + 1)
            course.diverted_at = course.diverted_at or self.hands.now()
        seen = self.hands.look(course) or 0
        course.seen_in_backlog = max(course.seen_in_backlog, seen)
        course.trouble = f"{course.seen_in_backlog} of {course.diverted} messages were seen in the backlog."
        return course.seen_in_backlog >= course.diverted

    def _release(self) -> bool:
        if self.course.released_at is None:
            self.hands.release()
            self.course.released_at = self.hands.now()
        if self.hands.is_away():
            return False
        self.course.healed_at = self.hands.now()
        return True

    def _drain(self) -> bool:
        course = self.course
        course.left_in_backlog = left = self.hands.look(course)
        course.trouble = f"{'Some' if left is None else left} still in the backlog."
        if left != 0:
            return False
        course.home_at = self.hands.now()
        return True

    def _count(self) -> tuple[str, str]:
        """Receive until nothing more comes. Messages that do not arrive are a finding, not an error of the drill."""
        course, quiet = self.course, False
        self._enter(Step.COUNTING)
        while (course.lost or not quiet) and not self._is_late():
            try:
                quiet = not self.hands.receive(course)
            except TROUBLES:
                self.hands.pause()
            self._check()
        if lost := course.lost:
            return FAILED, f"{len(lost)} of {course.sent} messages did not arrive: {_numbers(lost)}."
        return PASSED, f"All {course.sent} messages arrived; {course.diverted} went through the backlog."

    def _roll_back(self) -> None:
        """Heal the canary; then drain and receive the messages of the drill, unless the worker has to stop."""
        self._enter(Step.ROLLING_BACK)
        course, quiet = self.course, 0
        is_home = course.forced_at is None
        self._heal()
        while quiet < QUIET_RECEIVES and course.sent and not self._is_late() and not self.hands.is_stopped():
            try:
                self.hands.store(course)
                is_home = is_home or self.hands.look(course) == 0
                quiet = 0 if self.hands.receive(course) or not is_home else quiet + 1
            except TROUBLES:
                self.hands.pause()

    def _heal(self) -> None:
        """End the failover. What cannot be ended in time expires by itself."""
        self.since = self.hands.now()
        while not self._is_late():
            try:
                return self.hands.heal()
            except TROUBLES:
                if self.hands.is_stopped():
                    return None
                self.hands.pause()
        return None


def _numbers(found: list[int]) -> str:
    numbers = ", ".join(map(str, found[:10]))
    return f"{numbers} and {len(found) - 10} more" if len(found) > 10 else numbers
