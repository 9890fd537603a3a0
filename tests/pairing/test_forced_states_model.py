"""Random lives of one entity in a small fleet: processes see failures and pings, operators force, hold and release,
news is late or lost, processes are cut off, Redis comes back empty. The machines, the outboxes and the scripts in Redis
are the real ones; only the clock and the way of the news are models (docs/specification.md, sections 5 and 11).

More lives: ``PAIRING_MODEL_RUNS=20000 pytest tests/pairing/test_forced_states_model.py --timeout 0``.
"""

from collections import deque
from contextlib import suppress
from datetime import datetime, timedelta

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from redis.exceptions import ConnectionError as RedisIsAwayError

from pairing import SendAvailabilityOptions
from pairing.fleet import coordination, health_store, shared_state
from pairing.fleet.coordination import RedisCoordination
from pairing.fleet.shared_health import SharedHealth
from pairing.fleet.shared_state import SharedState
from pairing.health.flows import PingResult
from pairing.membership import Fleet
from pairing.pair import GuardedEntity, Pair
from pairing.testing import ManualClock
from tests.pairing.model_redis import ClockedScript, NearRedis, live
from tests.selection import lives

RUNS = lives(150)
ENTITY, PAIR = "orders", "model"
HEALTH = f"pairing:{{{PAIR}}}:health"
OPTIONS = SendAvailabilityOptions(
    failover_interval=timedelta(seconds=5), ping_primary_interval=timedelta(seconds=10), flap_damping=False
)
BOTH = ("one", "two")
names = st.sampled_from(BOTH)
ends = st.sampled_from([None, 20, 60])


class ModelTime(datetime):
    """What the shared state takes for the time of the machine."""

    clock = ManualClock()

    @classmethod
    def now(cls, tz=None):
        return cls.clock.utc(cls.clock.now())


def clocked(shared: SharedState) -> SharedState:
    """The same scripts, by the model's clock."""
    for name, text in (("change", health_store._CHANGE), ("claim", shared_state._CLAIM)):
        setattr(shared, f"_{name}", ClockedScript(shared.redis, text, lambda: ModelTime.now().timestamp()))
    return shared


class Process:
    """An application: the real machine and outbox, whose threads are the model's steps."""

    def __init__(self, name: str, clock: ManualClock) -> None:
        self.pair = Pair(OPTIONS, PAIR, name, clock)
        self.coordination = RedisCoordination("redis://one.for.all", PAIR, name)
        clocked(self.coordination.shared)
        self.coordination._presences.report = lambda process, presence: None
        self.coordination._backlog.pulled = list
        self.fleet = Fleet(self.pair, None)
        self.fleet.join(self.coordination)
        self.coordination._on_change = self.fleet._adopt
        self.coordination._reconcile()
        self.coordination.is_connected = True
        self.pair.on_report = lambda event: None
        self.entity = GuardedEntity(self.pair, ENTITY)
        self.machine = self.entity.machine
        self.news: deque[str] = deque()
        self.by_hand = False
        """Whether what waits in the outbox is an operator's word."""
        self.by_ping = False


class FleetLife(RuleBasedStateMachine):
    redis: NearRedis

    @initialize()
    def begin(self):
        self.redis.flushall()
        self.clock = ModelTime.clock = ManualClock()
        self.advance(0)
        self.processes = {name: Process(name, self.clock) for name in BOTH}
        self.web = clocked(SharedState(self.redis, PAIR))
        self.written: SharedHealth | None = None
        self.highest = 0

    def advance(self, by):
        self.clock.advance(by)

    # What is written, and who may write it -------------------------------------------------------------------------

    def has_written(self, *, by_hand=False, by_ping=False, restores=False):
        """Somebody has spoken to Redis: what changed there is judged, and is news to all who are not cut off."""
        self.advance(0.0003)  # less than the clock of the versions tells apart
        before, text = self.written, self.redis.hget(HEALTH, ENTITY)
        now = None if text is None else SharedHealth.from_json(text)
        if now == before:
            return
        self.written = now
        for process in self.processes.values():
            if process.coordination.is_connected:
                process.news.append(text)
        assert now.state in ("healthy", "failing", "failed_over")
        assert now.held_by is None or now.state == "failed_over"
        if restores:
            assert now.state == "failed_over" or before is None or before.version < now.version
            self.highest = max(self.highest, now.version)
            return
        assert now.version > self.highest
        self.highest = now.version
        if before is not None and before.state == "failed_over" and not by_hand:
            assert now.state == "failed_over" or (now.state == "healthy" and by_ping), (before, now)
            if self.is_held(before):
                assert (now.state, now.held_by) == ("failed_over", before.held_by), (before, now)
        if before is not None and before.origin == "forced" and before.state == "healthy" and now.held_by:
            assert by_hand, (before, now)

    def is_held(self, health: SharedHealth) -> bool:
        return health.held_by is not None and (health.expires is None or health.expires > ModelTime.now())

    # What processes see --------------------------------------------------------------------------------------------

    @rule(name=names)
    def a_send_fails(self, name):
        process = self.processes[name]
        if not process.entity.is_failed_over(self.clock.now()):
            process.entity.failed(self.clock.now(), ConnectionError("away"), self.clock.now())

    @rule(name=names)
    def a_send_is_accepted(self, name):
        process = self.processes[name]
        if not process.entity.is_failed_over(self.clock.now()):
            process.entity.sent(self.clock.now())

    @rule(name=names, accepted=st.booleans())
    def a_ping_is_answered(self, name, accepted):
        process = self.processes[name]
        process.pair.tick()
        if not process.machine.ping_due(self.clock.now()):
            return
        if process.coordination.is_connected and not self.web.claim_ping(ENTITY, 10):
            return
        was_held = process.machine.held_by
        process.pair.pinged(PingResult(ENTITY, accepted, "answered"))
        assert (process.machine.state == "healthy") == (accepted and was_held is None)
        process.by_ping = process.by_ping or process.machine.state == "healthy"

    @rule(seconds=st.sampled_from([1, 5, 11, 21, 70]), ticks=st.sets(names))
    def time_passes(self, seconds, ticks):
        self.advance(seconds)
        for name in ticks:
            self.processes[name].pair.tick()

    # What operators do ---------------------------------------------------------------------------------------------

    @rule(hold=st.booleans(), expires=ends)
    def the_operator_fails_over(self, hold, expires):
        until = None if expires is None else ModelTime.now() + timedelta(seconds=expires)
        self.web.fail_over(ENTITY, "drill", operator="ann", process="web", hold=hold, expires=until)
        self.has_written(by_hand=True)

    @rule(verb=st.sampled_from(["hold", "release", "mark_healthy"]))
    def the_operator_speaks(self, verb):
        stood = getattr(self.web, verb)(ENTITY, operator="bob", process="web")
        self.has_written(by_hand=True)
        assert verb != "mark_healthy" or stood.state != "failed_over"
        assert verb != "hold" or stood.state != "failed_over" or stood.held_by == "bob"
        assert verb != "release" or stood.held_by is None

    @rule(name=names, verb=st.sampled_from(["hold", "release", "mark_healthy", "fail_over"]), expires=ends)
    def somebody_speaks_in_a_process(self, name, verb, expires):
        process = self.processes[name]
        process.pair.tick()
        before = process.coordination._changes.get(ENTITY)
        if verb == "fail_over":
            until = None if expires is None else timedelta(seconds=expires)
            process.pair.fail_over(ENTITY, "drill", True, until, name)
        else:
            getattr(process.pair, verb)(ENTITY, name)
        process.by_hand = process.by_hand or process.coordination._changes.get(ENTITY) is not before

    # The way of the news -------------------------------------------------------------------------------------------

    @rule(name=names, answer_is_lost=st.booleans())
    def the_outbox_is_emptied(self, name, answer_is_lost=False):
        process = self.processes[name]
        if not process.coordination.is_connected or not process.coordination._changes:
            return
        whose = {"by_hand": process.by_hand, "by_ping": process.by_ping}
        publish = process.coordination.shared.publish
        if answer_is_lost:
            process.coordination.shared.publish = lambda *a, **k: (publish(*a, **k), self.no_answer())
        try:
            with suppress(RedisIsAwayError):
                process.coordination._report_all()
                process.by_hand = process.by_ping = False
        finally:
            process.coordination.shared.publish = publish
        self.has_written(**whose)

    def no_answer(self):
        raise RedisIsAwayError("the answer was lost")

    @rule(name=names, is_lost=st.sampled_from([False, False, True]))
    def news_arrives(self, name, is_lost):
        process = self.processes[name]
        if process.news:
            text = process.news.popleft()
            if not is_lost:
                process.coordination._learn(SharedHealth.from_json(text))

    @rule(name=names)
    def a_process_reconciles(self, name):
        coordination = self.processes[name].coordination
        if coordination.is_connected:
            coordination._reconcile()
            self.has_written(restores=True)

    @rule(name=names)
    def a_process_is_cut_off_or_back(self, name):
        process = self.processes[name]
        process.coordination.is_connected = not process.coordination.is_connected
        process.news.clear()
        if process.coordination.is_connected:
            self.a_process_reconciles(name)

    @rule()
    def redis_is_restarted_empty(self):
        self.redis.flushall()
        self.written = None
        for process in self.processes.values():
            process.news.clear()  # what was on its way has gone with its connection
        self.advance(1)

    # The judge -----------------------------------------------------------------------------------------------------

    @invariant()
    def every_machine_is_in_a_state_of_the_table(self):
        for process in getattr(self, "processes", {}).values():
            machine = process.machine
            assert machine.state in ("healthy", "failing", "failed_over")
            assert machine.held_by is None or machine.state == "failed_over"
            assert machine.expires is None or machine.held_by is not None
            assert (machine.ping_at is not None) == (machine.state == "failed_over")

    def teardown(self):
        """Everybody is back, everything is reported and read: all agree."""
        if not hasattr(self, "processes"):
            return
        for process in self.processes.values():
            process.coordination.is_connected = True
        for _ in range(4):
            for name, process in self.processes.items():
                process.pair.tick()
                self.a_process_reconciles(name)
                self.the_outbox_is_emptied(name)
                while process.news:
                    self.news_arrives(name, is_lost=False)
        stands = self.written
        for process in self.processes.values():
            machine = process.machine
            if stands is None or stands.state != "failed_over":
                assert machine.state != "failed_over", (process.pair.process, stands)
            elif stands.origin == "forced" or not machine.disputed:
                assert machine.state == "failed_over", (process.pair.process, stands)
                assert machine.held_by == stands.held_by or not self.is_held(stands), (process.pair.process, stands)


@pytest.fixture
def world(near_redis, monkeypatch):
    """One Redis and one client for all processes: to make one for each life takes as long as a tenth of it."""
    for module in (health_store, shared_state):
        monkeypatch.setattr(module, "datetime", ModelTime)
    monkeypatch.setattr(coordination, "client_of", lambda *arguments, **options: near_redis)
    FleetLife.redis = near_redis


@pytest.mark.slow
@pytest.mark.usefixtures("world")
def test_no_report_ends_an_operators_hold_and_all_agree_in_the_end():
    live(FleetLife, RUNS, steps=30)


@pytest.fixture
def life(world):
    life = FleetLife()
    life.begin()
    return life


def test_a_failover_that_is_heard_of_late_does_not_outlive_the_word_that_ended_it(life):
    """What thousands of lives found: who ended it hears of it afterwards, and has a failure of its own to tell."""
    life.a_send_fails(name="one")
    life.redis_is_restarted_empty()
    life.advance(5)
    life.the_operator_fails_over(hold=False, expires=None)
    life.somebody_speaks_in_a_process(name="one", verb="mark_healthy", expires=None)
    life.the_outbox_is_emptied(name="one", answer_is_lost=False)
    life.a_send_fails(name="one")
    life.teardown()


def test_a_failover_that_was_ended_is_not_brought_back_by_who_did_not_hear_of_it(life):
    """Another find: Redis forgets, and the failure of one who knew of the end comes before the memory of one who did
    not."""
    life.somebody_speaks_in_a_process(name="one", verb="fail_over", expires=None)
    life.the_outbox_is_emptied(name="one", answer_is_lost=False)
    life.a_process_reconciles(name="two")
    life.the_operator_speaks(verb="mark_healthy")
    life.a_process_reconciles(name="one")
    life.redis_is_restarted_empty()
    life.a_send_fails(name="one")
    life.the_outbox_is_emptied(name="one", answer_is_lost=False)
    life.teardown()
    assert [one.machine.state for one in life.processes.values()] == ["failing", "healthy"]


def test_a_hold_that_redis_forgot_outlives_the_failover_of_who_restores_it(life):
    """And another: the restored word is not the restorer's own, so its report does not take the place of it."""
    life.a_send_fails(name="one")
    life.the_operator_fails_over(hold=False, expires=None)
    life.the_operator_speaks(verb="hold")
    life.a_process_reconciles(name="one")
    life.redis_is_restarted_empty()
    life.the_outbox_is_emptied(name="one", answer_is_lost=False)
    life.advance(5)
    life.teardown()
    assert [one.machine.held_by for one in life.processes.values()] == ["bob", "bob"]


def test_who_ended_its_own_failover_says_so_also_to_a_redis_that_has_forgotten(life):
    """`failing` is all that it has to say then, and another remembers the failover alone."""
    life.a_send_fails(name="one")
    life.time_passes(5, {"one"})
    life.the_outbox_is_emptied(name="one", answer_is_lost=False)
    life.news_arrives(name="two", is_lost=False)
    life.time_passes(11, set())
    life.a_ping_is_answered(name="one", accepted=True)
    life.the_outbox_is_emptied(name="one", answer_is_lost=False)
    life.redis_is_restarted_empty()
    life.advance(5)
    life.a_send_fails(name="one")
    life.the_outbox_is_emptied(name="one", answer_is_lost=False)
    assert [one.machine.state for one in life.processes.values()] == ["failing", "failed_over"]
    life.teardown()
    assert [one.machine.state for one in life.processes.values()] == ["failing", "healthy"]
