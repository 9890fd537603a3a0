"""Random lives of a fleet that keeps a session in order: one process at a time writes, processes and syphons die at any
step, the entity fails over and recovers here and there, and time passes or does not. The flow, the gates, the scripts
in Redis and the syphon's turns are the real ones; only brokers and the clock are models (docs/design/session-order.md).

More lives: ``PAIRING_MODEL_RUNS=20000 pytest tests/pairing/test_session_order_model.py --timeout 0``.
"""

from types import SimpleNamespace

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pairing.drain import session_order
from pairing.drain.backlog_queue import Failed as Unavailable
from pairing.drain.backlog_queue import Item, Sent
from pairing.drain.session_order import InTurn
from pairing.errors import Fault
from pairing.fleet.shared_state import SharedState
from pairing.health.flows import DONE, Failed
from pairing.messages.rewriting import PATH, SESSION_ID
from pairing.sessions import shared as shared_sessions
from pairing.sessions.gates import SessionGates
from pairing.sessions.order import SessionSend
from pairing.sessions.shared import SharedSessions
from tests.pairing.model_redis import Clock, NearRedis, live
from tests.pairing.steps import (
    Ask,
    Attempts,
    Bar,
    Barred,
    Hold,
    Lift,
    Pause,
    Peek,
    Queue,
    Receive,
    Send,
    Settle,
    ToBacklog,
    ToPrimary,
)
from tests.selection import lives

RUNS = lives(150)
ENTITY, SESSION = "orders", "s"
QUEUES = ("backlog/0", "backlog/1")
LOCK_S = 60.0


class Process:
    """An application: its view of the entity, and of the gates."""

    path = ENTITY

    def __init__(self, fleet, name: str) -> None:
        self.fleet, self.is_down = fleet, False
        self.gates = SessionGates(
            fleet.shared,
            name,
            endangered=lambda: [ENTITY] if self.is_down else [],
            at_risk=lambda entity, reason: None,
            now=lambda: fleet.clock.now,
        )
        fleet.clock.clocked(self.gates._sessions, fleet.redis)

    def is_failed_over(self, now):
        return self.is_down

    def sent(self, now):
        pass

    def failed(self, now, error, began):
        self.is_down = True
        return True

    def refused(self, now, error):
        pass

    def backlog(self, session):
        return SimpleNamespace(
            choose=lambda tried: next((q for q in self.fleet.order_of_queues if q not in tried), None),
            last_resort=lambda tried: None,
            accepted=lambda queue, now: None,
            failed=lambda queue, error, now: None,
        )


def stored(number: int, body: int):
    properties = {PATH.encode(): ENTITY.encode(), SESSION_ID.encode(): SESSION.encode()}
    return SimpleNamespace(sequence_number=number, application_properties=properties, body=body, locked_until=0.0)


class FleetLife(RuleBasedStateMachine):
    redis: NearRedis

    @initialize()
    def begin(self):
        self.redis.flushall()
        self.clock = Clock()
        self.shared = SharedState(self.redis, "model")
        self.sessions = self.clock.clocked(SharedSessions(self.shared), self.redis)
        self.names = 0
        self.processes = [self.new_process(), self.new_process()]
        self.writer = 0
        self.primary_works = True
        self.broken: set[str] = set()
        self.unreadable: set[str] = set()
        self.order_of_queues = list(QUEUES)
        self.home: list[int] = []
        self.queues: dict[str, dict[int, SimpleNamespace]] = {queue: {} for queue in QUEUES}
        self.last_number = dict.fromkeys(QUEUES, 0)
        self.next_body = 0
        self.accepted = -1
        self.flow = None
        self.action = None
        self.syphons = {queue: self.new_syphon() for queue in QUEUES}

    def new_process(self):
        self.names += 1
        return Process(self, f"process-{self.names}")

    def new_syphon(self):
        return InTurn(Queue(), may_work=lambda: True, now=lambda: self.clock.now)

    # The writer ----------------------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 3))
    def send(self, count):
        """Some messages, with nothing between their steps."""
        for _ in range(count):
            if self.flow is None:
                self.begin_to_send()
            while self.flow is not None:
                self.advance_flow(self.perform(self.action))

    @rule(is_down=st.booleans(), count=st.integers(1, 2))
    def hand_over(self, is_down, count):
        """The other process goes on, with what it knows."""
        if self.flow is None:
            self.writer = 1 - self.writer
            self.processes[self.writer].is_down = is_down
            self.send(count)

    @precondition(lambda self: self.flow is None)
    @rule(asks=st.booleans())
    def begins_to_send(self, asks):
        """Up to its first step; one that asks may have a barrier counting it while it sends nothing."""
        self.begin_to_send()
        if asks and isinstance(self.action, Ask):
            self.advance_flow(self.perform(self.action))

    def begin_to_send(self):
        process = self.processes[self.writer]
        send = SessionSend(
            Attempts(),
            process,
            process.gates,
            process.backlog,
            lambda: self.clock.now,
            self.clock.now + 30,
            False,
            lambda e: False,
            self.clock.now,
        )
        self.flow = send.run("work", [(SESSION, "part")])
        self.advance_flow(None)

    def advance_flow(self, outcome):
        try:
            self.action = self.flow.send(outcome)
        except StopIteration:
            self.accepted, self.next_body, self.flow = self.next_body, self.next_body + 1, None
        except Exception:
            self.flow = None  # refused: the caller keeps the message and sends it again

    @precondition(lambda self: self.flow is not None)
    @rule(crash=st.sampled_from(["", "", "", "", "before", "after"]), stall_s=st.sampled_from([0.0, 0.0, 0.4, 1.9]))
    def go_on_sending(self, crash, stall_s):
        if crash != "before":
            outcome = self.perform(self.action)
        if crash:
            self.kill()
        else:
            self.clock.advance(stall_s if isinstance(self.action, Ask) else 0)
            self.advance_flow(outcome)

    def kill(self):
        self.flow.close()
        self.flow = None
        self.processes[self.writer] = self.new_process()

    def perform(self, action):
        match action:
            case ToPrimary():
                if not self.primary_works:
                    return Failed(Fault.OUTAGE, ConnectionRefusedError("away"))
                self.home.append(self.next_body)
                return DONE
            case ToBacklog(queue=queue):
                if queue in self.broken:
                    return Failed(Fault.OUTAGE, ConnectionRefusedError("broken"))
                self.last_number[queue] += 1
                self.queues[queue][self.last_number[queue]] = stored(self.last_number[queue], self.next_body)
                return DONE
            case Ask(question=question):
                return question()
            case Pause(seconds=seconds):
                return self.clock.advance(seconds)

    @precondition(lambda self: self.flow is None)
    @rule()
    def the_other_process_writes(self):
        self.writer = 1 - self.writer

    @rule(which=st.sampled_from([0, 1]))
    def a_process_refreshes(self, which):
        """Its thread's work, which may be late."""
        gates = self.processes[which].gates
        gates.refresh()
        gates._report_ended()

    @rule(which=st.sampled_from([0, 1]), is_down=st.booleans())
    def a_process_sees_the_entity(self, which, is_down):
        self.processes[which].is_down = is_down

    # The world -----------------------------------------------------------------------------------------------------

    @rule(works=st.booleans())
    def the_primary(self, works):
        self.primary_works = works

    @rule(queue=st.sampled_from(QUEUES), for_s=st.sampled_from([0.5, 5.0]))
    def a_syphon_holds_the_session(self, queue, for_s):
        """At any time, also one that has lost its lease."""
        self.sessions.hold(queue, self.sessions.barred(queue) or {}, for_s)

    @rule(queue=st.sampled_from(QUEUES))
    def a_backlog_queue_breaks_or_is_mended(self, queue):
        self.broken ^= {queue}

    @rule(queue=st.sampled_from(QUEUES))
    def a_link_dies_with_what_it_was_sent(self, queue):
        """The syphon lives on and opens another; the messages stay locked."""
        for message in self.queues[queue].values():
            message.locked_until = max(message.locked_until, self.clock.now + LOCK_S)

    @rule(queue=st.sampled_from(QUEUES))
    def a_queue_cannot_be_read_or_can_again(self, queue):
        self.unreadable ^= {queue}

    @rule()
    def queues_are_chosen_otherwise(self):
        self.order_of_queues.reverse()

    @rule(by=st.sampled_from([0.1, 0.6, 2.1, 11.0, 61.0, 200.0]))
    def time_passes(self, by):
        self.clock.advance(by)

    # The syphon ----------------------------------------------------------------------------------------------------

    @rule(
        queue=st.sampled_from(QUEUES),
        steps=st.integers(1, 12),
        dies=st.booleans(),
        count=st.integers(1, 3),
        after_s=st.sampled_from([0.0, 0.0, 1.1]),
    )
    def a_syphon_works_after(self, queue, steps, dies, count, after_s):
        """Where a second has passed it looks whether barriers can be lifted."""
        self.clock.advance(after_s)
        self.a_syphon_works(queue, steps, dies, count)

    def a_syphon_works(self, queue, steps, dies, count):
        """So many actions; one that dies leaves what it held locked, the other finishes what it holds."""
        flow = self.moving(self.syphons[queue], count)
        action = next(flow)
        for _ in range(steps):
            if isinstance(action, Receive) and not dies and _ > 2:
                break
            action = flow.send(self.syphon_performs(queue, action))
        if dies:
            self.syphons[queue] = self.new_syphon()
        else:
            while not isinstance(action, Receive):
                action = flow.send(self.syphon_performs(queue, action))
        flow.close()

    @staticmethod
    def moving(queue, count):
        """The simplest drain: messages that cannot be sent now are released."""
        while True:
            for message in (yield from queue.receive(count, 0.1)):
                item = Item(message, message.sequence_number, ENTITY, message.body)
                sent = yield from queue.send(ENTITY, [item])
                yield from queue.settle("complete" if sent.count else "abandon", [item])

    def syphon_performs(self, queue, action):
        held = self.queues[queue]
        match action:
            case Receive(count=count):
                free = [m for _, m in sorted(held.items()) if m.locked_until <= self.clock.now][:count]
                for message in free:
                    message.locked_until = self.clock.now + LOCK_S
                return free
            case Send(items=items):
                if not self.primary_works:
                    return Sent(0, "outage", "away")
                self.home += [item.message for item in items]
                return Sent(len(items))
            case Settle(verb=verb, items=items):
                for item in items:
                    if verb == "complete":
                        held.pop(item.number)
                    else:
                        item.received.locked_until = 0.0
                return ["done"] * len(items)
            case Peek(number=number):
                if queue in self.unreadable:
                    return Unavailable("half-open")
                return [m for n, m in sorted(held.items()) if n >= number][:2]
            case Barred():
                return self.sessions.barred(queue)
            case Bar(keys=keys):
                return self.sessions.bar(queue, keys)
            case Lift(drained=drained):
                return self.sessions.lift(queue, drained)
            case Hold(keys=keys, seconds=seconds):
                return self.sessions.hold(queue, keys, seconds)

    # The judge -----------------------------------------------------------------------------------------------------

    @invariant()
    def the_session_arrives_in_order(self):
        firsts = list(dict.fromkeys(getattr(self, "home", [])))
        assert firsts == sorted(firsts), self.home

    def teardown(self):
        """Everything that was accepted comes home, in its order, and the barrier goes."""
        if not hasattr(self, "queues"):
            return
        self.primary_works = True
        self.unreadable.clear()
        for _ in range(6):
            self.clock.advance(LOCK_S + 200)
            for queue in QUEUES:
                self.a_syphon_works(queue, 12, False, 3)
                while self.queues[queue]:
                    self.clock.advance(2)
                    self.a_syphon_works(queue, 12, False, 3)
        self.the_session_arrives_in_order()
        assert set(range(self.accepted + 1)) <= set(self.home)
        assert all(not self.sessions.barred(queue) for queue in QUEUES)


@pytest.mark.slow
def test_a_session_that_one_process_at_a_time_writes_stays_in_order_whoever_dies(near_redis, monkeypatch):
    FleetLife.redis = near_redis
    monkeypatch.setattr(session_order, "_PAGES", 1)  # of two messages: no look reaches the end of a longer queue
    live(FleetLife, RUNS, steps=40)


@pytest.fixture
def life(near_redis):
    FleetLife.redis = near_redis
    life = FleetLife()
    life.begin()
    return life


def test_a_session_that_is_written_without_a_pause_gets_rid_of_its_barrier(life):
    """A message of the session arrives during each look at the queue, so that no look alone could lift the barrier."""
    writer = life.processes[0]
    writer.is_down = True
    life.a_process_refreshes(0)
    life.clock.advance(shared_sessions.RAISING_S)
    life.send(3)
    writer.is_down = False
    life.a_process_refreshes(0)
    barred = next(queue for queue in QUEUES if life.sessions.barred(queue))
    syphon = life.moving(life.syphons[barred], 1)
    action, longest_wait_s = next(syphon), 0.0
    for step in range(1000):
        if not life.sessions.barred(barred):
            break
        action = syphon.send(life.syphon_performs(barred, action))
        life.clock.advance(0.05)
        if step % 4 == 0 and life.flow is None:
            life.begin_to_send()
            began = life.clock.now
        if life.flow is not None:
            send_until_it_waits(life)
            longest_wait_s = max(longest_wait_s, life.clock.now - began)
        writer.gates._report_ended()
    assert not life.sessions.barred(barred)
    assert longest_wait_s <= 2.0
    while life.flow is not None:
        send_until_it_waits(life)
        life.clock.advance(0.05)
    life.send(1)
    assert life.home == list(range(life.next_body))


def send_until_it_waits(life):
    """A pause takes as long as whoever works meanwhile makes it."""
    if isinstance(life.action, Pause):
        life.advance_flow(None)
    while life.flow is not None and not isinstance(life.action, Pause):
        life.advance_flow(life.perform(life.action))


def begun_with_a_barrier(life):
    """A session whose barrier names a queue that the syphon has emptied; the syphon, about to receive again."""
    writer = life.processes[0]
    writer.is_down = True
    life.a_process_refreshes(0)
    life.clock.advance(shared_sessions.RAISING_S)
    life.send(1)
    queue = next(queue for queue in QUEUES if life.sessions.barred(queue))
    syphon = life.moving(life.syphons[queue], 3)
    action = next(syphon)
    while not life.home or not isinstance(action, Receive):
        action = syphon.send(life.syphon_performs(queue, action))
    return queue, syphon


def until_it_receives(life, queue, syphon, action):
    while not isinstance(action, Receive):
        action = syphon.send(life.syphon_performs(queue, action))
    return action


def assert_all_come_home(life, queue, syphon, action):
    while life.queues[queue]:
        action = syphon.send(life.syphon_performs(queue, action))
        life.clock.advance(0.5)
    assert life.home == [0, 1, 2]


def test_a_barrier_stays_while_a_send_behind_it_is_under_way(life):
    queue, syphon = begun_with_a_barrier(life)
    life.processes[0].is_down = False
    life.begins_to_send(asks=True)
    assert isinstance(life.action, ToBacklog)

    life.clock.advance(1.1)  # the syphon looks: nothing of the session is in the queue
    action = syphon.send(life.syphon_performs(queue, Receive(3, 0.1)))
    action = until_it_receives(life, queue, syphon, action)
    life.advance_flow(life.perform(life.action))
    life.send(1)
    assert_all_come_home(life, queue, syphon, action)


def test_a_message_waits_for_an_older_one_that_went_with_a_dead_link(life):
    queue, syphon = begun_with_a_barrier(life)
    life.send(1)
    older = next(iter(life.queues[queue].values()))
    older.locked_until = life.clock.now + LOCK_S  # the broker sent it over a link of which nobody reads
    life.send(1)

    action = syphon.send(life.syphon_performs(queue, Receive(3, 0.1)))
    action = until_it_receives(life, queue, syphon, action)
    assert life.home == [0]
    life.clock.advance(LOCK_S)
    assert_all_come_home(life, queue, syphon, action)


def test_a_message_waits_while_the_queue_cannot_be_searched_for_older_ones(life):
    queue, syphon = begun_with_a_barrier(life)
    life.send(2)
    life.queues[queue][2].locked_until = life.clock.now + LOCK_S

    action = syphon.send(life.syphon_performs(queue, Receive(3, 0.1)))
    assert isinstance(action, Peek)
    action = syphon.send(Unavailable("half-open"))
    assert isinstance(action, Settle)
    assert action.verb == "abandon"
    assert life.home == [0]


def test_messages_that_follow_each_other_need_no_search(life):
    queue, syphon = begun_with_a_barrier(life)
    life.send(3)

    action = syphon.send(life.syphon_performs(queue, Receive(3, 0.1)))
    while not isinstance(action, Receive):
        assert not isinstance(action, Peek)
        action = syphon.send(life.syphon_performs(queue, action))
    assert life.home == [0, 1, 2, 3]
