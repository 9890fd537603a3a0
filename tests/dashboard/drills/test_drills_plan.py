"""The plan of a drill against a world of its own, with deaths and troubles anywhere: nothing forced stays forced.

docs/readiness.md.
"""

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.drills.decisions import Sight, decide, resumed
from dashboard.drills.plan import ABORTED, FAILED, LIMITS_S, PASSED, Arrival, Plan, Step
from dashboard.drills.results import done, received, troubled, with_reports
from dashboard.drills.tasks import Finish, Force, Look, MarkHealthy, Prepare, Receive, Release, Send, Task, Wait
from pairing.fleet.presence import Heard, Presence
from tests.selection import depth

BEGAN = datetime(2026, 11, 2, 3, 0, tzinfo=UTC)
EXPIRES = BEGAN + timedelta(minutes=15)
TOTAL = 9


@dataclass
class World:
    """A canary, its backlog and its queue; what it loses or keeps is chosen by the tests."""

    now: datetime = BEGAN
    is_forced: bool = False
    heals: bool = True
    backlog: list[int] = field(default_factory=list)
    queue: list[int] = field(default_factory=list)
    completed: list[int] = field(default_factory=list)
    swallowed: set[int] = field(default_factory=set)
    abort_by: str = ""
    is_stuck: bool = False
    """The syphon brings nothing home."""

    @property
    def is_expired(self) -> bool:
        return self.now >= EXPIRES

    def tick(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        if self.is_expired:
            self.is_forced = False
        if not self.is_forced and not self.is_stuck:
            self.queue += [number for number in self.backlog if number not in self.swallowed]
            self.backlog.clear()

    def sight(self) -> Sight:
        return Sight(self.is_forced, self.is_forced, self.is_expired, self.abort_by)

    def do(self, plan: Plan, task: Task) -> Plan:
        """The task, as far as the world is concerned, and the plan after it."""
        counted = 0
        match task:
            case Send(number):
                (self.backlog if self.is_forced else self.queue).append(number)
            case Force():
                self.is_forced = True
            case Release() if self.heals:
                self.is_forced = False
            case MarkHealthy():
                self.is_forced = False
            case Look():
                counted = len(self.backlog)
            case Receive():
                counted = len(self.queue)
                for position, number in enumerate(self.queue):
                    plan = received(plan, number, len(self.completed) + position)
                self.completed += self.queue
                self.queue.clear()
        return done(plan, task, self.now, counted=counted)


def fresh(total: int = TOTAL) -> Plan:
    return Plan(Step.PREPARING, BEGAN, total)


def kept(plan: Plan) -> Plan:
    """As the next worker reads it."""
    return Plan.from_json(json.loads(json.dumps(plan.as_json())))


def run(world: World, plan: Plan, most: int = 3_000) -> tuple[Plan, Finish]:
    for _ in range(most):
        plan, task = decide(plan, world.sight(), world.now)
        plan = kept(plan)
        if isinstance(task, Finish):
            return plan, task
        plan = kept(world.do(plan, task))
        world.tick(0.5)
    raise AssertionError(f"it never ended: {plan}")


def test_a_good_drill_sends_a_third_before_during_and_after_and_counts_them_all() -> None:
    world = World()

    plan, end = run(world, fresh())

    assert end.outcome == PASSED
    assert plan.arrived == set(range(1, TOTAL + 1))
    assert (plan.diverted, plan.seen_in_backlog, plan.lost) == (3, 3, [])
    assert plan.operations == {"send": 6, "send_backlog": 3}
    times = [plan.forced_at, plan.diverted_at, plan.released_at, plan.healed_at, plan.home_at]
    assert None not in times
    assert times == sorted(times)  # type: ignore[type-var]
    assert not world.is_forced


def test_a_message_that_does_not_arrive_fails_the_drill_and_is_named() -> None:
    world = World(swallowed={5})

    plan, end = run(world, fresh())

    assert end.outcome == FAILED
    assert "1 of 9 messages did not arrive: 5." in end.detail
    assert plan.lost == [5]


def test_a_canary_that_does_not_heal_is_healed_by_the_roll_back() -> None:
    world = World(heals=False)

    plan, end = run(world, fresh())

    assert end.outcome == FAILED
    assert "Releasing the canary took longer than 60 s" in end.detail
    assert not world.is_forced
    assert plan.arrived == set(range(1, 7))


def test_messages_that_do_not_come_home_fail_the_drill_within_its_limits() -> None:
    world = World(is_stuck=True)

    _, end = run(world, fresh())

    assert end.outcome == FAILED
    assert "Draining the backlog took longer than 300 s" in end.detail
    assert "3 still in the backlog" in end.detail


@pytest.mark.parametrize("after", range(40))
def test_an_abort_at_any_moment_leaves_nothing_forced_and_no_message_behind(after: int) -> None:
    world, plan = World(), fresh()
    end: Finish | None = None
    for number in range(3_000):
        if number == after:
            world.abort_by = "ada"
        plan, task = decide(plan, world.sight(), world.now)
        if isinstance(task, Finish):
            end = task
            break
        plan = world.do(plan, task)
        world.tick(0.5)

    assert end is not None
    if end.outcome == ABORTED:
        assert "Aborted by ada" in end.detail
    assert not world.is_forced
    assert (world.backlog, world.queue) == ([], [])


def test_somebody_else_ending_the_failover_is_reported_and_not_fought(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = replace(fresh(), step=Step.DIVERTING, is_prepared=True, sent=4, is_forced=True, forced_at=BEGAN)
    world = World(queue=[1, 2, 3, 4])

    _, end = run(world, plan)

    assert end.outcome == FAILED
    assert "it was ended by an operator" in end.detail


def test_a_worker_that_has_not_heard_of_the_failover_yet_waits_before_it_sends() -> None:
    plan = replace(fresh(), step=Step.DIVERTING, is_prepared=True, sent=3, is_forced=True, forced_at=BEGAN)

    _, task = decide(plan, Sight(is_away=False, is_ours=True), BEGAN)

    assert isinstance(task, Wait)


def test_while_redis_does_not_answer_the_roll_back_goes_on_trying_until_the_expiry() -> None:
    plan = replace(fresh(), step=Step.ROLLING_BACK, is_forced=True, failure="power")
    late = BEGAN + timedelta(seconds=LIMITS_S[Step.ROLLING_BACK] + 1)

    _, before = decide(plan, Sight(True, None), late)
    _, after = decide(plan, Sight(True, None, is_expired=True), EXPIRES)

    assert isinstance(before, MarkHealthy)
    assert isinstance(after, Finish)


def test_the_same_message_delivered_again_is_one_arrival_and_its_double_is_two() -> None:
    plan = received(received(received(fresh(), 1, 10), 1, 10), 1, 11)

    assert plan.arrivals == (Arrival(1, 10), Arrival(1, 11))


def test_what_was_begun_when_a_worker_died_may_be_there_twice_and_is_sent_again() -> None:
    plan, task = decide(replace(fresh(), is_prepared=True), World().sight(), BEGAN)
    assert task == Send(1)

    plan, task = decide(resumed(kept(plan)), World().sight(), BEGAN)

    assert task == Send(1)
    assert plan.unsure == (1,)


def test_a_failure_that_is_final_is_not_tried_again() -> None:
    plan = troubled(fresh(), Prepare(), "the canary needs sessions", is_final=True)

    _, task = decide(plan, World().sight(), BEGAN)

    assert task == Finish(FAILED, "the canary needs sessions")


# Deaths and troubles anywhere ---------------------------------------------------------------------------------------

FATES = st.lists(
    st.sampled_from(["fine", "fine", "fine", "fine", "dies before", "dies after", "raises", "raises late", "slow"]),
    max_size=60,
)


@settings(max_examples=depth(150), deadline=None)
@given(
    fates=FATES,
    abort_at=st.none() | st.integers(0, 50),
    heals=st.booleans(),
    swallowed=st.sets(st.integers(1, TOTAL), max_size=2),
    blind=st.sets(st.integers(0, 60), max_size=8),
    others=st.none() | st.integers(0, 50),
)
def test_however_often_workers_die_nothing_stays_forced_and_no_loss_passes(
    fates: list[str],
    abort_at: int | None,
    heals: bool,
    swallowed: set[int],
    blind: set[int],
    others: int | None,
) -> None:
    world, plan = World(heals=heals, swallowed=swallowed), fresh()
    end: Finish | None = None
    for number in range(5_000):
        fate = fates[number] if number < len(fates) else "fine"
        if number == abort_at:
            world.abort_by = "ada"
        if number == others:
            world.is_forced = False
        sight = world.sight()
        if number in blind:
            sight = replace(sight, is_ours=None)
        plan, task = decide(plan, sight, world.now)
        plan = kept(plan)  # written down before the task
        if isinstance(task, Finish):
            end = task
            break
        if fate == "dies before":
            plan = resumed(plan)
            world.tick(30)
            continue
        if fate == "raises":
            plan = troubled(plan, task, "no answer")
            world.tick(5)
            continue
        after = kept(world.do(plan, task))
        if fate == "dies after":
            plan = resumed(plan)  # what was done was not written down
            world.tick(30)
            continue
        if fate == "raises late":
            plan = troubled(plan, task, "no answer, and yet it was done")
            world.tick(5)
            continue
        plan = after
        world.tick(20 if fate == "slow" else 0.5)
    assert end is not None, "it never ended"
    assert not world.is_forced
    if end.outcome == PASSED:
        assert plan.sent == TOTAL
        assert set(world.completed) == set(range(1, TOTAL + 1))
        assert plan.seen_in_backlog >= plan.diverted == 3
    if end.outcome == ABORTED:
        assert world.abort_by


def test_what_processes_report_of_the_failover_counts_for_those_that_were_there_and_for_this_one_alone() -> None:
    plan = replace(course_of_a_drill(), fleet=("app:1:aaaa", "app:2:bbbb"), forced_version=7)
    living = {
        "app:1:aaaa": Presence(sends=True, heard=(Heard("canary", 6, 9.0), Heard("canary", 7, 0.2))),
        "app:2:bbbb": Presence(sends=True, heard=(Heard("orders", 7, 0.1),)),
        "app:9:late": Presence(sends=True, heard=(Heard("canary", 7, 60.0),)),
    }

    reported = with_reports(plan, "canary", living)
    gone = with_reports(reported, "canary", {})

    assert (reported.heard, gone.heard) == ({"app:1:aaaa": 0.2}, {"app:1:aaaa": 0.2})
    assert Plan.from_json(json.loads(json.dumps(gone.as_json()))) == gone


def test_a_course_of_an_earlier_version_is_read() -> None:
    reported = course_of_a_drill().as_json()
    for name in ("fleet", "heard", "forced_version"):
        del reported[name]

    assert Plan.from_json(reported) == course_of_a_drill()


def course_of_a_drill() -> Plan:
    return Plan(Step.PREPARING, BEGAN, TOTAL)
