"""Whatever fails, whenever the syphon dies: nothing is lost, nothing changes its identity, duplicates are the same
message, and the books balance (docs/specification.md, section 8). The flow is driven against a model of two brokers."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage
from azure.servicebus._pyamqp._encode import encode_payload
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport
from hypothesis import given, settings
from hypothesis import strategies as st

from pairing.destinations import Destinations
from pairing.homecoming import Homecoming
from pairing.ledger import Ledger
from pairing.messages import to_backlog
from pairing.moves import (
    BATCH,
    Count,
    Failed,
    Fetch,
    Keep,
    Peek,
    Progress,
    Receive,
    Renew,
    Rest,
    Send,
    Sent,
    Settle,
)

START = datetime(2026, 11, 21, tzinfo=UTC)
PATHS = ("orders", "payments", "gone")
LOCK_S = 60.0


class Killed(BaseException):
    """The process dies here."""


def received(message: ServiceBusMessage) -> ServiceBusReceivedMessage:
    outgoing = PyamqpTransport.to_outgoing_amqp_message(message.raw_amqp_message)
    return ServiceBusReceivedMessage.from_bytes(bytes(encode_payload(bytearray(), outgoing)))


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

    def store(self, path: str, message_id: str, *, poisoned: bool) -> None:
        number = len(self.queue) + 1
        message = ServiceBusMessage("body", message_id=message_id)
        sent = message if poisoned else to_backlog(message, path)
        self.queue[number] = Stored(number, received(sent))

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
            case Keep():
                return None
            case Send():
                return self.send(action, trouble)
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

    def is_free(self, number: int) -> bool:
        return self.queue[number].locked_until <= self.now

    def receive(self, action):
        ready = [s for n, s in sorted(self.queue.items()) if s.state == "ACTIVE" and self.is_free(n)]
        if not ready:
            self.now += action.wait_s
        return [self.handed_out(stored) for stored in ready[: min(action.count, 7)]]

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


def syphon(world: World, ledger: Ledger, steps: int) -> Homecoming:
    left = [steps]

    def may_work() -> bool:
        left[0] -= 1
        return left[0] > 0 and bool(world.queue or world.trouble or ledger.pending)

    return Homecoming(
        Progress("queue-0", ledger),
        Destinations(world.failed_over.__contains__),
        SimpleNamespace(tell=lambda *told: None),
        may_work=may_work,
        now=lambda: world.now,
        utc_now=lambda: START + timedelta(seconds=world.now),
        max_attempts=2,
    )


def drive(world: World, homecoming: Homecoming) -> None:
    flow = homecoming.run()
    outcome = None
    try:
        while True:
            outcome = world.perform(flow.send(outcome))
    except (StopIteration, Killed):
        flow.close()


TROUBLE = [
    *("", "", "", "killed before", "killed after", "backlog away", "outage", "busy", "refused", "slow"),
    *("no acknowledgement", "settlement lost", "settlement unknown"),
]


@settings(max_examples=1500, deadline=None)
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
    ledger = Ledger("queue-0")
    while world.trouble:  # each syphon dies, is stopped, or works through its share of the trouble
        drive(world, syphon(world, ledger, steps=60))
    world.failed_over.clear()
    for _ in range(6):
        world.now += LOCK_S
        drive(world, syphon(world, ledger, steps=4000))

    assert not world.queue
    came_home = Counter(message_id for _, message_id in world.home)
    assert all(accepted[message_id] == path for path, message_id in world.home)
    given_up = set(world.dead.values())
    assert came_home.keys() | given_up == accepted.keys()
    assert ledger.balance(0).missing == 0


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(("orders", "payments")), min_size=1, max_size=40), st.sets(st.sampled_from(PATHS)))
def test_without_trouble_each_destination_gets_its_messages_once_and_in_order(paths, failed_over):
    world = World([], failed_over=failed_over)
    for number, path in enumerate(paths):
        world.store(path, f"{number}", poisoned=False)
    homecoming = syphon(world, Ledger("queue-0"), steps=4000)
    flow, outcome = homecoming.run(), None
    try:
        while True:
            action = flow.send(outcome)
            if world.now > 100:
                failed_over.clear()
            outcome = world.perform(action)
    except StopIteration:
        pass
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
    told = []
    homecoming = syphon(world, Ledger("queue-0"), steps=3000)
    homecoming._listener = SimpleNamespace(tell=lambda *event: told.append((world.now, *event)))
    drive(world, homecoming)
    assert told[0][0] > 900
    assert told[0][1:] == ("set_aside", "queue-0", "receives nothing, 1 waiting")
