"""Whatever fails, whenever the syphon dies: nothing is lost, nothing changes its identity, duplicates are the same
message, and the ledger balances (docs/specification.md, section 8). The flow runs against a model of two brokers."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage
from azure.servicebus._pyamqp._encode import encode_payload
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport
from hypothesis import given, settings
from hypothesis import strategies as st

from pairing.drain import destinations
from pairing.drain.backlog_queue import BATCH, Failed, Kept, Progress, Sent
from pairing.drain.destinations import Connections, Destinations
from pairing.drain.flow import DrainFlow
from pairing.drain.ledger import Ledger
from pairing.drain.queue_state import PATIENCE_S as REDIS_PATIENCE_S
from pairing.drain.sending import PATIENCE_S
from pairing.drain.shared.pacing import Pacing
from pairing.messages.rewriting import to_backlog
from tests.pairing.steps import Answers, Count, Fetch, Keep, Peek, Queue, Receive, Renew, Rest, Send, Settle
from tests.selection import lives

START = datetime(2026, 11, 21, tzinfo=UTC)
PATHS = ("orders", "payments", "gone")
LOCK_S = 60.0
REDIS_TIMEOUT_S = 2.0
RECEIVED = 7
"""Messages a receive of this backlog queue."""


class Killed(BaseException):
    """The process dies here."""


@cache
def encoded(path: str, message_id: str, *, poisoned: bool) -> bytes:
    """What an application sends, on the wire: the same in each life, so encoded once."""
    message = ServiceBusMessage("body", message_id=message_id)
    sent = message if poisoned else to_backlog(message, path)
    outgoing = PyamqpTransport.to_outgoing_amqp_message(sent.raw_amqp_message)
    return bytes(encode_payload(bytearray(), outgoing))


@dataclass
class Stored:
    number: int
    message: ServiceBusReceivedMessage
    state: str = "ACTIVE"
    locked_until: float = 0.0
    lock: int = 0


@dataclass
class World:
    """A backlog queue, a primary, a clock, and the trouble there is."""

    trouble: list[str]
    now: float = 0.0
    queue: dict[int, Stored] = field(default_factory=dict)
    dead: dict[int, str] = field(default_factory=dict)
    home: list[tuple[str, str]] = field(default_factory=list)
    failed_over: set[str] = field(default_factory=set)
    locks: int = 0
    last_number: int = 0
    stored_ledger: str | None = None
    is_lease_ours: bool = True
    redis_away: tuple[float, float] = (math.inf, math.inf)
    """From when until when Redis does not answer."""
    did: list[Any] = field(default_factory=list)
    answers: dict[str, float] = field(default_factory=dict)
    """When a send to a silent entity fails."""

    def kept(self) -> Ledger:
        """The ledger that the next process finds."""
        return Ledger("queue-0") if self.stored_ledger is None else Ledger.from_json(json.loads(self.stored_ledger))

    def store(self, path: str, message_id: str, *, poisoned: bool) -> None:
        self.last_number = number = self.last_number + 1
        message = ServiceBusReceivedMessage.from_bytes(encoded(path, message_id, poisoned=poisoned))
        self.queue[number] = Stored(number, message)

    def fill(self, path: str, count: int) -> None:
        for number in range(count):
            self.store(path, f"{number}", poisoned=False)

    def strike(self) -> str:
        """The next trouble, if any."""
        return self.trouble.pop() if self.trouble else ""

    def handed_out(self, stored: Stored) -> SimpleNamespace:
        self.locks += 1
        stored.locked_until, stored.lock = self.now + LOCK_S, self.locks
        return self.seen(stored)

    def seen(self, stored: Stored) -> SimpleNamespace:
        return SimpleNamespace(
            raw_amqp_message=stored.message.raw_amqp_message,
            application_properties=stored.message.application_properties,
            sequence_number=stored.number,
            state=SimpleNamespace(name=stored.state),
            enqueued_time_utc=START,
            lock=stored.lock,
        )

    def perform(self, action):
        trouble = self.strike()
        self.now += 0.01
        if trouble == "killed before":
            raise Killed
        outcome = self.do(action, trouble)
        self.did.append(action)
        if trouble == "killed after":
            raise Killed
        return outcome

    def do(self, action, trouble):
        match action:
            case Receive():
                return Failed("no answer") if trouble == "backlog away" else self.receive(action)
            case Fetch(numbers=numbers):
                if trouble == "backlog away":
                    return Failed("no answer")
                return [self.handed_out(self.queue[n]) for n in numbers if n in self.queue and self.is_free(n)]
            case Peek(number=number):
                if trouble == "backlog away":
                    return Failed("no answer")
                return [self.seen(s) for n, s in sorted(self.queue.items()) if n >= number][:BATCH]
            case Count():
                return len(self.queue)
            case Keep(ledger=ledger):
                if self.is_redis_away():
                    self.now += REDIS_TIMEOUT_S
                    return Kept.IN_MEMORY
                self.stored_ledger = json.dumps(ledger.to_json())
                return Kept.STORED if self.is_lease_ours else Kept.REFUSED
            case Send(path=path) if path.startswith("silent"):
                self.answers[path] = self.now + 10.0
                return None
            case Send():
                return self.send(action, trouble)
            case Answers(wait_s=wait_s):
                self.now = min([self.now + wait_s, *(max(self.now, at) for at in self.answers.values())])
                over = [path for path, at in self.answers.items() if at <= self.now]
                return [(path, Sent(0, "outage", "no answer")) for path in over if self.answers.pop(path)]
            case Settle():
                return self.settle(action, trouble)
            case Renew(items=items):
                for item in items:
                    stored = self.queue.get(item.number)
                    if stored is not None and stored.lock == item.received.lock and stored.locked_until > self.now:
                        stored.locked_until = self.now + LOCK_S
                return None
            case Rest(seconds=seconds):
                self.now += seconds
                return None

    def is_redis_away(self) -> bool:
        return self.redis_away[0] <= self.now < self.redis_away[1]

    def is_free(self, number: int) -> bool:
        return self.queue[number].locked_until <= self.now

    def receive(self, action):
        ready = [s for n, s in sorted(self.queue.items()) if s.state == "ACTIVE" and self.is_free(n)]
        if not ready:
            self.now += action.wait_s
        return [self.handed_out(stored) for stored in ready[: min(action.count, RECEIVED)]]

    def send(self, action, trouble):
        if action.path == "gone":
            return Sent(0, "final", "no such entity")
        count = len(action.items) // 2 if trouble in ("outage", "busy", "refused") else len(action.items)
        if trouble == "slow":
            self.now += 45
        self.home += [(action.path, item.message.message_id) for item in action.items[:count]]
        if trouble == "no acknowledgement":
            return Sent(0, "outage", "no answer")
        if trouble in ("outage", "busy", "refused"):
            return Sent(count, {"refused": "message"}.get(trouble, trouble), trouble)
        return Sent(count)

    def settle(self, action, trouble):
        assert action.verb == "dead_letter" or len({item.fetched for item in action.items}) == 1
        outcomes = []
        for item in action.items:
            stored = self.queue.get(item.number)
            if stored is None or stored.lock != item.received.lock or stored.locked_until <= self.now:
                outcomes.append("lost")
                continue
            if trouble != "settlement lost":
                self.settle_one(stored, action.verb)
            outcomes.append("unknown" if trouble in ("settlement lost", "settlement unknown") else "done")
        return outcomes

    def settle_one(self, stored: Stored, verb: str) -> None:
        stored.locked_until = 0.0
        match verb:
            case "complete":
                del self.queue[stored.number]
            case "defer":
                stored.state = "DEFERRED"
            case "dead_letter":
                self.dead[stored.number] = self.queue.pop(stored.number).message.message_id


def syphon(world: World, ledger: Ledger, steps: int, *, max_attempts: int = 2, pacing=None, report=None) -> DrainFlow:
    left = [steps]

    def may_work() -> bool:
        left[0] -= 1
        return left[0] > 0 and bool(world.queue or world.trouble or ledger.pending)

    return DrainFlow(
        Queue(),
        Progress("queue-0", ledger),
        Destinations(
            world.failed_over.__contains__, Connections(lambda path: SimpleNamespace(sender=path)), pacing=pacing
        ),
        report or (lambda *event: None),
        may_work=may_work,
        now=lambda: world.now,
        utc_now=lambda: START + timedelta(seconds=world.now),
        max_attempts=max_attempts,
    )


def steps_of(world: World, syphon_flow: DrainFlow) -> Iterator[Any]:
    """Each step before the world performs it; the syphon dies where nobody asks for the next one."""
    with closing(syphon_flow.run()) as flow, suppress(StopIteration, Killed):
        action = flow.send(None)
        while True:
            yield action
            action = flow.send(world.perform(action))


def drive(world: World, syphon_flow: DrainFlow) -> None:
    for _ in steps_of(world, syphon_flow):
        pass


TROUBLE = [
    *("", "", "", "killed before", "killed after", "backlog away", "outage", "busy", "refused", "slow"),
    *("no acknowledgement", "settlement lost", "settlement unknown"),
]


@settings(max_examples=lives(1500), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(PATHS), st.booleans(), st.booleans()), min_size=1, max_size=25),
    st.lists(st.sampled_from(TROUBLE), max_size=40),
    st.sets(st.sampled_from(PATHS)),
)
def test_every_message_comes_home_or_is_dead_lettered_with_a_reason(messages, trouble, failed_over):
    world = World(trouble, failed_over=failed_over)
    accepted = {}
    for number, (path, poisoned, twin) in enumerate(messages):
        accepted[f"id-{number}"] = path
        world.store(path, f"id-{number}", poisoned=poisoned and twin)
    while world.trouble:  # each syphon dies, is stopped, or works through its share of the trouble
        drive(world, syphon(world, world.kept(), steps=60))
    world.failed_over.clear()
    bring_the_rest_home(world)
    assert_nothing_is_lost(world, accepted)


def bring_the_rest_home(world: World) -> None:
    for _ in range(6):
        world.now += LOCK_S
        drive(world, syphon(world, world.kept(), steps=4000))


def assert_nothing_is_lost(world: World, accepted: dict[str, str]) -> None:
    assert not world.queue
    came_home = Counter(message_id for _, message_id in world.home)
    assert all(accepted[message_id] == path for path, message_id in world.home)
    assert came_home.keys() | set(world.dead.values()) == accepted.keys()
    assert world.kept().balance(0).missing == 0


def deferred_world() -> World:
    """Three messages that a syphon has deferred, because their entity was failed over."""
    world = World([], failed_over={"payments"})
    for number in range(3):
        world.store("payments", f"id-{number}", poisoned=False)
    drive(world, syphon(world, world.kept(), steps=30))
    assert [stored.state for stored in world.queue.values()] == ["DEFERRED"] * 3
    world.failed_over.clear()
    return world


def test_a_deferred_message_that_a_dead_syphon_had_fetched_is_moved_once_its_lock_is_over():
    """It cannot be fetched until then, which does not mean that it is gone."""
    world = deferred_world()
    for stored in world.queue.values():
        world.handed_out(stored)  # to a process that is killed before it sends them
    began = world.now
    for _ in steps_of(world, syphon(world, world.kept(), steps=4000)):
        assert world.now < began + 2 * LOCK_S
    assert [message_id for _, message_id in world.home] == ["id-0", "id-1", "id-2"]


def test_deferred_messages_are_searched_again_soon_where_the_search_failed():
    world = deferred_world()
    world.trouble = ["backlog away"]
    began = world.now
    for _ in steps_of(world, syphon(world, world.kept(), steps=4000)):
        assert world.now < began + 30
    assert not world.queue


def test_a_fetch_that_succeeds_ends_the_increasing_pause_after_failures():
    """Where only deferred messages are left, nothing else is received."""
    world = deferred_world()
    flow = syphon(world, world.kept(), steps=4000)
    flow.in_turn = lambda numbers: numbers[:1]
    fetches, began = 0, world.now
    for action in steps_of(world, flow):
        if isinstance(action, Fetch):  # every other one fails
            fetches += 1
            world.trouble = ["backlog away"] if fetches % 2 else []
    assert not world.queue
    assert fetches == 6
    assert world.now < began + 5  # three pauses of about a second


def test_a_deferred_message_that_is_really_gone_is_not_looked_for_any_more():
    world = deferred_world()
    flow = syphon(world, world.kept(), steps=4000)
    for _ in steps_of(world, flow):
        if flow.progress.deferred:
            world.queue.pop(1, None)  # by another one
    assert not world.queue
    assert flow.progress.deferred == 0


def dying_at_every_step(make: Callable[[], World]) -> Iterator[World]:
    """Worlds whose first syphon dies before its first step or after each in turn, as the next processes leave them.

    These have only what the brokers and the ledger contain, which is the same right before the next step.
    """
    world = make()
    lived = sum(1 for _ in steps_of(world, syphon(world, world.kept(), steps=400)))
    for trouble in (["killed before"], *(["killed after", *[""] * step] for step in range(lived + 1))):
        world = make()
        world.trouble = trouble
        drive(world, syphon(world, world.kept(), steps=400))
        world.trouble, world.redis_away = [], (math.inf, math.inf)
        world.failed_over.clear()
        bring_the_rest_home(world)
        yield world


@pytest.mark.slow
def test_power_may_fail_at_every_step_and_nothing_is_lost():
    accepted = {f"id-{number}": PATHS[number % 3] for number in range(20)}

    def make() -> World:
        world = World([], failed_over={"payments"})
        for number, (message_id, path) in enumerate(accepted.items()):
            world.store(path, message_id, poisoned=number == 7)
        return world

    worlds = [assert_nothing_is_lost(world, accepted) for world in dying_at_every_step(make)]
    assert len(worlds) > 30


@pytest.mark.parametrize("later", range(6))
def test_who_is_killed_while_redis_is_away_leaves_no_wrong_entry_in_the_ledger(later):
    """A dead letter must not be shown as restored, although the ledger announced it so before Redis went away."""
    for away_after in range(25):
        world = World([], redis_away=(0.01 * away_after + 0.005, 30.0))
        for number, path in enumerate(("orders", "gone", "orders")):
            world.store(path, f"id-{number}", poisoned=number == 2)
        world.trouble = ["killed after", *[""] * (away_after + later)]
        drive(world, syphon(world, world.kept(), steps=400, max_attempts=1))
        world.trouble, world.redis_away = [], (math.inf, math.inf)
        bring_the_rest_home(world)
        assert not world.queue
        ledger = world.kept()
        assert {fate: ledger.count(fate) for fate in ("restored", "dead_lettered")} == {
            "restored": 1,
            "dead_lettered": 2,
        }, f"Redis away after {away_after} steps"
        assert sorted(world.dead.values()) == ["id-1", "id-2"]


def without_redis(seconds: float) -> World:
    """A world whose Redis goes away after the first messages have come home."""
    world = World([], redis_away=(0.2, 0.2 + seconds))
    for number in range(10 * RECEIVED):
        world.store("orders", f"id-{number}", poisoned=False)
    return world


def test_nothing_is_sent_while_the_ledger_cannot_be_stored():
    world = without_redis(30)
    for action in steps_of(world, syphon(world, world.kept(), steps=4000)):
        assert not (isinstance(action, Send) and world.is_redis_away())
    assert [message_id for _, message_id in world.home] == [f"id-{n}" for n in range(10 * RECEIVED)]
    assert world.kept().balance(0).missing == 0
    assert world.now > 30


def test_after_a_minute_without_redis_messages_wait_no_longer():
    world = without_redis(math.inf)
    drive(world, syphon(world, world.kept(), steps=4000))
    assert [message_id for _, message_id in world.home] == [f"id-{n}" for n in range(10 * RECEIVED)]
    assert REDIS_PATIENCE_S < world.now < 2 * REDIS_PATIENCE_S


@pytest.mark.slow
def test_who_is_killed_while_redis_is_away_takes_along_no_entry_of_the_ledger():
    """What is being sent when it goes away was announced before."""
    gaps = []
    for world in dying_at_every_step(lambda: without_redis(30)):
        assert not world.queue
        assert {message_id for _, message_id in world.home} == {f"id-{n}" for n in range(10 * RECEIVED)}
        gaps.append(world.kept().balance(0).missing)
    assert len(gaps) > 50
    assert max(gaps) == 0


@settings(max_examples=lives(300), deadline=None)
@given(st.lists(st.sampled_from(("orders", "payments")), min_size=1, max_size=40), st.sets(st.sampled_from(PATHS)))
def test_without_trouble_each_destination_gets_its_messages_once_and_in_order(paths, failed_over):
    world = World([], failed_over=failed_over)
    for number, path in enumerate(paths):
        world.store(path, f"{number}", poisoned=False)
    for _ in steps_of(world, syphon(world, Ledger("queue-0"), steps=4000)):
        if world.now > 100:
            failed_over.clear()
    for path in set(paths):
        assert [id_ for home, id_ in world.home if home == path] == [str(n) for n, p in enumerate(paths) if p == path]


def test_locks_of_messages_whose_turn_comes_later_are_renewed_too():
    """Seven slow destinations: the last one's turn comes long after the locks of the receive would have ended."""
    paths = [f"entity-{n}" for n in range(7)]
    world = World(trouble=[])
    for path in paths:
        world.store(path, path, poisoned=False)
    do = world.do

    def slowly(action, trouble):
        world.now += 15.0 if isinstance(action, Send) else 0.0
        return do(action, trouble)

    world.do = slowly
    drive(world, syphon(world, Ledger("queue-0"), 200))
    assert world.home == [(path, path) for path in paths]
    assert not world.queue


def test_an_empty_receive_is_no_proof_of_an_empty_queue():
    world = World([])
    world.store("orders", "1", poisoned=False)
    world.queue[1].state = "NEVER DELIVERED"
    reported = []
    drive(world, syphon(world, Ledger("queue-0"), 3000, report=lambda *event: reported.append((world.now, *event))))
    assert reported[0][0] > 900
    assert reported[0][1:] == ("set_aside", "queue-0", "receives nothing, 1 waiting")


def test_attempts_are_counted_through_restarts():
    """Ten attempts, and ten processes that die after one each: the eleventh finds nothing to try."""
    world = World([])
    world.store("gone", "id-0", poisoned=False)
    for attempt in range(1, 5):
        assert world.kept().attempts.get(1, 0) == attempt - 1
        for _ in steps_of(world, syphon(world, world.kept(), steps=400, max_attempts=5)):
            if world.kept().attempts.get(1, 0) == attempt:
                break  # the attempt is on record, and the process dies
        world.now += LOCK_S
    assert not world.dead
    drive(world, syphon(world, world.kept(), steps=400, max_attempts=5))
    assert world.dead == {1: "id-0"}


def test_a_paced_destination_holds_up_no_other_and_keeps_its_pace_and_order():
    world = World([])
    for number in range(140):
        world.store("orders" if number % 2 else "payments", f"{number}", poisoned=False)
    pacing = Pacing()
    pacing.obey({"orders": 2}, 1.0)
    all_paid_at = None
    for _ in steps_of(world, syphon(world, Ledger("queue-0"), steps=100_000, pacing=pacing)):
        paid = sum(path == "payments" for path, _ in world.home)
        all_paid_at = all_paid_at or (world.now if paid == 70 else None)
    assert all_paid_at < 5
    assert 33 <= world.now < 60
    for path, first in (("payments", 0), ("orders", 1)):
        assert [id_ for home, id_ in world.home if home == path] == [str(n) for n in range(first, 140, 2)]


def test_messages_of_a_held_entity_are_deferred_without_a_pause_and_then_come_in_turn_with_new_ones():
    world = World([], failed_over={"payments"})
    world.fill("payments", 700)
    world.store("orders", "first", poisoned=False)
    steps = steps_of(world, syphon(world, Ledger("queue-0"), steps=100_000))
    while not world.home:
        next(steps)
    assert not [action for action in world.did if isinstance(action, Rest)]
    assert sum(stored.state == "DEFERRED" for stored in world.queue.values()) == 700
    world.failed_over.clear()
    for number in range(3 * RECEIVED):
        world.store("invoices", f"new-{number}", poisoned=False)
    while sum(path == "invoices" for path, _ in world.home) < 3 * RECEIVED:
        next(steps)
    deferred = sum(path == "payments" for path, _ in world.home)
    assert 0 < deferred < 700
    for _ in steps:
        continue
    assert [id_ for path, id_ in world.home if path == "payments"] == [str(n) for n in range(700)]


def test_silent_entities_keep_none_from_its_messages_and_are_tried_with_one_message_and_growing_pauses():
    world = World([])
    for number in range(1600):
        world.store(f"silent-{number // 100}", f"{number}", poisoned=False)
    world.store("orders", "first", poisoned=False)
    steps = steps_of(world, syphon(world, Ledger("queue-0"), steps=100_000))
    while not world.home:
        next(steps)
    assert world.now < 16 * (PATIENCE_S + 1)  # nobody knew of any of them
    while world.now < 300:
        next(steps)
    began = world.now
    world.store("orders", "later", poisoned=False)
    while len(world.home) < 2:
        next(steps)
    assert world.now - began < 1
    tried = [action for action in world.did if isinstance(action, Send) and action.path == "silent-3"]
    assert 8 <= len(tried) <= 12
    assert [len(action.items) for action in tried][1:] == [1] * (len(tried) - 1)


def test_nothing_is_fetched_for_which_no_place_is_left(monkeypatch):
    monkeypatch.setattr(destinations, "PLACES", 8)
    world = World([])
    for number in range(20):
        world.store(f"silent-{number}", f"{number}", poisoned=False)
    steps = steps_of(world, syphon(world, Ledger("queue-0"), steps=100_000))
    while world.now < 300:
        next(steps)
    fetched = sum(len(action.numbers) for action in world.did if isinstance(action, Fetch))
    tried = [item for action in world.did if isinstance(action, Send) for item in action.items]
    assert fetched == sum(item.fetched for item in tried) > 40
    assert {item.path for item in tried} == {f"silent-{number}" for number in range(20)}


def test_what_this_process_lacks_is_no_failure_of_an_entity_and_lets_no_message_overtake_another():
    world, short = World([]), 3 * [Sent(0, "shortage", "Too many open files")]
    world.fill("orders", 3 * RECEIVED)
    send = world.send
    world.send = lambda action, trouble: short.pop() if short else send(action, trouble)
    flow = syphon(world, Ledger("queue-0"), steps=4000)
    drive(world, flow)
    assert flow.progress.last_error == "Too many open files"
    assert not flow._destinations.is_blocked("orders", world.now)
    assert world.now > 30
    assert [id_ for _, id_ in world.home] == [str(n) for n in range(3 * RECEIVED)]


def test_what_is_only_for_a_paced_destination_waits_where_it_is():
    """To defer costs operations: it is done only where others would wait."""
    world = World([])
    world.fill("orders", 30)
    pacing = Pacing(max_rate=0.05)  # a receive takes longer than its locks, which are renewed
    drive(world, syphon(world, Ledger("queue-0"), steps=10_000, pacing=pacing))
    assert world.now > 500
    assert not [action for action in world.did if isinstance(action, Settle) and action.verb == "defer"]
    assert [id_ for _, id_ in world.home] == [str(n) for n in range(30)]


def test_who_has_lost_the_queue_to_another_completes_nothing_and_ends():
    world = World([])
    world.fill("orders", 3)
    world.store("orders", "poisoned", poisoned=True)
    world.is_lease_ours = False
    drive(world, syphon(world, Ledger("queue-0"), steps=10_000))
    assert not [action for action in world.did if isinstance(action, Settle) and action.verb != "abandon"]
    assert len(world.queue) == 4
    assert len([action for action in world.did if isinstance(action, Receive)]) == 1


def test_an_incident_ends_when_the_queue_is_drained():
    world = World([])
    world.fill("orders", 3)
    syphon_flow = syphon(world, Ledger("queue-0"), steps=200)
    syphon_flow._has_leave = partial(next, iter([True] * 200), False)
    drive(world, syphon_flow)
    [incident] = world.kept().incidents
    assert incident.ended_at is not None
    assert world.kept().balance_of(incident).fates["restored"] == 3


@pytest.mark.parametrize("trouble", ["outage", "busy"])
@pytest.mark.parametrize("becomes", ["it delivers again", "the entity fails over"])
def test_a_syphon_that_receives_and_delivers_nothing_says_since_when_and_gives_up_nothing(trouble, becomes):
    """It is hindered no more once it delivers or waits rightly."""
    world = World([])
    world.store("orders", "1", poisoned=False)
    world.strike = lambda: trouble
    syphon_flow = syphon(world, Ledger("queue-0"), steps=60, max_attempts=1)
    drive(world, syphon_flow)
    since = syphon_flow.progress.hindered_since
    assert since < START + timedelta(seconds=1) < START + timedelta(seconds=world.now)
    assert not world.dead
    world.strike = lambda: ""
    world.failed_over |= {"orders"} if becomes == "the entity fails over" else set()
    syphon_flow._has_leave = syphon(world, Ledger("queue-0"), steps=600)._has_leave
    drive(world, syphon_flow)
    assert syphon_flow.progress.hindered_since is None
    assert bool(world.home) is (becomes == "it delivers again")
