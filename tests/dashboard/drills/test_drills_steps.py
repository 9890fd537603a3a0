"""The steps of a drill in a world of its own, with errors and aborts anywhere: nothing forced stays forced."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.drills.course import ABORTED, FAILED, PASSED, Arrival, Course, Step
from dashboard.drills.steps import Drilling, Lost, Unfit
from dashboard.site.redis import RedisError
from pairing.fleet.presence import Heard, Presence
from tests.selection import depth

BEGAN = datetime(2026, 11, 2, 3, 0, tzinfo=UTC)
TOTAL = 9


@dataclass
class World:
    """A canary, its backlog and its queue; the tests choose what it loses or refuses."""

    time: datetime = BEGAN
    is_forced: bool = False
    heals: bool = True
    backlog: list[int] = field(default_factory=list)
    queue: list[int] = field(default_factory=list)
    swallowed: set[int] = field(default_factory=set)
    abort_at: int | None = None
    stop_at: int | None = None
    lost_at: int | None = None
    errors: list[str] = field(default_factory=list)
    """The fate of each effect: "raises" before it is done, "late" after it, anything else is fine."""
    unfit: str = ""
    is_stuck: bool = False
    """The syphon brings nothing home."""
    stored: int = 0
    steps: list[Step] = field(default_factory=list)

    def now(self) -> datetime:
        self.time += timedelta(milliseconds=100)
        if not self.is_forced and not self.is_stuck:
            self.queue += [number for number in self.backlog if number not in self.swallowed]
            self.backlog.clear()
        return self.time

    def pause(self, *, brief: bool = False) -> None:
        self.time += timedelta(seconds=0.5)

    def is_stopped(self) -> bool:
        return self.stop_at is not None and self.stored >= self.stop_at

    def is_away(self) -> bool:
        return self.is_forced

    def is_ours(self) -> bool | None:
        return self.is_forced

    def store(self, course: Course) -> str:
        assert Course.from_json(json.loads(json.dumps(course.as_json()))) == course
        self.stored += 1
        self.steps.append(course.step)
        if self.stored == self.lost_at:
            raise Lost
        return "ada" if self.abort_at is not None and self.stored >= self.abort_at else ""

    def prepare(self, course: Course) -> None:
        if self.unfit:
            raise Unfit(self.unfit)

    def send(self, course: Course, number: int) -> None:
        with self._fate():
            (self.backlog if self.is_forced else self.queue).append(number)

    def force(self, course: Course) -> None:
        with self._fate():
            self.is_forced = True

    def release(self) -> None:
        with self._fate():
            self.is_forced = self.is_forced and not self.heals

    def heal(self) -> None:
        with self._fate():
            self.is_forced = False

    def look(self, course: Course) -> int | None:
        with self._fate():
            return len(self.backlog)

    def receive(self, course: Course) -> int:
        with self._fate():
            found = len(self.queue)
            for number in self.queue:
                course.receive(number, len(course.arrivals) + 1)
            self.queue.clear()
            return found

    def _fate(self) -> "Fate":
        return Fate(self.errors.pop(0) if self.errors else "fine")


@dataclass
class Fate:
    word: str

    def __enter__(self) -> None:
        if self.word == "raises":
            raise RedisError("no answer")

    def __exit__(self, *_: object) -> None:
        if self.word == "late":
            raise RedisError("no answer, and yet it was done")


def ran(world: World) -> tuple[Course, str, str]:
    course = Course(Step.PREPARING, TOTAL)
    return course, *Drilling(course, world, BEGAN).run()


@pytest.mark.parametrize(
    ("world", "detail", "lost"),
    [
        (World(swallowed={5}), "1 of 9 messages did not arrive: 5.", [5]),
        (World(heals=False), "Releasing the canary took longer than 60 s.", []),
        (World(is_stuck=True), "Draining the backlog took longer than 300 s. 3 still in the backlog.", [4, 5, 6]),
        (World(unfit="the canary needs sessions"), "the canary needs sessions", []),
        (World(errors=["raises"] * 400), "Sending to the primary took longer than 90 s. no answer", []),
        (World(stop_at=7), "The worker that ran it was stopped.", None),
    ],
    ids=["a loss", "no recovery", "no drain", "unfit", "no sends", "a stopped worker"],
)
def test_what_goes_wrong_fails_the_drill_and_is_named(world: World, detail: str, lost: list[int] | None) -> None:
    course, outcome, reason = ran(world)

    assert outcome == FAILED
    assert detail in reason
    assert not world.is_forced
    assert lost is None or course.lost == lost


def test_a_failover_that_somebody_else_ends_is_a_failure() -> None:
    world = World()
    send = world.send

    def ended(course: Course, number: int) -> None:
        send(course, number)
        world.is_forced = world.is_forced and number < 5

    world.send = ended  # type: ignore[method-assign]

    assert "The failover ended before all was sent" in ran(world)[2]


@pytest.mark.parametrize("at", range(1, 24))
def test_an_abort_at_any_moment_leaves_nothing_forced_and_no_message_behind(at: int) -> None:
    world = World(abort_at=at)

    course, outcome, detail = ran(world)

    assert (outcome, detail) == (ABORTED, "Aborted by ada.") or Step.COUNTING in world.steps
    assert not world.is_forced
    assert (world.backlog, world.queue, course.lost) == ([], [], [])


@pytest.mark.parametrize("at", range(1, 12))
def test_a_worker_that_has_lost_its_claim_heals_the_canary_and_stops(at: int) -> None:
    world = World(lost_at=at)

    with pytest.raises(Lost):
        ran(world)

    assert not world.is_forced
    assert world.stored == at


@settings(max_examples=depth(150), deadline=None)
@given(
    errors=st.lists(st.sampled_from(["fine", "fine", "fine", "raises", "late"]), max_size=60),
    abort_at=st.none() | st.integers(1, 40),
    heals=st.booleans(),
    swallowed=st.sets(st.integers(1, TOTAL), max_size=2),
)
def test_whatever_fails_nothing_stays_forced_and_no_loss_passes(
    errors: list[str], abort_at: int | None, heals: bool, swallowed: set[int]
) -> None:
    world = World(errors=errors, abort_at=abort_at, heals=heals, swallowed=swallowed)

    course, outcome, _ = ran(world)

    assert not world.is_forced
    if outcome == PASSED:
        assert course.arrived == set(range(1, TOTAL + 1))
        assert course.seen_in_backlog >= course.diverted == 3
        doubled = {number for number in course.arrived if sum(one.number == number for one in course.arrivals) > 1}
        assert doubled <= set(course.resent)


def test_a_message_delivered_again_is_one_arrival_and_its_double_is_two() -> None:
    course = Course(Step.PREPARING, TOTAL)
    for sequence in (10, 10, 11):
        course.receive(1, sequence)

    assert course.arrivals == (Arrival(1, 10), Arrival(1, 11))


def test_only_processes_that_were_there_report_the_adoption_of_this_failover() -> None:
    course = Course(Step.FORCING, TOTAL, fleet=("app:1:aaaa", "app:2:bbbb"), forced_version=7)
    living = {
        "app:1:aaaa": Presence(sends=True, heard=(Heard("canary", 6, 9.0), Heard("canary", 7, 0.2))),
        "app:2:bbbb": Presence(sends=True, heard=(Heard("orders", 7, 0.1),)),
        "app:9:late": Presence(sends=True, heard=(Heard("canary", 7, 60.0),)),
    }

    course.hear("canary", living)
    course.hear("canary", {})

    assert course.heard == {"app:1:aaaa": 0.2}
